"""States at which the expert looks at something or runs a command, and pairs at them, labelled by what is printed.

A view is for the function that the state is about. Another view does the same where it shows all of that function, in
the tree and in each varied copy in which it stands where the state says, and of other lines at most six more or fewer
than the expert's. It does something else where it does not show all of it. What lies between (all of it, and much more)
is not in the set.

A search or a command does the same where it prints the same lines, ends with the same status and leaves the same files,
in the tree and in each varied copy; the order of lines counts but for what a recursive grep or find lists, and `./` at
the beginning of a path does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tests.labelled.making.software_commands import TASKS, Place, Task
from tests.labelled.making.software_dialects import CLAUDE, MINI, OPENHANDS, SWE_AGENT, Call, Dialect
from tests.labelled.making.software_states import Pair, State, history, span
from tests.labelled.making.software_tasks import Function
from tests.labelled.making.software_worlds import Ran, Tree, run_all

SLACK = 6
"""Lines beside the function that a view may show more or fewer than the expert's."""
_REFUSED = re.compile(
    r"command not found|No such file|(?:invalid|unrecognized|illegal|unknown) option|[Uu]sage:|[Ss]yntax ?[Ee]rror|"
    r"[Nn]ot a directory|Try '|missing operand|cannot access|ModuleNotFoundError|ImportError|NameError|unmatched|"
    r"unexpected EOF"
)
"""What a shell or a tool says of a command that is none: it is not hard to tell from the expert's."""
_HERE = re.compile(r"(^|[\s:])\./", re.MULTILINE)


def places(functions: Sequence[Function], trees: Mapping[str, Tree]) -> list[Place]:
    """Each function with its neighbour and its lines."""
    found = []
    for one in functions:
        mates = [other for other in functions if (other.package, other.module) == (one.package, one.module)]
        mate = mates[(mates.index(one) + 1) % len(mates)]
        older = next(other.module for other in functions if other.package == one.package)
        found.append(Place(one, mate, *span(one, trees[one.package][one.path]), older))
    return found


def _state(sort: str, dialect: Dialect, at: Place, tree: Tree, expert: Call, task: str, seen: str) -> State:
    """The agent knows of the issue, and where the function stands from a search."""
    said = f"Issue: {at.one.part('issue')}\n\nThe repository is in {dialect.root or '/testbed'}. Next: {task}."
    look = dialect.search(f"def {at.one.name}", at.one.package)
    line = f"{at.path}:{at.first}:def {at.one.name}"
    place = f"workspaces/{at.one.package}.tar.gz"
    return State(sort, dialect, tree, place, history(said, (look, seen or line)), expert,
                 task, at.one, at.path, need=(at.first, at.last))  # fmt: skip


def view_states(all_places: Sequence[Place], trees: Mapping[str, Tree]) -> list[State]:
    """Every third function, seen with lines around it."""
    states = []
    for number, at in enumerate(all_places[::3]):
        dialect = (OPENHANDS, CLAUDE)[number % 2]
        tree = trees[at.one.package]
        length = tree[at.path].count("\n")
        around = (2, 3, 1, 4)[number % 4]
        first, last = max(1, at.first - around), min(length, at.last + around)
        task = f"look at {at.one.name} in {at.path}, lines {first} to {last}"
        states.append(_state("view", dialect, at, tree, dialect.view(at.path, first, last), task, ""))
    return states


def lines_of(call: Call) -> tuple[str, int, int | None] | None:
    """(path in the tree, first, last) of a view by tool; last None: to the end. None for a call that is refused."""
    given = call.arguments
    path = given.get("path", given.get("file_path"))
    if not isinstance(path, str) or not path:
        return None
    inside = (
        re.sub(r"/(\./)+|//+", "/", path).removeprefix("/workspace/proj").removeprefix("/home/user/proj").lstrip("/")
    )
    if "offset" in given or "limit" in given or call.name == "Read":
        first = given.get("offset", 1)
        return inside, first, first + given["limit"] - 1 if "limit" in given else None
    first, last = given.get("view_range", [1, -1])
    return inside, first, None if last == -1 else last


def rewritten_views(states: Sequence[State]) -> list[Pair]:
    pairs = []
    for state in states:
        inside, first, last = lines_of(state.expert) or ("", 1, 1)
        assert last is not None
        length = state.tree[inside].count("\n")
        begin, end = state.need
        view = state.dialect.view
        options: list[tuple[str, str, Call]] = [
            ("valid", "range_moved_a_little", view(inside, max(1, first - 1), last)),
            ("valid", "range_moved_a_little", view(inside, first, min(length, last + 1))),
            ("valid", "path_spelling", _respelt(view(inside, first, last), state.dialect)),
            ("wrong", "range_beside", view(inside, last + 1, last + 1 + last - first)),
            ("wrong", "range_cut", view(inside, first, (begin + end) // 2)),
            ("wrong", "range_cut", view(inside, (begin + end) // 2 + 1, last)),
            ("wrong", "other_file", view(f"tests/test_{inside.rpartition('/')[2]}", first, last)),
            ("wrong", "missing_argument", _without_path(state.expert)),
        ]
        if last >= length - 3:
            rest = {"view_range": [first, -1]} if state.dialect is OPENHANDS else {}
            bare = {name: value for name, value in state.expert.arguments.items() if name != "limit"}
            options.append(("valid", "range_to_the_end", Call(state.expert.name, {**bare, **rest})))
        pairs += _one_of_each(state, options)
    return pairs


def _one_of_each(state: State, options: Sequence[tuple[str, str, Call]]) -> Iterator[Pair]:
    """A pair of each meaning, another kind at another state."""
    start = int(state.id[:6], 16)
    for meant in ("valid", "wrong"):
        some = [(kind, call) for what, kind, call in options if what == meant]
        kind, call = some[start % len(some)]
        yield Pair(state, call, "rewritten", kind, meant=meant)


def _respelt(call: Call, dialect: Dialect) -> Call:
    name = "path" if "path" in call.arguments else "file_path"
    return Call(call.name, {**call.arguments, name: call.arguments[name].replace(dialect.root, f"{dialect.root}/.")})


def _without_path(call: Call) -> Call:
    return Call(call.name, {key: value for key, value in call.arguments.items() if key not in ("path", "file_path")})


def label_view(pair: Pair, copies: Sequence[Tree]) -> None:
    """Set the label of a view, or leave it empty where it is neither."""
    state = pair.state
    pair.established = "by_construction"
    seen = lines_of(pair.call)
    wanted = lines_of(state.expert)
    assert wanted is not None
    assert state.function is not None
    if seen is None:
        pair.label = "wrong"
        return
    same, told = True, True
    for tree in (state.tree, *copies):
        shown, expected = _shown(tree, *seen), _shown(tree, *wanted)
        needed = set(range(*_need(state.function, tree)))
        whole = seen[0] == wanted[0] and needed <= shown
        if (min(needed), max(needed)) != state.need or not needed <= expected:
            continue  # the state says where the function stands, and in this copy it does not
        same = same and whole
        told = told and len(shown ^ expected) <= SLACK
    pair.label = "wrong" if not same else "valid" if told else ""


def _need(one: Function, tree: Tree) -> tuple[int, int]:
    first, last = span(one, tree[one.path])
    return first, last + 1


def _shown(tree: Tree, inside: str, first: int, last: int | None) -> set[int]:
    length = tree.get(inside, "").count("\n")
    return set(range(max(1, first), min(length, length if last is None else last) + 1))


def command_states(all_places: Sequence[Place], trees: Mapping[str, Tree]) -> list[tuple[State, Task]]:
    """Each task at four functions, in shells of four agents."""
    states = []
    for number, make in enumerate(TASKS):
        for turn in range(4):
            at = all_places[(number * 5 + turn * 21) % len(all_places)]
            dialect = (OPENHANDS, MINI, CLAUDE, SWE_AGENT)[(number + turn) % 4]
            task = make(at)
            state = _state("command", dialect, at, trees[at.one.package], dialect.run(task.expert), task.text, "")
            states.append((state, task))
    return states


def rewritten_commands(states: Sequence[tuple[State, Task]]) -> list[Pair]:
    return [
        Pair(state, state.dialect.run(command), "rewritten", f"{task.kind}_{side}", meant=meant)
        for state, task in states
        for meant, side, commands in (("valid", "spelt_otherwise", task.same), ("wrong", "looks_alike", task.other))
        for command in _some(commands, state.id)
    ]


def _some(commands: Sequence[str], state: str) -> Iterator[str]:
    """One of them, another one at another state."""
    yield commands[int(state[:6], 16) % len(commands)]


def search_states(all_places: Sequence[Place], trees: Mapping[str, Tree]) -> list[State]:
    """Searches by tools of their own: Claude Code's Grep and Glob, SWE-agent's search_dir and find_file."""
    states = []
    for number, at in enumerate(all_places[1::4]):
        name, package, module = at.one.name, at.one.package, at.one.module
        choices = (
            (CLAUDE, CLAUDE.search(f"def {name}", package), f"find where {name} is defined in {package}"),
            (SWE_AGENT, SWE_AGENT.search(name, "tests"), f"find what mentions {name} in tests"),
            (CLAUDE, Call("Glob", {"pattern": "tests/*.py"}), "list the Python files of the folder tests"),
            (SWE_AGENT, Call("find_file", {"file_name": f"test_{module}.py"}), f"find the file test_{module}.py"),
            (
                CLAUDE,
                Call("Grep", {"pattern": name, "output_mode": "files_with_matches"}),
                f"find which files mention {name}",
            ),
        )
        dialect, expert, task = choices[number % len(choices)]
        states.append(_state("search", dialect, at, trees[package], expert, task, f"{package}/{module}.py"))
    return states


def rewritten_searches(states: Sequence[State], all_places: Sequence[Place]) -> list[Pair]:
    known = {at.one.name: at for at in all_places}
    pairs = []
    for state in states:
        assert state.function is not None
        given, name, mate = dict(state.expert.arguments), state.function.name, known[state.function.name].mate.name
        key = next(key for key in ("pattern", "search_term", "file_name") if key in given)
        text = given[key]

        def other(_given: dict[str, object] = given, _state: State = state, **changed: object) -> Call:
            return Call(_state.expert.name, {k: v for k, v in {**_given, **changed}.items() if v is not None})

        options = [("wrong", "missing_argument", other(**{key: None}))]
        if state.expert.name == "Grep":
            where = given.get("path")
            options += [
                ("valid", "pattern_spelling", other(pattern=text.replace(" ", "\\s+") if " " in text else f"({text})")),
                ("valid", "pattern_spelling", other(pattern=text.replace("e", "[e]", 1))),
                ("valid", "path_spelling", other(path=f"{where}/" if where else "/home/user/proj")),
                ("valid", "flag_off", other(**{"-i": False})),
                ("wrong", "other_pattern", other(pattern=text.replace(name, mate))),
                ("wrong", "other_folder", other(path="/home/user/proj/tests" if where else "/home/user/proj/examples")),
                ("wrong", "other_output", other(output_mode="count")),
                ("wrong", "other_files", other(glob="*.txt")),
                ("wrong", "other_pattern", other(pattern=f"^{text}$")),
            ]
        elif state.expert.name == "Glob":
            options += [
                ("valid", "path_spelling", other(path="/home/user/proj")),
                ("valid", "folder_in_path", other(pattern="*.py", path="/home/user/proj/tests")),
                ("valid", "pattern_spelling", other(pattern="tests/*.[p]y")),
                ("wrong", "other_pattern", other(pattern="tests/*.txt")),
                ("wrong", "other_pattern", other(pattern="*/*.py")),
                ("wrong", "other_pattern", other(pattern="tests/test_*.py")),
                ("wrong", "other_folder", other(pattern="test/*.py")),
            ]
        else:
            options += [
                ("valid", "path_spelling", other(dir="./tests" if "dir" in given else ".")),
                ("valid", "path_spelling", other(dir="tests/" if "dir" in given else "./")),
                ("wrong", "other_pattern", other(**{key: text.replace(name, mate) if "dir" in given else "tests.py"})),
                ("wrong", "other_folder", other(dir="examples")),
                ("wrong", "other_pattern", other(**{key: text[:-1] + "_" if "dir" in given else text[:-2]})),
            ]
        pairs += _one_of_each(state, options)
    return pairs


def as_command(call: Call) -> str | None:
    """What a search tool does, as a shell command: the tools' own rules, written out for labels. None: refused."""
    given = call.arguments
    if call.name == "Glob":
        pattern = given.get("pattern")
        folder = _inside(given.get("path", ""))
        return (
            None
            if not pattern
            else f"cd {folder} && shopt -s globstar nullglob && for f in {pattern}; do realpath $f; done | sort"
        )
    if call.name == "find_file":
        name = given.get("file_name")
        return (
            None
            if not name
            else f"find {_inside(given.get('dir', ''))} -type f -name '{name}' -exec realpath {{}} + | sort"
        )
    if call.name == "search_dir":
        term = given.get("search_term")
        return None if not term else f"cd {_inside(given.get('dir', ''))} && pwd && grep -rnF -- '{term}' . | sort"
    pattern = given.get("pattern")
    if not pattern:
        return None
    mode = {"content": "-n" if given.get("-n") else "", "count": "-c"}.get(given.get("output_mode", ""), "-l")
    files = f"--include='{given['glob']}'" if "glob" in given else ""
    case = "-i" if given.get("-i") else ""
    return f"grep -rP {mode} {case} {files} -- '{pattern}' {_inside(given.get('path', ''))} | sort"


def _inside(path: str) -> str:
    return path.replace("/home/user/proj", "").replace("//", "/").strip("/") or "."


def label_commands(pairs: Sequence[Pair], copies: Sequence[Tree], listing: bool) -> None:
    """Set the labels of the commands of one state, or of its searches as the commands that they come to."""
    state = pairs[0].state
    wanted = _command(state, state.expert)
    assert wanted is not None
    commands = [_command(state, pair.call) for pair in pairs]
    left = list(dict.fromkeys(filter(None, commands)))
    refused: set[str] = set()
    for tree in (state.tree, *copies):  # what has differed once is not run again
        ran = run_all([wanted, *left], tree)
        refused |= {command for command, two in zip(left, ran[1:], strict=True) if _REFUSED.search(two.printed)}
        left = [command for command, two in zip(left, ran[1:], strict=True) if _same(ran[0], two, listing)]
    for pair, command in zip(pairs, commands, strict=True):
        pair.label = "valid" if command in left else "wrong"
        pair.established = "executed" if command else "by_construction"
        pair.notes["refused"] = command in refused


def _command(state: State, call: Call) -> str | None:
    return as_command(call) if state.sort == "search" else call.arguments.get("command") or None


def _same(one: Ran, two: Ran, listing: bool) -> bool:
    same = one.status == two.status and one.files == two.files and not two.cut
    return same and _lines(one, listing) == _lines(two, listing)


def _lines(ran: Ran, listing: bool) -> list[str]:
    lines = _HERE.sub(r"\1", ran.printed).rstrip().split("\n")
    return sorted(lines) if listing else lines

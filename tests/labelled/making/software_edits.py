"""Pairs of edits: calls that leave the same module or another one; labelled by what the module's function then does.

An edit is valid where the tree after it is the expert's but for the edited function, and the function gives what the
expert's gives for every hidden input: results, exceptions, and what became of the arguments.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping, Sequence

from pivotrl_core.seeding import generator
from tests.labelled.making.software_bodies import VALID, WRONG
from tests.labelled.making.software_dialects import CLAUDE, MINI, OPENHANDS, SWE_AGENT, Call
from tests.labelled.making.software_states import Pair, State, edit_state, with_body
from tests.labelled.making.software_tasks import Function
from tests.labelled.making.software_worlds import Tree, outcomes, run

PER_SIDE = 1
"""Rewritten pairs of a label at a state; kinds take turns, so that all are as frequent as they can be."""
BEGUN = tuple(f"begun-{number}" for number in range(3))
_DIALECTS = (OPENHANDS, CLAUDE, SWE_AGENT, OPENHANDS, CLAUDE, MINI)


def edit_states(functions: Sequence[Function], trees: Mapping[str, Tree]) -> list[State]:
    """One state a function, dialects by turns."""
    return [
        edit_state(one, trees[one.package], f"workspaces/{one.package}.tar.gz", _DIALECTS[number % len(_DIALECTS)])
        for number, one in enumerate(functions)
    ]


def rewritten(states: Sequence[State]) -> list[Pair]:
    """Candidates of both sides, each meant to be something; what they are the sandbox says."""
    pairs: list[Pair] = []
    counts: dict[str, int] = {}
    for state in states:
        for meant in ("valid", "wrong"):
            found = list(_valid(state) if meant == "valid" else _wrong(state))
            rng = generator(0, "pairs", "order", state.id, meant)
            order = sorted(range(len(found)), key=lambda at: (counts.get(found[at][0], 0), rng.random()))
            for at in order[:PER_SIDE]:
                kind, call = found[at]
                counts[kind] = counts.get(kind, 0) + 1
                pairs.append(Pair(state, call, "rewritten", kind, meant=meant))
    return pairs


def sampled(states: Sequence[State], texts: Mapping[str, Sequence[str]]) -> list[Pair]:
    """Bodies that the model wrote, put into the expert's call; each sample counts, the expert's own words too."""
    pairs: list[Pair] = []
    for state in states:
        one = state.function
        assert one is not None
        names = [f"{prompt}/{one.package}/{one.name}" for prompt in ("edit", "again", *BEGUN)]
        for text in (text for name in names for text in texts.get(name, ())):
            body = text.strip("\n").rstrip()
            if body.startswith("    "):
                pairs.append(Pair(state, with_body(state, body), "model", _sort_of(one, body)))
    return pairs


def _sort_of(one: Function, body: str) -> str:
    """Which sort of difference a body makes to the expert's."""
    try:
        first, second = (ast.parse(f"{one.head}\n{text}\n") for text in (one.right, body))
    except (SyntaxError, ValueError):
        return "sampled_edit_no_python"
    if ast.dump(first) == ast.dump(second):
        return "sampled_edit_same_tree"
    kinds = [[type(node).__name__ for node in ast.walk(tree) if isinstance(node, ast.stmt)] for tree in (first, second)]
    return "sampled_edit_expression" if kinds[0] == kinds[1] else "sampled_edit_statements"


def _valid(state: State) -> Iterator[tuple[str, Call]]:
    one = state.function
    assert one is not None
    for way in one.parts.get("way", ()):
        yield "another_fix_by_hand", with_body(state, way)
    for kind, rewriting in VALID.items():
        for body in rewriting(one.head, one.right):
            yield kind, with_body(state, body)
    for way in one.parts.get("way", ()):
        for kind in ("renamed_local", "swapped_comparison", "named_result"):
            for body in VALID[kind](one.head, way):
                yield f"another_fix_{kind}", with_body(state, body)
    if state.dialect is not MINI:
        last = one.head.rpartition("\n")[2]
        yield "more_context", state.dialect.replace(state.inside, f"{last}\n{one.wrong}", f"{last}\n{one.right}")
        narrow = _narrowed(state)
        if narrow is not None:
            yield "less_context", state.dialect.replace(state.inside, *narrow)
    yield from _other_calls(state)


def _other_calls(state: State) -> Iterator[tuple[str, Call]]:
    """The same change by another path, another command of the editor, or another program."""
    one, call = state.function, state.expert
    assert one is not None
    inside = state.inside
    new = state.old[: -len(one.wrong)] + one.right
    if state.dialect is OPENHANDS:
        yield "path_spelling", Call(call.name, {**call.arguments, "path": f"/workspace/proj/./{inside}"})
        yield "path_spelling", Call(call.name, {**call.arguments, "path": inside})
        line = _insertion(one)
        if line is not None:
            at = state.tree[inside][: state.tree[inside].index(one.head)].count("\n") + one.head.count("\n") + 1
            yield "insert_for_replace", Call(call.name, {"command": "insert", "path": state.dialect.path(inside),
                                                         "insert_line": at + line[0], "new_str": line[1]})  # fmt: skip
    if state.dialect is CLAUDE:
        whole = state.tree[inside].replace(state.old, new, 1)
        yield "whole_file", Call("Write", {"file_path": state.dialect.path(inside), "content": whole})
        yield "default_argument", Call(call.name, {**call.arguments, "replace_all": False})
        yield "path_spelling", Call(call.name, {**call.arguments, "file_path": f"/home/user/proj//{inside}"})
    if state.dialect is MINI:
        program = call.arguments["command"]
        yield "path_spelling", state.dialect.run(program.replace(f"Path('{inside}')", f"Path('./{inside}')"))
        yield (
            "other_program",
            state.dialect.run(
                program.replace(
                    "path.write_text(text.replace(old, new, 1))", "path.open('w').write(text.replace(old, new))"
                )
            ),
        )
        yield "other_program", state.dialect.run(program.replace("PY", "EOF").replace("assert old in text\n", ""))


def _insertion(one: Function) -> tuple[int, str] | None:
    """After how many lines of the wrong body which text has to be put, where the right one is the wrong one with it."""
    wrong, right = one.wrong.split("\n"), one.right.split("\n")
    more = len(right) - len(wrong)
    for at in range(len(wrong) + 1 if more > 0 else 0):
        if right[:at] + right[at + more :] == wrong:
            return at, "\n".join(right[at : at + more])
    return None


def _narrowed(state: State) -> tuple[str, str] | None:
    """The lines that differ, without those above and below, where they are there once."""
    one = state.function
    assert one is not None
    wrong, right = one.wrong.split("\n"), one.right.split("\n")
    shared = 0
    while shared < min(len(wrong), len(right)) - 1 and wrong[shared] == right[shared]:
        shared += 1
    tail = 0
    while tail < min(len(wrong), len(right)) - shared - 1 and wrong[-1 - tail] == right[-1 - tail]:
        tail += 1
    old, new = "\n".join(wrong[shared : len(wrong) - tail]), "\n".join(right[shared : len(right) - tail])
    known = old != one.wrong and old and state.tree[state.inside].count(old) == 1
    return (old, new) if known and f"\n{old}\n" in state.tree[state.inside] else None


def _wrong(state: State) -> Iterator[tuple[str, Call]]:
    one, call = state.function, state.expert
    assert one is not None
    for slip in one.parts.get("slip", ()):
        yield "wrong_fix_by_hand", with_body(state, slip)
    for kind, rewriting in WRONG.items():
        for body in rewriting(one.head, one.right):
            yield kind, with_body(state, body)
    for way in one.parts.get("way", ()):
        for kind in ("operator", "constant"):
            for body in list(WRONG[kind](one.head, way))[:2]:
                yield f"another_fix_{kind}", with_body(state, body)
    yield "nothing_but_a_comment", with_body(state, f"{one.wrong}  # fixed")
    yield "old_text_not_there", state.dialect.replace(state.inside, state.old.replace("    ", "  ", 1), one.right)
    older = f"{one.package}/legacy/{one.module}.py"
    if older in state.tree and state.dialect in (OPENHANDS, CLAUDE):
        yield "other_file", Call(call.name, {**call.arguments, _path_name(call): state.dialect.path(older)})
    dropped = {"str_replace_editor": ("path", "old_str"), "Edit": ("file_path", "old_string"), "edit": ("search",)}
    for name in dropped.get(call.name, ()):
        yield "missing_argument", Call(call.name, {key: value for key, value in call.arguments.items() if key != name})


def _path_name(call: Call) -> str:
    return "path" if "path" in call.arguments else "file_path"


def label(pairs: Sequence[Pair]) -> None:
    """Set the labels of the edits of one state, by running what each leaves."""
    state = pairs[0].state
    one = state.function
    assert one is not None
    wanted = after(state, state.expert)
    assert wanted is not None
    trees = [after(state, pair.call) for pair in pairs]
    texts = list(dict.fromkeys(tree[one.path] for tree in (wanted, *trees) if tree))
    told = dict(zip(texts, outcomes(one, texts), strict=True))
    right = told[wanted[one.path]]
    assert isinstance(right, list), (one.name, right)
    for pair, tree in zip(pairs, trees, strict=True):
        same = tree is not None and told[tree[one.path]] == right and _rest(tree, one) == _rest(wanted, one)
        pair.label = "valid" if same else "wrong"
        if tree is None:
            pair.established = "by_construction"
        elif pair.origin == "model" and not same:
            pair.notes["alike"] = difflib.SequenceMatcher(None, wanted[one.path], tree[one.path], False).ratio()


def _rest(tree: Tree, one: Function) -> dict[str, str]:
    """What an edit of a function has to leave as it is: other files, and all of the module but the function."""
    rest = dict(tree)
    module = ast.parse(rest.pop(one.path))
    module.body = [node for node in module.body if not (isinstance(node, ast.FunctionDef) and node.name == one.name)]
    return {**rest, one.path: ast.dump(module)}


def after(state: State, call: Call) -> Tree | None:
    """The tree after an edit, or None where the tool refuses it. Not the verifier's code: written for labels."""
    if call.name == "bash":
        ran = run(call.arguments["command"], state.tree)
        return dict(ran.files) if ran.status == 0 else None
    given = call.arguments
    path = given.get("path", given.get("file_path", f"{state.inside}" if call.name == "edit" else ""))
    inside = path.replace("/./", "/").replace("//", "/").removeprefix(state.dialect.root).lstrip("/")
    if call.name == "Write":
        return {**state.tree, inside: given["content"]}
    text = state.tree.get(inside)
    if text is None:
        return None
    if given.get("command") == "insert":
        lines = text.split("\n")
        at = given["insert_line"]
        return {**state.tree, inside: "\n".join([*lines[:at], given["new_str"], *lines[at:]])}
    old, new = (given.get(names[0], given.get(names[1], given.get(names[2]))) for names in _TEXTS)
    if not old or new is None or text.count(old) != 1:
        return None
    return {**state.tree, inside: text.replace(old, new)}


_TEXTS = (("old_str", "old_string", "search"), ("new_str", "new_string", "replace"))

"""A fixed workload of verdicts: turns of each domain, and eight actions at each of which some are right.

Turns come from the embedded help desk, from rows made here, and from files of one's own. Actions are made from the
expert's: its own, the same in other words, and such as differ in one value, one name, or altogether.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pivotrl_core.bench.conversations import desk_candidates
from pivotrl_core.errors import DataError
from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.trajectories.arguments import decode_arguments
from pivotrl_core.trajectories.loading import load_trajectories, trajectory_files
from pivotrl_core.trajectories.nemo_gym import NEMO_ROW
from pivotrl_core.types import Action, Candidate, Json, Message, Role, Split, Tool, ToolCall

_USER = (Message(Role.USER, "Please go on."),)


@dataclass(frozen=True, slots=True)
class Case:
    """A turn, and actions at it."""

    candidate: Candidate
    actions: tuple[Action, ...]


def cases_of(domain: str) -> list[Case]:
    """The workload of a domain that needs no file; empty where there is none."""
    make = WORKLOADS.get(domain)
    return [] if make is None else [Case(one, actions_at(one)) for one in make()]


def cases_in(files: Sequence[Path]) -> dict[str, list[Case]]:
    """Turns of files, in any format that is read, by domain; what a row was answered with comes along.

    Raises:
        DataError: a file has none.
    """
    found: dict[str, list[Case]] = {}
    for file in files:
        trajectories = load_trajectories(trajectory_files(file)).trajectories
        turns = [turn for one in trajectories for turn in iterate_candidates(one, Split.TRAIN)]
        if not turns:
            raise DataError(f"{file}: no turns here; see what `pivotrl inspect` says of it")
        for turn in turns:
            found.setdefault(turn.domain, []).append(Case(turn, actions_at(turn)))
    return found


def actions_at(candidate: Candidate) -> tuple[Action, ...]:
    """Eight actions: the expert's first."""
    expert = candidate.expert
    own = Action(expert.content, expert.tool_calls, expert.content)
    return (own, *(_about_calls(expert.tool_calls) if expert.tool_calls else _about_text(expert.content)))


def _about_calls(calls: tuple[ToolCall, ...]) -> list[Action]:
    first, rest = calls[0], calls[1:]
    arguments = decode_arguments(first.arguments).value
    respelt = json.dumps(dict(reversed(arguments.items())), indent=1)
    changed = [replace(first, arguments=text) for text in (respelt, *_changed(arguments))]
    return [
        *(Action(tool_calls=(call, *rest)) for call in changed),
        Action(tool_calls=(replace(first, name=f"{first.name}_all"), *rest)),
        Action(tool_calls=(*calls, first)),
        Action(content="One moment, I am looking into it."),
        Action(tool_calls=(replace(first, arguments=first.arguments[:-1]), *rest)),
    ]


def _changed(arguments: Mapping[str, Json]) -> list[str]:
    """The arguments without the last one, and with another value of it."""
    if not arguments:
        return ['{"x": 1}', '{"x": null}']
    name = list(arguments)[-1]
    without = {key: value for key, value in arguments.items() if key != name}
    return [json.dumps(without), json.dumps({**without, name: _other(arguments[name])})]


def _other(value: Json) -> Json:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value} please"
    return [value]


def _about_text(text: str) -> list[Action]:
    words = text.split()
    other = [
        f" {text}\n", " ".join(words[::-1]), " ".join(words[:-1]), text.replace("a", "o", 1), text[: len(text) // 2],
        "", f"{text} That is all.",
    ]  # fmt: skip
    return [Action(one, text=one) for one in other]


def _tool_turns() -> Iterable[Candidate]:
    yield from desk_candidates(64)
    for number in range(64):
        yield _booking(number)


_BOOK = Tool("book", "Book a journey.", {
    "type": "object",
    "required": ["customer", "from", "to", "date"],
    "properties": {
        "customer": {"type": "string", "pattern": "^C[0-9]+$"},
        "from": {"type": "string"}, "to": {"type": "string"},
        "date": {"type": "string", "format": "date"},
        "class": {"enum": ["first", "second"], "default": "second"},
        "seats": {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
        "passengers": {"type": "array", "items": {
            "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        }},
        "discount": {"type": "number", "default": 0},
        "note": {"type": "string"},
    },
})  # fmt: skip


def _booking(number: int) -> Candidate:
    arguments = {
        "customer": f"C{1000 + number}", "from": "Leipzig", "to": "Ghent", "date": f"2026-05-{1 + number % 28:02}",
        "seats": [f"{row}A" for row in range(number % 5)],
        "passengers": [{"name": f"Ada No. {one}", "age": 30 + one} for one in range(1 + number % 4)],
        "discount": number / 4, "note": f"They travel with {number} bicycles and would like to sit near them.",
    }  # fmt: skip
    return _calling(_BOOK, arguments, "tool", number)


def _calling(tool: Tool, arguments: Mapping[str, Json], domain: str, number: int) -> Candidate:
    expert = Message(Role.ASSISTANT, tool_calls=(ToolCall(tool.name, json.dumps(arguments)),))
    return Candidate(_USER, (tool,), expert, trajectory_id=f"{domain}-{number}", turn_index=0, domain=domain)


COMMANDS = (
    "ls -la /app/src\n", "cat notes/a.txt\n", "grep -rn 'def total' src | head -5\n", "sort -u notes/a.txt > out.txt\n",
    "mkdir -p build && cp notes/a.txt build/\n", "wc -l notes/a.txt notes/b.txt\n", "sed -i 's/one/two/' notes/b.txt\n",
    "for f in notes/*; do echo \"$f\"; done\n", "python3 -c 'print(sum(range(10)))'\n", "export LANG=C; date +%Y\n",
    "find . -name '*.txt' -newer notes/a.txt\n", "tail -n 20 notes/b.txt | cut -d, -f2\n",
)  # fmt: skip


def _terminal_turns() -> Iterable[Candidate]:
    for number, command in enumerate(COMMANDS):
        for commands in ([command], [command, "pwd\n"]):
            answer = {
                "analysis": "The folder holds the notes of the project, which have to be looked at before anything.",
                "plan": "First look, then change.", "commands": [{"keystrokes": one} for one in commands],
            }  # fmt: skip
            row = {NEMO_ROW: {"metadata": {"harness": "terminus_2"}}}
            expert = Message(Role.ASSISTANT, json.dumps(answer))
            yield Candidate(
                _USER, (), expert, trajectory_id=f"terminal-{number}", turn_index=0, domain="terminal", metadata=row
            )


_EDIT = Tool("str_replace_editor")
_BASH = Tool("execute_bash")


def _software_turns() -> Iterable[Candidate]:
    old = "    result = 0\n    return None"
    for number in range(16):
        path = f"/workspace/proj/module_{number}.py"
        new = f"    result = {number}\n    for value in values:\n        result += value\n    return result"
        edit = {"command": "str_replace", "path": path, "old_str": old, "new_str": new}
        yield _calling(_EDIT, edit, "software", number)
        yield _calling(_EDIT, {"command": "view", "path": path, "view_range": [1, 40 + number]}, "software", number)
        yield _calling(_BASH, {"command": f"cd /workspace/proj && pytest -xvs {path}"}, "software", number)


_SEARCH = Tool("search")
_OPEN = Tool("open")


def _search_turns() -> Iterable[Candidate]:
    for number in range(16):
        yield _calling(_SEARCH, {"query": f"population of the town of Ghent in {1990 + number}"}, "search", number)
        yield _calling(_OPEN, {"url": f"https://example.org/towns/ghent?year={1990 + number}#people"}, "search", number)


WORKLOADS: Mapping[str, Callable[[], Iterable[Candidate]]] = {
    "tool": _tool_turns,
    "terminal": _terminal_turns,
    "software": _software_turns,
    "search": _search_turns,
}

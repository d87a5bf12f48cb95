"""Lines that the model wrote, read as calls of the state's tool."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence

from rapidfuzz.distance import Indel

from tests.labelled.making.software_dialects import Call
from tests.labelled.making.software_looks import lines_of
from tests.labelled.making.software_prompts import opening
from tests.labelled.making.software_states import Pair, State

LEAST_ALIKE = 0.5
"""Of the arguments of two calls; what is less alike is not looked at."""


def sampled_lines(states: Sequence[State], texts: Mapping[str, Sequence[str]]) -> list[Pair]:
    """A pair for each sample that is a call; each sample counts, so that shares of identical ones can be told."""
    pairs = []
    for state in states:
        for text in (text for prompt in ("line", "again") for text in texts.get(f"{prompt}/{state.id}", ())):
            call = _call(state, text)
            if call is not None:
                pair = Pair(state, call, "model", f"sampled_{_sort_of(state, call)}")
                expert, other = (json.dumps(one.arguments) for one in (state.expert, call))
                pair.notes["alike"] = Indel.normalized_similarity(expert, other)
                pairs += [pair] if pair.notes["alike"] >= LEAST_ALIKE else []
    return pairs


def _call(state: State, text: str) -> Call | None:
    """The call that a line is. Commands that go elsewhere first are left out: what a shell keeps is another matter."""
    line = text.strip() if state.sort == "command" else f"({opening(state)}{text.strip()}"
    if state.sort == "command":
        return Call(state.expert.name, {"command": line}) if line and not line.startswith("cd ") else None
    if not (line.startswith("(") and line.endswith(")")):
        return None
    try:
        arguments = json.loads(line[1:-1])
    except ValueError:
        return None
    known = {tool["name"]: tool["parameters"]["properties"] for tool in state.dialect.tools}[state.expert.name]
    right = isinstance(arguments, dict) and arguments.keys() <= known.keys() and _typed(arguments, known)
    if not right or arguments.get("command", "view") != "view":
        return None
    return Call(state.expert.name, arguments)


def _typed(arguments: Mapping[str, object], known: Mapping[str, Mapping[str, object]]) -> bool:
    types = {"string": str, "integer": int, "boolean": bool, "array": list}
    right = all(isinstance(value, types[str(known[name]["type"])]) for name, value in arguments.items())
    lines = arguments.get("view_range", [1, 1])
    return right and isinstance(lines, list) and len(lines) == 2 and all(type(one) is int for one in lines)


def _sort_of(state: State, call: Call) -> str:
    """What differs from the expert's call: the names of arguments; of commands the program, options or operands."""
    if state.sort == "view":
        return _sort_of_view(state.expert, call)
    if state.sort == "search":
        first, second = state.expert.arguments, call.arguments
        names = sorted(name for name in {**first, **second} if first.get(name) != second.get(name))
        return "_and_".join(name.strip("-") or "flag" for name in names) or "identical"
    first, second = (list(_words(one.arguments["command"])) for one in (state.expert, call))
    if first == second:
        return "command_spelling"
    if first[:1] != second[:1]:
        return "command_program"
    options = [sorted(word for word in words if word.startswith("-")) for words in (first, second)]
    return "command_operands" if options[0] == options[1] else "command_options"


def _sort_of_view(expert: Call, call: Call) -> str:
    """Where a view begins and ends, beside the expert's."""
    wanted, found = lines_of(expert), lines_of(call)
    if wanted is None or found is None:
        return "view_of_nothing"
    end = found[2] or 10**9
    ends = {-1: "earlier", 0: "there", 1: "later"}
    sides = [(one > two) - (one < two) for one, two in ((found[1], wanted[1]), (end, wanted[2] or 10**9))]
    return f"view_begins_{ends[sides[0]]}_ends_{ends[sides[1]]}"


def _words(command: str) -> Iterator[str]:
    try:
        yield from shlex.split(command)
    except ValueError:
        yield from command.split()

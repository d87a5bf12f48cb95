"""Tests of a code row, and the boundary cases that follow from them.

A row's `tests` is an object with `inputs` and `outputs`, lists of equal length, and, where one function is called, its
name as `function`: then an input is a list of arguments and an output a JSON value; without it an input is the text on
standard input and an output the text on standard output.

Boundary cases (here) and further ones (`code_cases.py`) are made from the row's own inputs and never leave what those
span: here one argument is replaced at a time, by the smallest and the largest number and their neighbours inside, the
shortest and the longest text and list, and the start of a long one. What the expert's code makes of them is what is
right; where it fails, the case is no case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pivotrl_core.types import Json, canonical_json

MAX_CASES = 200
MAX_BOUNDARY_CASES = 24


@dataclass(frozen=True, slots=True)
class CodeTests:
    """Inputs with the outputs that are right; `function` is empty for a program."""

    inputs: tuple[Json, ...]
    outputs: tuple[Json, ...]
    function: str = ""


def read_tests(value: Json) -> CodeTests | None:
    """The tests of a row; None where it has none.

    Raises:
        ValueError: they are not of the form above.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError("tests: expected an object with inputs and outputs")
    inputs, outputs, function = value.get("inputs"), value.get("outputs"), value.get("function", "")
    if not (isinstance(inputs, list) and isinstance(outputs, list) and 0 < len(inputs) == len(outputs) <= MAX_CASES):
        raise ValueError(f"tests: expected as many inputs as outputs, 1 to {MAX_CASES}")
    if not isinstance(function, str) or (function and not function.isidentifier()):
        raise ValueError("tests: expected a name as function")
    kind: type = list if function else str
    if not all(isinstance(one, kind) for one in inputs):
        raise ValueError(f"tests: expected inputs that are {'lists of arguments' if function else 'texts'}")
    return CodeTests(tuple(inputs), tuple(outputs), function)


def boundary_inputs(tests: CodeTests) -> list[list[Json]]:
    """Lists of arguments at the edges of what the inputs span; none for a program, nor of lists of one length."""
    if not tests.function or len({len(arguments) for arguments in tests.inputs}) != 1:
        return []
    linked = linked_places(tests.inputs)
    seen = {canonical_json(arguments) for arguments in tests.inputs}
    found: list[list[Json]] = []
    for position in (place for place in range(len(tests.inputs[0])) if place not in linked):
        values = [arguments[position] for arguments in tests.inputs]
        for value in _edges(values):
            for arguments in (tests.inputs[0], tests.inputs[-1]):
                case = [*arguments[:position], value, *arguments[position + 1 :]]
                if canonical_json(case) not in seen:
                    seen.add(canonical_json(case))
                    found.append(case)
    return found[:MAX_BOUNDARY_CASES]


def linked_places(inputs: Sequence[Sequence[Json]]) -> list[int]:
    """Places of arguments that are lists of one length in each of the tests, which have several lengths."""
    lists = [place for place in range(len(inputs[0])) if all(isinstance(one[place], list) for one in inputs)]
    equal = all(len({len(arguments[place]) for place in lists}) == 1 for arguments in inputs)
    lengths = {len(arguments[lists[0]]) for arguments in inputs} if lists else set()
    return lists if len(lists) > 1 and equal and len(lengths) > 1 else []


def _edges(values: Sequence[Json]) -> list[Json]:
    if all(type(value) is int for value in values):
        low, high = min(values), max(values)
        return [value for value in (low, high, low + 1, high - 1, 0) if low <= value <= high]
    if all(type(value) is float for value in values):
        return [min(values), max(values)]
    for kind in (str, list):
        if all(isinstance(value, kind) for value in values):
            shortest, longest = min(values, key=len), max(values, key=len)
            return [shortest, longest, longest[: max(len(shortest), 1)]]
    return []

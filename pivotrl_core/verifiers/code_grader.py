"""Code: does this program do what the expert's does? Static first, then tests in the sandbox.

In this order: can it be parsed; is it the expert's program but for white space, comments and docstrings (accepted, not
run); do constants have the types that are stated; does it reach for resources that the expert's does not; does it pass
the row's tests (`code_tests.py`); does it leave its arguments as the expert's does; does it agree with the expert's at
boundary cases and on further inputs like the row's (`code_cases.py`). Right outputs never enter the sandbox. A row
without tests cannot accept anything but the expert's own program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from pivotrl_core.files import code_digest
from pivotrl_core.trajectories import arguments
from pivotrl_core.trajectories.arguments import decode_arguments
from pivotrl_core.types import Action, Candidate, Json, Message, content_id
from pivotrl_core.verifiers.code_cases import varied_inputs
from pivotrl_core.verifiers.code_execution import NO_RESULT, PROGRAM_BYTES, Called, close, run_calls, run_program
from pivotrl_core.verifiers.code_static import is_blank, parse, resources, same_tree, wrong_types
from pivotrl_core.verifiers.code_tests import CodeTests, boundary_inputs, read_tests
from pivotrl_core.verifiers.protocol import GradingDecision, printable
from pivotrl_core.verifiers.row_fields import row_field
from pivotrl_core.verifiers.sandbox import SandboxLimits
from pivotrl_core.verifiers.verdict_cache import VerdictCache

_CODE: Final = (Path(str(arguments.__file__)), *(Path(__file__).with_name(f"{name}.py") for name in (
    "code_grader", "code_static", "code_tests", "code_cases", "code_execution", "sandbox_driver", "sandbox",
    "sandbox_host", "system_calls", "capture", "cgroups", "row_fields",
)))  # fmt: skip
"""What verdicts come out of."""
_FENCE = re.compile(r"^```(?:python3?|py)?[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_SLACK, _MAX_ROOM = 64 * 2**10, 16 * 2**20
_ARGUMENTS = ("code", "source", "program", "content", "script")


class CodeReason(StrEnum):
    ACCEPTED = "accepted"
    MALFORMED = "malformed"
    EXPECTED_UNREADABLE = "expected_unreadable"
    TYPES_DIFFER = "types_differ"
    FORBIDDEN_RESOURCE = "forbidden_resource"
    UNTESTED = "untested"
    TESTS_FAILED = "tests_failed"
    BOUNDARY_DIFFERS = "boundary_differs"
    ARGUMENTS_CHANGED = "arguments_changed"


@dataclass(frozen=True, slots=True)
class CodeSettings:
    """How code is compared. `boundary` says whether cases beyond the row's decide, or are components only."""

    boundary: bool = True
    limits: SandboxLimits = field(
        default_factory=lambda: SandboxLimits(wall_seconds=5.0, cpu_seconds=5, memory_bytes=256 * 2**20, processes=8)
    )


class CodeGrader:
    """Grades Python programs and functions."""

    name = "code"

    def __init__(self, settings: CodeSettings | None = None, cache: VerdictCache | None = None) -> None:
        self.settings = settings or CodeSettings()
        self.cache = cache
        self.version = content_id([code_digest(*_CODE), asdict(self.settings)])

    def grade(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        """What there is to know about a program.

        Raises:
            SandboxUnavailableError: there is something to run and no sandbox on this machine, whatever the action is.
        """
        key = self.cache and self.cache.key(candidate, action, self.version)
        if self.cache is None or not key:
            return self._grade(candidate, action)
        components = self.cache.get(key)
        if components is None:
            components = self._grade(candidate, action)
            if components["executed"]:
                self.cache.put(key, components)
        return dict(components)

    def decide(self, components: Mapping[str, Json]) -> GradingDecision:
        reason = self._reason(components)
        accepted = reason is CodeReason.ACCEPTED
        tests = components.get("tests", 0)
        return GradingDecision(
            accepted, str(reason), 1.0 if accepted else components["passed"] / tests if tests else 0.0
        )

    def _reason(self, found: Mapping[str, Json]) -> CodeReason:
        if found.get("expected") == "unreadable":
            return CodeReason.EXPECTED_UNREADABLE
        if not found["parsed"]:
            return CodeReason.MALFORMED
        if found["equal"]:
            return CodeReason.ACCEPTED
        if found["wrong_types"]:
            return CodeReason.TYPES_DIFFER
        if found["forbidden"]:
            return CodeReason.FORBIDDEN_RESOURCE
        if not found["executed"]:
            return CodeReason.UNTESTED
        if found["passed"] < found["tests"]:
            return CodeReason.TESTS_FAILED
        if found["arguments_changed"]:
            return CodeReason.ARGUMENTS_CHANGED
        agrees = found["boundary_agreed"] == found["boundary_cases"]
        return CodeReason.ACCEPTED if agrees or not self.settings.boundary else CodeReason.BOUNDARY_DIFFERS

    def _grade(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        code = _code(action)
        tree = parse(code) if code.strip() else "no code"
        if isinstance(tree, str):
            return {"parsed": False, "executed": False, "error": printable(tree)}
        expected_code = _code(candidate.expert)
        expected = parse(expected_code)
        if not isinstance(expected, str) and is_blank(expected):
            expected = "the expert's turn holds no program"
        try:
            tests = read_tests(row_field(candidate, "tests"))
        except ValueError as error:
            expected, tests = str(error), None
        if isinstance(expected, str):
            return {"parsed": True, "expected": "unreadable", "executed": False, "error": printable(expected)}
        components: dict[str, Json] = {
            "parsed": True,
            "executed": False,
            "equal": same_tree(expected, tree),
            "wrong_types": [printable(one) for one in wrong_types(tree)[:8]],
            "forbidden": [printable(one) for one in sorted(resources(tree) - resources(expected))[:8]],
        }
        if tests is None or components["equal"] or components["wrong_types"] or components["forbidden"]:
            return components
        return components | self._execute(candidate, expected_code, code, tests)

    def _execute(self, candidate: Candidate, expected: str, actual: str, tests: CodeTests) -> dict[str, Json]:
        edges = boundary_inputs(tests)
        inputs = [*tests.inputs, *edges, *varied_inputs(tests, edges)]
        right, cut = self._expert_results(candidate, expected, tests, inputs)
        found, _ = self._results(actual, tests, inputs)
        passed = sum(_equal(one, other.result) for one, other in zip(tests.outputs, found, strict=False))
        own = len(tests.inputs)
        cases = [(one, other) for one, other in zip(right[own:], found[own:], strict=True) if one]
        changed = [
            not _leaves_the_same(given, Called(*one), other)
            for given, one, other in zip(inputs, right, found, strict=True) if one and other.result is not NO_RESULT
        ]  # fmt: skip
        return {
            "executed": True,
            "tests": own,
            "passed": passed,
            "boundary_cases": len(cases),
            "boundary_agreed": sum(_equal(one[0], other.result) for one, other in cases),
            "arguments_changed": any(changed),
            **({"expert_cut": cut} if cut else {}),
        }

    def _expert_results(
        self, candidate: Candidate, code: str, tests: CodeTests, inputs: Sequence[Json]
    ) -> tuple[list[list[Json]], str]:
        """[result, arguments] of the expert's code for each input, [] where it has none, and what cut it; found once.

        A program has no arguments, and no cases but its tests.
        """
        if not tests.function:
            return [[] for _ in inputs], ""
        key = self.cache and self.cache.key(candidate, None, self.version)
        stored: Json = self.cache.get(key) if self.cache is not None and key else None
        if stored is None:
            found, cut = self._results(code, tests, inputs)
            stored = [[[] if one.result is NO_RESULT else list(one) for one in found], cut]
            if self.cache is not None and key:
                self.cache.put(key, stored)
        return stored[0], stored[1]

    def _results(self, code: str, tests: CodeTests, inputs: Sequence[Json]) -> tuple[list[Called], str]:
        room, longest = _room(tests, inputs)
        limits = replace(self.settings.limits, output_bytes=max(self.settings.limits.output_bytes, room))
        if tests.function:
            return run_calls(code, tests.function, inputs, limits)
        return [Called(one, NO_RESULT) for one in run_program(code, inputs, limits, longest)], ""


def _room(tests: CodeTests, inputs: Sequence[Json]) -> tuple[int, int]:
    """(bytes that all results may have, bytes that one program may print): twice what is right, and slack.

    A call sends its arguments too. Cases beyond the tests have the longest result of those.
    """
    right = [len(json.dumps(one)) for one in tests.outputs]
    given = sum(len(json.dumps(one)) for one in inputs) if tests.function else 0
    all_right = sum(right) + (len(inputs) - len(right)) * max(right)
    return min(2 * (given + all_right) + _SLACK, _MAX_ROOM), min(2 * max(right) + PROGRAM_BYTES, _MAX_ROOM)


def _leaves_the_same(given: Json, right: Called, found: Called) -> bool:
    """Whether a call leaves its arguments as it should.

    As they were, where the expert's does; as the expert's, where that returns nothing, so that this is what it is for.
    An expert's that changes them on the way to a result asks nothing of the kind.
    """
    if right.arguments == given or right.result is None:
        return bool(found.arguments == right.arguments)
    return True


def _equal(right: Json, given: Json) -> bool:
    """Texts but for white space that ends lines, fractions to a relative 1e-5, lists and objects by their parts.

    Two whole numbers must be one: 250001 is within 1e-5 of 250000.
    """
    if isinstance(right, str) and isinstance(given, str):
        return [line.rstrip() for line in right.rstrip().splitlines()] == [
            line.rstrip() for line in given.rstrip().splitlines()
        ]
    if isinstance(right, list) and isinstance(given, list):
        return len(right) == len(given) and all(_equal(one, other) for one, other in zip(right, given, strict=True))
    if isinstance(right, dict) and isinstance(given, dict):
        return right.keys() == given.keys() and all(_equal(value, given[key]) for key, value in right.items())
    if given is NO_RESULT or isinstance(right, bool) != isinstance(given, bool):
        return False
    return close(given, right) if isinstance(right, float) or isinstance(given, float) else bool(given == right)


def _code(turn: Action | Message) -> str:
    """The program of a turn: an argument of its only call (by name, or the only one), its last block, or its text."""
    if len(turn.tool_calls) == 1:
        value = decode_arguments(turn.tool_calls[0].arguments).value
        texts = [one for one in value.values() if isinstance(one, str)]
        alone = texts[0] if len(texts) == len(value) == 1 else ""
        return next((value[name] for name in _ARGUMENTS if isinstance(value.get(name), str)), alone)
    text = (turn.text or turn.content) if isinstance(turn, Action) else turn.content
    answer = text.rpartition("</think>")[2]
    blocks = _FENCE.findall(answer)
    return str(blocks[-1]) if blocks else answer

"""Whether programs do the same as a reference: by calling both on hundreds of inputs, in the sandbox.

Stricter than the verifier: other inputs, and what a call leaves of its arguments counts. Where a result differs in its
type alone (a tuple for a list, 1 for True) it cannot be said what was wanted: such programs get no label.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.types import Json
from pivotrl_core.verifiers import sandbox
from tests.labelled.making.code_inputs import generated
from tests.labelled.making.code_problems import Problem

_LIMITS = sandbox.SandboxLimits(
    wall_seconds=600.0, cpu_seconds=200, memory_bytes=512 * 2**20, processes=8, output_bytes=64 * 2**20
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found out: `label` is `valid`, `wrong` or empty; `agreed` the share of inputs with equal results."""

    label: str
    agreed: float


def label_programs(problem: Problem, programs: Sequence[str]) -> tuple[list[Json], list[Outcome]]:
    """What the reference returns for the row's tests, and the outcome of each program."""
    inputs = generated(problem)
    job = {"function": problem.name, "inputs": inputs, "programs": [problem.reference, *programs]}
    files: dict[str, str | bytes] = {
        "driver.py": Path(__file__).with_name("code_driver.py").read_bytes(),
        "job.json": json.dumps(job),
    }
    found: dict[int, list[Json]] = {}
    for line in sandbox.run_python(files, "driver.py", _LIMITS).stdout.splitlines():
        index, outcomes = json.loads(line)
        found[index] = outcomes
    right = found[0]
    if len(right) != len(inputs) or None in right:
        raise ValueError(f"{problem.name}: the reference fails on an input")
    outputs = [one[0] for one in right[: len(problem.tests)]]
    return outputs, [_outcome(right, found.get(number, [])) for number in range(1, len(programs) + 1)]


def _outcome(right: list[Json], given: list[Json]) -> Outcome:
    pairs = list(zip(right, [*given, *[None] * (len(right) - len(given))], strict=True))
    equal = [other is not None and _equal(one[0], other[0]) for one, other in pairs]
    agreed = sum(equal) / len(equal)
    if not all(equal):
        return Outcome("wrong", agreed)
    if not all(one[1] == other[1] for one, other in pairs):
        return Outcome("wrong", agreed)  # it changes what it was given
    typed = all(_shape(one[0]) == _shape(other[0]) for one, other in pairs)
    return Outcome("valid" if typed else "", agreed)


def _equal(one: Json, other: Json) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        numbers = all(isinstance(x, int | float) for x in (one, other))
        return numbers and abs(one - other) <= 1e-9 * max(1.0, abs(one))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


def _shape(value: Json) -> Json:
    """A value with its truths told from its numbers."""
    if isinstance(value, list):
        return [_shape(item) for item in value]
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return ["truth", value] if isinstance(value, bool) else "other"

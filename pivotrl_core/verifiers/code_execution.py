"""Running a model's Python solution on all tests of one item in ONE sandbox call, and handing back what it produced.

Expected outputs never enter the sandbox: the caller compares. A test without a usable result (exception, exit, time or
memory limit, a value that is not JSON) gets `NO_RESULT`, which equals nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pivotrl_core.types import Json
from pivotrl_core.verifiers import sandbox

_DRIVER = Path(__file__).with_name("sandbox_driver.py")
_SECONDS_PER_TEST = 4
PROGRAM_BYTES = 4096
"""Of what a program prints, so much is read where nothing else is said."""
# Memory holds per process: 8 times 256 MiB is the most that one item can take.
_LIMITS = sandbox.SandboxLimits(wall_seconds=15.0, cpu_seconds=5, memory_bytes=256 * 2**20, processes=8)


class _NoResult:
    """The result of a test that gave none."""

    def __repr__(self) -> str:
        return "NO_RESULT"


NO_RESULT: Final = _NoResult()


class Called(NamedTuple):
    """What a call gave: its result, and its arguments as it left them; `NO_RESULT` both where it failed."""

    result: Json
    arguments: Json


def run_calls(
    code: str, function: str, arguments: Sequence[Sequence[Json]], limits: sandbox.SandboxLimits = _LIMITS
) -> tuple[list[Called], str]:
    """As `run_function`, with what each call leaves of its arguments, and the limit that ended the run, or empty."""
    job = {"kind": "function", "function": function, "inputs": [list(row) for row in arguments]}
    found, cut = _run(code, job, limits)
    return [Called(*(one if len(one) == 2 else (NO_RESULT, NO_RESULT))) for one in found], cut


def run_function(
    code: str, function: str, arguments: Sequence[Sequence[Json]], limits: sandbox.SandboxLimits = _LIMITS
) -> list[Json]:
    """Call `function` of `code` once per argument list; results are as JSON gives them (tuples come back as lists).

    Raises:
        SandboxUnavailableError: there is no sandbox on this machine; code is never run without one.
    """
    return [one.result for one in run_calls(code, function, arguments, limits)[0]]


def run_program(
    code: str, inputs: Sequence[str], limits: sandbox.SandboxLimits = _LIMITS, printed_bytes: int = PROGRAM_BYTES
) -> list[Json]:
    """Run `code` as a program once per input text; results are what it printed, so far. Raises as above."""
    job = {"kind": "program", "inputs": list(inputs), "seconds": _SECONDS_PER_TEST, "bytes": printed_bytes}
    found, _ = _run(code, job, limits)
    return [one[0] if len(one) == 1 else NO_RESULT for one in found]


def close(value: Json, expected: Json, relative: float = 1e-5, absolute: float = 1e-8) -> bool:
    """Numbers: |value - expected| <= absolute + relative |expected|, as numpy.allclose has it; the rest: equality."""
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (value, expected))
    if not numbers:
        return bool(value == expected)
    try:
        return math.isfinite(value) and abs(value - expected) <= absolute + relative * abs(expected)
    except OverflowError:
        return False


def _run(code: str, job: dict[str, Json], limits: sandbox.SandboxLimits) -> tuple[list[list[Json]], str]:
    """What the driver sent for each test, an empty list where it sent nothing; and the limit that ended it."""
    results: list[list[Json]] = [[] for _ in job["inputs"]]
    files: dict[str, str | bytes] = {
        "driver.py": _DRIVER.read_bytes(),
        "solution.py": code.encode("utf-8", "replace"),
        "job.json": json.dumps(job),
    }
    ended = sandbox.run_python(files, "driver.py", limits)
    for line in ended.stdout.splitlines():
        row = _result_line(line)
        if row is not None and row[0] < len(results):
            results[row[0]] = row[1]
    return results, "" if ended.stop is sandbox.Stop.EXITED else str(ended.stop)


def _result_line(line: str) -> tuple[int, list[Json]] | None:
    """One [index, value, ...] line of the driver; None for anything else, for the solution may write here too."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(row, list) and len(row) in (2, 3) and type(row[0]) is int and row[0] >= 0:
        return row[0], row[1:]
    return None

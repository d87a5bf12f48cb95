"""Verdicts that execute: terminal commands in copies of a workspace, and code on its tests.

No action comes twice, for a second time would be found in the cache: each carries the number of its turn in a comment
that changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.bench.verdict_cases import Case
from pivotrl_core.trajectories.nemo_gym import NEMO_ROW
from pivotrl_core.types import Action, Candidate, Message, Role
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.code_grader import CodeGrader
from pivotrl_core.verifiers.graded import GradedVerifier
from pivotrl_core.verifiers.protocol import Verifier
from pivotrl_core.verifiers.terminal import TerminalGrader
from pivotrl_core.verifiers.verdict_cache import VerdictCache

# The expert's, and an action that only its effect shows to be the same.
_COMMANDS = (
    ("cat notes/a.txt", "tail -n +1 notes/a.txt"),
    ("sort -u notes/a.txt > out.txt", "awk '!seen[$0]++' notes/a.txt | sort > out.txt"),
    ("wc -l < notes/b.txt", "grep -c '' notes/b.txt"),
    ("mkdir build && cp notes/a.txt build/", "mkdir build; cat notes/a.txt > build/a.txt"),
)
_LARGEST = "def largest(xs, k):\n    return sorted(xs, reverse=True)[:k]\n"
_BY_HEAP = "import heapq\ndef largest(xs, k):\n    return heapq.nlargest(k, xs)\n"
_TESTS = {
    "function": "largest", "inputs": [[[3, 1, 2], 2], [[5, 5, 1, 9], 3], [[4], 1]], "outputs": [[3, 2], [9, 5, 5], [4]],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Execution:
    """A verifier that executes, its cases by the number of the turn, and why it cannot here, if it cannot."""

    name: str
    verifier: Callable[[], Verifier]
    cases: Callable[[int], Sequence[Case]]
    obstacle: str = ""


def executions(scratch: Path) -> list[Execution]:
    """Those that there are. `scratch` receives the workspace and the caches."""
    notes = scratch / "rows" / "project" / "notes"
    notes.mkdir(parents=True)
    for name in ("a.txt", "b.txt"):
        (notes / name).write_text("".join(f"line {number % 7}, {name}\n" for number in range(200)))
    terminal = [_terminal_turn(number) for number in range(len(_COMMANDS))]
    expert = Message(Role.ASSISTANT, _LARGEST)
    code = Candidate(
        (), (), expert, trajectory_id="code", turn_index=0, domain="code", metadata={NEMO_ROW: {"tests": _TESTS}}
    )

    def commands(turn: int) -> list[Case]:
        pairs = zip(terminal, _COMMANDS, strict=True)
        return [Case(candidate, (Action(f"{actual}  # {turn}"),)) for candidate, (_, actual) in pairs]

    def programs(turn: int) -> list[Case]:
        return [Case(code, (Action(f"{_BY_HEAP}# {turn}\n"),))]

    def terminal_verifier() -> Verifier:
        return GradedVerifier(TerminalGrader(None, scratch / "rows", VerdictCache(scratch / "terminal.sqlite")))

    def code_verifier() -> Verifier:
        return GradedVerifier(CodeGrader(None, VerdictCache(scratch / "code.sqlite")))

    obstacle = sandbox.available() or ""
    return [
        Execution("terminal", terminal_verifier, commands, obstacle),
        Execution("code", code_verifier, programs, obstacle),
    ]


def _terminal_turn(number: int) -> Candidate:
    row = {NEMO_ROW: {"metadata": {"harness": "bash"}, "workspace": "project"}}
    expert = Message(Role.ASSISTANT, _COMMANDS[number][0])
    return Candidate((), (), expert, trajectory_id=f"terminal-{number}", turn_index=0, domain="terminal", metadata=row)

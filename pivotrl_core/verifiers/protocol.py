"""What a verifier is, and the two steps it is made of where it has components: grading and deciding.

Grading finds out what there is to know about an action, and may execute it or ask a judge; deciding applies thresholds
to what was found, and costs nothing. So another threshold or another reward is a decision about stored components, and
no action is graded twice. A malformed action is a verdict like any other, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pivotrl_core.types import Action, Candidate, Json, Verdict


class Verifier(Protocol):
    """Scores actions at a candidate's state. `version` changes whenever a verdict could."""

    name: str
    version: str

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        """Judge `action` against the candidate's expert action. Never raises on any action."""
        ...


@runtime_checkable
class ConcurrentVerifier(Verifier, Protocol):
    """One that waits for others to work (a judge, a service): threads may ask it about `at_once` actions at a time."""

    at_once: int


@dataclass(frozen=True, slots=True)
class GradingDecision:
    """What thresholds make of components.

    Attributes:
        accepted: whether the action is interchangeable with the expert's.
        reason: why, a value of a StrEnum.
        credit: in [0, 1]: 1 where accepted, else how much of the expert's action is there.
    """

    accepted: bool
    reason: str
    credit: float


class Grader(Protocol):
    """One per domain. `version` changes whenever a component or a decision could.

    Components are JSON values of bounded size; texts among them are printable and cut at 200 characters. Where graders
    mean the same they call it the same: `parsed`, `decision` ("call", "message", "none"), `name`, `arguments`,
    `target`, `similarity` (in [0, 1]), `executed` (whether something was), `same_effect`, `judged`, `judgement`,
    `error`.
    """

    name: str
    version: str

    def grade(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        """What there is to know about `action`. Never raises on any action."""
        ...

    def decide(self, components: Mapping[str, Json]) -> GradingDecision:
        """What follows from components that this version of `grade` has found. Pure."""
        ...


def printable(text: str) -> str:
    """Text that any file can carry: half surrogate pairs and the like are written out, and it is kept short."""
    return text[:200].encode("utf-8", "backslashreplace").decode("utf-8")[:200]

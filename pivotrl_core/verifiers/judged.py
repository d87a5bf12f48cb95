"""A judge as the last resort of a grader: asked only where an action is refused that could be the same.

Which refusals those are, the grader says (`undecided`): a wrong tool or number is no question, other words for the
same may be. What the judge said is a component, so that rewards follow without asking again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from pivotrl_core.types import Action, Candidate, Json, Verdict, content_id
from pivotrl_core.verifiers.protocol import Grader, GradingDecision
from pivotrl_core.verifiers.settings import VerdictReason


class Judgement(StrEnum):
    SAME = "same"
    DIFFERENT = "different"
    UNREADABLE = "unreadable"
    SWAPPED_DIFFERENT = "swapped_different"
    SWAPPED_UNREADABLE = "swapped_unreadable"
    TOO_LONG = "too_long"


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a judge thinks of two actions, and how its last answer ended (printable, 200 characters).

    `tokens` are what it read and wrote for that, in questions and answers.
    """

    judgement: Judgement
    answer: str = ""
    tokens: int = 0


class Judge(Protocol):
    """Compares an action with the expert's. `version` changes whenever an opinion could.

    It may be asked about `at_once` actions at a time, in threads.
    """

    version: str
    at_once: int

    def compare(self, candidate: Candidate, action: Action) -> Opinion:
        """Whether they are interchangeable.

        Raises:
            ConfigError, EngineError, TemporaryError: the judge cannot be asked. That is no verdict.
        """
        ...


@runtime_checkable
class UndecidedGrader(Grader, Protocol):
    """A grader whose refusals a judge may revise."""

    def undecided(self, components: Mapping[str, Json]) -> bool:
        """Whether a refused action with these components could yet be the same. Pure."""
        ...


class JudgedGrader:
    """Grades as the inner grader, and asks the judge where that leaves something open.

    Adds the components `judged` (whether the judge was asked), `judgement`, `judge_answer` and `judge_tokens`.
    """

    def __init__(self, inner: UndecidedGrader, judge: Judge) -> None:
        self.inner, self.judge = inner, judge
        self.name = inner.name
        self.version = f"{inner.version}-{content_id(['judged', judge.version])}"

    def grade(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        """As the inner grader. Raises what the judge raises: no verdict is made up where it cannot be asked."""
        components = self.inner.grade(candidate, action)
        if self.inner.decide(components).accepted or not self.inner.undecided(components):
            return {**components, "judged": False}
        opinion = self.judge.compare(candidate, action)
        return {
            **components, "judged": True, "judgement": str(opinion.judgement), "judge_answer": opinion.answer,
            "judge_tokens": opinion.tokens,
        }  # fmt: skip

    def decide(self, components: Mapping[str, Json]) -> GradingDecision:
        decision = self.inner.decide(components)
        if decision.accepted or not components.get("judged"):
            return decision
        if components["judgement"] == Judgement.SAME:
            return GradingDecision(True, VerdictReason.JUDGED_SAME.value, 1.0)
        unread = components["judgement"] in (Judgement.UNREADABLE, Judgement.SWAPPED_UNREADABLE)
        reason = VerdictReason.JUDGE_UNREADABLE if unread else VerdictReason.JUDGED_DIFFERENT
        return GradingDecision(False, reason.value, decision.credit)


def judge_tokens(verdicts: Mapping[Hashable, Verdict]) -> int:
    """What a judge read and wrote for verdicts on distinct actions: an equal action is not asked about again."""
    return sum(int(verdict.components.get("judge_tokens", 0)) for verdict in verdicts.values())


def with_judge(grader: Grader, judge: Judge | None) -> Grader:
    """The grader, with a judge behind it where there is one and the grader has something to ask."""
    return JudgedGrader(grader, judge) if judge is not None and isinstance(grader, UndecidedGrader) else grader

"""Decisions that graders of calls and messages make alike."""

from __future__ import annotations

from enum import StrEnum

from pivotrl_core.types import Json
from pivotrl_core.verifiers.protocol import GradingDecision
from pivotrl_core.verifiers.settings import VerdictReason

ACCEPTED = GradingDecision(True, VerdictReason.ACCEPTED.value, 1.0)


def refused(reason: StrEnum, credit: float = 0.0) -> GradingDecision:
    """A refusal with its reason, and how much of the expert's action is there."""
    return GradingDecision(False, reason.value, credit)


def refused_kind(decision: Json, expected: Json) -> GradingDecision | None:
    """The refusal of an action of another kind than the expert's (`decision`, `expected`: components); else None."""
    if decision == expected:
        return None
    if decision == "none":
        return refused(VerdictReason.NO_ANSWER)
    return refused(VerdictReason.CALL_EXPECTED if expected == "call" else VerdictReason.MESSAGE_EXPECTED)

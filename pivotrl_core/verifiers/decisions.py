"""Decisions that graders of calls and messages make alike."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from pivotrl_core.types import Candidate, Json, ToolCall
from pivotrl_core.verifiers.protocol import GradingDecision
from pivotrl_core.verifiers.settings import VerdictReason
from pivotrl_core.verifiers.similarity import is_blank


class ActionKind(StrEnum):
    """What an action is, as the component `decision` tells it; of the expert's, `expected` does."""

    CALL = "call"
    MESSAGE = "message"
    NONE = "none"  # nothing that can be seen


ACCEPTED = GradingDecision(True, VerdictReason.ACCEPTED.value, 1.0)


def kind_of(calls: Sequence[ToolCall], said: str) -> ActionKind:
    """The kind of an action with these calls, or else this text, its thinking taken off."""
    if calls:
        return ActionKind.CALL
    return ActionKind.NONE if is_blank(said) else ActionKind.MESSAGE


def expected_kind(candidate: Candidate) -> ActionKind:
    """The kind of the expert's action: what is no call is a message."""
    return ActionKind.CALL if candidate.expert.tool_calls else ActionKind.MESSAGE


def refused(reason: StrEnum, credit: float = 0.0) -> GradingDecision:
    """A refusal with its reason, and how much of the expert's action is there."""
    return GradingDecision(False, reason.value, credit)


def refused_kind(decision: Json, expected: Json) -> GradingDecision | None:
    """The refusal of an action of another kind than the expert's (`decision`, `expected`: components); else None."""
    if decision == expected:
        return None
    if decision == ActionKind.NONE:
        return refused(VerdictReason.NO_ANSWER)
    return refused(VerdictReason.CALL_EXPECTED if expected == ActionKind.CALL else VerdictReason.MESSAGE_EXPECTED)

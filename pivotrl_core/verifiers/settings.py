"""Settings and reasons that the verifiers of actions share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class VerifierKind(StrEnum):
    FUNCTIONAL = "functional"
    EXACT = "exact"


class VerdictReason(StrEnum):
    ACCEPTED = "accepted"
    MALFORMED = "malformed"
    NO_ANSWER = "no_answer"
    CALL_EXPECTED = "call_expected"
    MESSAGE_EXPECTED = "message_expected"
    MESSAGE_DIFFERS = "message_differs"
    COUNT_DIFFERS = "count_differs"
    NAME_DIFFERS = "name_differs"
    ARGUMENTS_DIFFER = "arguments_differ"


OTHER_FORMAT = "a call in the other format than data.tool_format names"
"""What is wrong with such an action; profile and selection count them."""


@dataclass(frozen=True, slots=True)
class FunctionalSettings:
    """Thresholds in [0, 1]. `message_threshold` is for where no domain judges messages; None: any message will do."""

    text_threshold: float = 0.8
    message_threshold: float | None = None

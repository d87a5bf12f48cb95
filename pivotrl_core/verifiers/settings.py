"""Settings and reasons that the verifiers of actions share."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pivotrl_core.verifiers.comparators import Comparators


class VerifierKind(StrEnum):
    FUNCTIONAL = "functional"
    EXACT = "exact"
    NEMO_GYM = "nemo-gym"


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
    JUDGED_SAME = "judged_same"
    JUDGED_DIFFERENT = "judged_different"
    JUDGE_UNREADABLE = "judge_unreadable"


class CallCredit(StrEnum):
    """What several calls are worth that are not all right: m matched of e expected and a actual ones."""

    STRICT = "strict"  # nothing
    FRACTIONAL = "fractional"  # m / max(e, a): a surplus call costs as much as a missing one
    F1 = "f1"  # 2 m / (e + a)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionalSettings:
    """How tool-use turns are compared.

    Attributes:
        text_threshold: similarity in [0, 1] from which free-text arguments are the same.
        message_threshold: the same of messages, where no domain judges them; None: any message will do.
        call_credit: the credit of calls of which only some are right.
        comparators: of each tool, of each path of an argument, how it is compared (`comparators.py`).
    """

    text_threshold: float = 0.8
    message_threshold: float | None = None
    call_credit: CallCredit = CallCredit.FRACTIONAL
    comparators: Comparators = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareSettings:
    """How turns of coding agents are compared.

    Attributes:
        name_only: the tool's category decides alone, as in the paper.
        line_overlap: shared lines / lines of the longer range, in [0, 1], from which two views are the same.
        test_seconds: wall time of the tests that a row names, and of a command, in the sandbox.
    """

    name_only: bool = False
    line_overlap: float = 0.8
    test_seconds: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How turns of browsing agents are compared.

    Attributes:
        query_similarity: shared words / all words of two queries, in [0, 1], from which they are the same.
        result_overlap: agreement of the first results of two queries, in [0, 1] (`search/index.py`), from which they
            are the same. One shared page, even the first of five, is 0.71.
        results: how many results of a query are looked at, where there is an index.
        index: a folder of documents to search, or None: that which the row names.
    """

    query_similarity: float = 0.8
    result_overlap: float = 0.75
    results: int = 5
    index: str | None = None

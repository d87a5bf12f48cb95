"""Exact match, the strict reward of the paper's ablation: r_strict = 1[a = a*].

Equal means the same text: the same names and the same raw argument texts in the same order, or the same message with
outer white space stripped. Nothing is decoded, so a space or the order of keys in the arguments makes a difference.
Where calls are expected, words beside them are not compared. The other side is never a substitute: a message where a
call was expected is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Action, Candidate, Json, ToolCall
from pivotrl_core.verifiers.protocol import GradingDecision
from pivotrl_core.verifiers.settings import VerdictReason
from pivotrl_core.verifiers.similarity import is_blank


class ExactGrader:
    """Accepts the expert's own words. Components: `equal`, and the reason why not as `difference`."""

    name = "exact"
    version = "2"

    def grade(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        reason = VerdictReason.MALFORMED if action.error else _compare(candidate, action)
        equal = reason is VerdictReason.ACCEPTED
        return {"parsed": not action.error, "equal": equal, "difference": "" if equal else reason.value}

    def decide(self, components: Mapping[str, Json]) -> GradingDecision:
        equal = bool(components["equal"])
        return GradingDecision(equal, VerdictReason.ACCEPTED.value if equal else components["difference"], float(equal))


def _compare(candidate: Candidate, action: Action) -> VerdictReason:
    expert = candidate.expert
    content = split_thinking(action.content)[1]
    if not action.tool_calls and is_blank(content):
        return VerdictReason.NO_ANSWER
    if bool(expert.tool_calls) != bool(action.tool_calls):
        return VerdictReason.CALL_EXPECTED if expert.tool_calls else VerdictReason.MESSAGE_EXPECTED
    if not expert.tool_calls:
        equal = content.strip() == expert.content.strip()
        return VerdictReason.ACCEPTED if equal else VerdictReason.MESSAGE_DIFFERS
    return _compare_calls(expert.tool_calls, action.tool_calls)


def _compare_calls(expected: tuple[ToolCall, ...], actual: tuple[ToolCall, ...]) -> VerdictReason:
    if len(expected) != len(actual):
        return VerdictReason.COUNT_DIFFERS
    pairs = list(zip(expected, actual, strict=True))
    if any(first.name != second.name for first, second in pairs):
        return VerdictReason.NAME_DIFFERS
    equal = all(first.arguments == second.arguments for first, second in pairs)
    return VerdictReason.ACCEPTED if equal else VerdictReason.ARGUMENTS_DIFFER

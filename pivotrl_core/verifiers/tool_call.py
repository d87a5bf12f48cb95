"""Functional verifier of tool-use turns: is this action interchangeable with the expert's?

First the decision (tool call or message), then names, then arguments under the tool's JSON schema. Several calls are
matched in any order, one to one, and surplus calls cost the reward. A message counts where one was expected and it says
something (thinking alone says nothing), and, where the domain knows messages, does what the expert's does. Malformed
actions are verdicts of reward 0.

Thresholds belong to the decision: components say from which similarity on how many calls are matched.

Differs from the public verifier of the paper's recipe (NeMo Gym): schema defaults, numbers by value, dates by day,
identical texts always match, an empty message is no answer, surplus calls are not free.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Protocol, runtime_checkable

from pivotrl_core.files import code_digest
from pivotrl_core.trajectories.arguments import Decoded, decode_arguments
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Action, Candidate, Json, ToolCall, content_id
from pivotrl_core.verifiers.decisions import ACCEPTED, ActionKind, expected_kind, kind_of, refused, refused_kind
from pivotrl_core.verifiers.expected import ExpectedCall, ExpectedCalls
from pivotrl_core.verifiers.matching import matching_steps
from pivotrl_core.verifiers.protocol import GradingDecision, printable
from pivotrl_core.verifiers.settings import CallCredit, FunctionalSettings, VerdictReason
from pivotrl_core.verifiers.similarity import text_similarity
from pivotrl_core.verifiers.values import Comparison

MAX_CALLS = 64
"""More calls than this in one action are never compared one by one."""


@runtime_checkable
class DomainRules(Protocol):
    """What a domain takes for the same at a state, beyond what schemas can say. Neither may raise."""

    name: str

    def same_call(self, candidate: Candidate, expected: ToolCall, actual: ToolCall) -> bool:
        """Whether two calls do the same; asked where the schemas say that they differ."""
        ...

    def same_message(self, candidate: Candidate, expected: str, actual: str) -> bool:
        """Whether two messages do the same; asked about every message, none of them blank."""
        ...


class ToolCallGrader:
    """Grades tool-use turns.

    Components of calls: `name` (the same tools are called), `arguments` (all calls are matched but for the wording of
    free text), `similarity` (from 0 to 1: the threshold up to which they all are), `matching` (pairs of a similarity
    and how many calls are matched from there down), `calls`, `calls_expected` and, for one call, its `difference`. Of
    a message: the domain's `same_message`, or `similarity` where messages are compared at all.
    """

    name = "tool"

    def __init__(self, settings: FunctionalSettings | None = None, domain: DomainRules | None = None) -> None:
        self.settings = settings or FunctionalSettings()
        self.domain = domain
        self._expected = ExpectedCalls(self.settings.comparators, MAX_CALLS)
        # Stored verdicts are those of the rules as they were written then.
        rules = [domain.name, code_digest(Path(inspect.getfile(type(domain))).parent)] if domain else []
        self.version = f"7-{content_id([asdict(self.settings), rules])}"

    def grade(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        if action.error:
            return {"parsed": False, "error": printable(action.error)}
        expected = expected_kind(candidate)
        content = "" if action.tool_calls else split_thinking(action.content)[1]
        decision = kind_of(action.tool_calls, content)
        components: dict[str, Json] = {"parsed": True, "decision": decision, "expected": expected}
        if decision != expected:
            return components
        if decision is ActionKind.CALL:
            return components | self._grade_calls(candidate, action.tool_calls)
        return components | self._grade_message(candidate, content)

    def decide(self, components: Mapping[str, Json]) -> GradingDecision:
        if "decision" not in components:
            return refused(VerdictReason.MALFORMED)
        expected = components["expected"]
        if other := refused_kind(components["decision"], expected):
            return other
        return self._decide_message(components) if expected == ActionKind.MESSAGE else self._decide_calls(components)

    def undecided(self, components: Mapping[str, Json]) -> bool:
        """Whether a refusal is one of wording alone: free text of calls that match otherwise, or a message."""
        if components.get("decision") == ActionKind.MESSAGE:
            return "similarity" in components
        return 0.0 < float(components.get("similarity", 0.0)) < 1.0

    def _grade_message(self, candidate: Candidate, actual: str) -> dict[str, Json]:
        expected = candidate.expert.content
        if self.domain is not None:
            return {"same_message": expected == actual or self.domain.same_message(candidate, expected, actual)}
        if self.settings.message_threshold is None:  # for long messages a similarity costs more than all the rest
            return {}
        return {"similarity": text_similarity(expected, actual)}

    def _decide_message(self, components: Mapping[str, Json]) -> GradingDecision:
        if "same_message" in components:
            return ACCEPTED if components["same_message"] else refused(VerdictReason.MESSAGE_DIFFERS)
        threshold = self.settings.message_threshold
        if threshold is None or components["similarity"] >= threshold:
            return ACCEPTED
        return refused(VerdictReason.MESSAGE_DIFFERS, components["similarity"])

    def _grade_calls(self, candidate: Candidate, actual: Sequence[ToolCall]) -> dict[str, Json]:
        expected = self._expected.of(candidate)
        given = [(call, decode_arguments(call.arguments)) for call in actual[:MAX_CALLS]]
        count, wanted = len(actual), len(candidate.expert.tool_calls)
        components: dict[str, Json] = {"calls_expected": wanted, "calls": count}
        if count == wanted == 1:
            score, difference = self._compare(candidate, expected[0], *given[0])
            steps = [(score, 1)] if score else []
            components |= {"name": expected[0].call.name == actual[0].name, "difference": difference}
        else:
            steps = matching_steps([[self._compare(candidate, one, *two)[0] for two in given] for one in expected])
            names = sorted(call.name for call in candidate.expert.tool_calls) == sorted(call.name for call in actual)
            components["name"] = names
        complete = bool(steps) and steps[-1][1] == count == wanted
        components["arguments"] = complete
        components["similarity"] = steps[-1][0] if complete else 0.0
        components["matching"] = [list(step) for step in steps]
        broken = next((decoded.error for _, decoded in given if decoded.error), "")
        if broken:
            components |= {"parsed": complete, "error": printable(broken)}
        return components

    def _decide_calls(self, components: Mapping[str, Json]) -> GradingDecision:
        threshold = self.settings.text_threshold
        matched = max((size for score, size in components["matching"] if score >= threshold), default=0)
        wanted, count = components["calls_expected"], components["calls"]
        if matched == wanted == count:
            return ACCEPTED
        if "error" in components:
            return refused(VerdictReason.MALFORMED)
        credit = _call_credit(self.settings.call_credit, matched, wanted, count)
        if wanted != count:
            return refused(VerdictReason.COUNT_DIFFERS, credit)
        return refused(VerdictReason.ARGUMENTS_DIFFER if components["name"] else VerdictReason.NAME_DIFFERS, credit)

    def _compare(
        self, candidate: Candidate, expected: ExpectedCall, call: ToolCall, decoded: Decoded
    ) -> tuple[float, str]:
        """How far a call is the expert's, and where it differs (empty where the score is 1)."""
        first = expected.call
        if first.name == call.name and first.arguments == call.arguments:
            return 1.0, ""
        score, difference = _compare_arguments(expected, call, decoded)
        if score == 1.0 or self.domain is None or decoded.error:
            return score, difference
        return (1.0, "") if self.domain.same_call(candidate, first, call) else (score, difference)


def _call_credit(kind: CallCredit, matched: int, wanted: int, count: int) -> float:
    if kind is CallCredit.STRICT:
        return 0.0
    return matched / max(wanted, count) if kind is CallCredit.FRACTIONAL else 2 * matched / (wanted + count)


def _compare_arguments(expected: ExpectedCall, call: ToolCall, given: Decoded) -> tuple[float, str]:
    if expected.call.name != call.name:
        return 0.0, "name"
    if expected.decoded.error or given.error:
        return 0.0, "expected arguments: malformed" if expected.decoded.error else "arguments: malformed"
    comparison = Comparison(expected.schema)
    score = comparison.score(expected.decoded.value, given.value, expected.schema, expected.mark)
    return score, "" if score == 1.0 else printable(comparison.difference)

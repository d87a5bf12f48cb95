"""Functional verifier of tool-use turns: is this action interchangeable with the expert's?

First the decision (tool call or message), then names, then arguments under the tool's JSON schema. Several calls are
matched in any order, one to one, and surplus calls cost the reward. A message counts where one was expected and it says
something (thinking alone says nothing), and, where the domain knows messages, does what the expert's does. Malformed
actions are verdicts of reward 0.

Differs from the public verifier of the paper's recipe (NeMo Gym): schema defaults, numbers by value, dates by day,
identical texts always match, an empty message is no answer, surplus calls are not free.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from pivotrl_core.files import code_digest
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Action, Candidate, Json, ToolCall, Verdict, content_id
from pivotrl_core.verifiers.arguments import Decoded, decode_arguments
from pivotrl_core.verifiers.matching import maximum_matching
from pivotrl_core.verifiers.settings import FunctionalSettings, VerdictReason
from pivotrl_core.verifiers.similarity import is_blank, text_similarity
from pivotrl_core.verifiers.values import Comparison

MAX_CALLS = 64
"""More calls than this in one action are never compared one by one."""
_Read = tuple[ToolCall, Decoded]


class DomainRules(Protocol):
    """What a domain takes for the same at a state, beyond what schemas can say. Neither may raise."""

    name: str

    def same_call(self, candidate: Candidate, expected: ToolCall, actual: ToolCall) -> bool:
        """Whether two calls do the same; asked where the schemas say that they differ."""
        ...

    def same_message(self, candidate: Candidate, expected: str, actual: str) -> bool:
        """Whether two messages do the same; asked about every message, none of them blank."""
        ...


class ToolCallVerifier:
    """Reward 1 for a functionally equal action, else 0."""

    name = "functional"

    def __init__(self, settings: FunctionalSettings | None = None, domain: DomainRules | None = None) -> None:
        self.settings = settings or FunctionalSettings()
        self.domain = domain
        # Stored verdicts are those of the rules as they were written then.
        rules = [domain.name, code_digest(Path(inspect.getfile(type(domain))).parent)] if domain else []
        self.version = f"3-{content_id([asdict(self.settings), rules])}"

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        if action.error:
            return _verdict(VerdictReason.MALFORMED, {"parsed": False, "error": _printable(action.error)})
        content = split_thinking(action.content)[1]
        expected = "call" if candidate.expert.tool_calls else "message"
        decision = "call" if action.tool_calls else "none" if is_blank(content) else "message"
        components: dict[str, Json] = {"parsed": True, "decision": decision, "expected": expected}
        if decision == "none":
            return _verdict(VerdictReason.NO_ANSWER, components)
        if decision != expected:
            wanted_call = expected == "call"
            return _verdict(VerdictReason.CALL_EXPECTED if wanted_call else VerdictReason.MESSAGE_EXPECTED, components)
        if expected == "message":
            return self._verify_message(candidate, content, components)
        return self._verify_calls(candidate, action.tool_calls, components)

    def _verify_message(self, candidate: Candidate, actual: str, components: dict[str, Json]) -> Verdict:
        expected = candidate.expert.content
        if self.domain is not None:
            same = expected == actual or self.domain.same_message(candidate, expected, actual)
            components["same_message"] = same
            return _verdict(VerdictReason.ACCEPTED if same else VerdictReason.MESSAGE_DIFFERS, components)
        threshold = self.settings.message_threshold
        if threshold is None:
            return _verdict(VerdictReason.ACCEPTED, components)
        similarity = text_similarity(expected, actual)
        components["similarity"] = similarity
        accepted = similarity == 1.0 or similarity >= threshold
        return _verdict(VerdictReason.ACCEPTED if accepted else VerdictReason.MESSAGE_DIFFERS, components)

    def _verify_calls(self, candidate: Candidate, actual: tuple[ToolCall, ...], components: dict[str, Json]) -> Verdict:
        expected = candidate.expert.tool_calls
        first, second = (
            [(call, decode_arguments(call.arguments)) for call in calls[:MAX_CALLS]] for calls in (expected, actual)
        )
        errors = [decoded.error for _, decoded in second]
        results = [[self._compare(candidate, one, other) for other in second] for one in first]
        matched = maximum_matching([[not difference for difference, _ in row] for row in results])
        names = sorted(call.name for call in expected) == sorted(call.name for call in actual)
        components |= {"name": names, "calls_expected": len(expected), "calls": len(actual), "matched": matched}
        if len(expected) == len(actual) == 1:
            components["difference"], components["similarity"] = results[0][0]
        complete = matched == len(expected) == len(actual)
        components["arguments"] = complete
        broken = next((error for error in errors if error), "")
        if broken and not complete:
            return _verdict(VerdictReason.MALFORMED, {**components, "parsed": False, "error": _printable(broken)})
        if complete:
            return _verdict(VerdictReason.ACCEPTED, components)
        if len(expected) != len(actual):
            return _verdict(VerdictReason.COUNT_DIFFERS, components)
        return _verdict(VerdictReason.ARGUMENTS_DIFFER if names else VerdictReason.NAME_DIFFERS, components)

    def _compare(self, candidate: Candidate, expected: _Read, actual: _Read) -> tuple[str, float]:
        """(first difference, lowest similarity of a free text): an empty difference means the same call."""
        first, second = expected[0], actual[0]
        if (first.name, first.arguments) == (second.name, second.arguments):
            return "", 1.0
        difference, similarity = _compare_arguments(candidate, expected, actual, self.settings.text_threshold)
        if not difference or self.domain is None or actual[1].error:
            return difference, similarity
        return "" if self.domain.same_call(candidate, first, second) else difference, similarity


def _compare_arguments(
    candidate: Candidate, expected: _Read, actual: _Read, text_threshold: float
) -> tuple[str, float]:
    (first, wanted), (second, given) = expected, actual
    if first.name != second.name:
        return "name", 0.0
    if wanted.error or given.error:
        return "expected arguments: malformed" if wanted.error else "arguments: malformed", 0.0
    schema = next((tool.parameters for tool in candidate.tools if tool.name == first.name), None)
    root = schema if isinstance(schema, Mapping) else {}
    comparison = Comparison(root, text_threshold)
    equal = comparison.equal(wanted.value, given.value, root)
    return "" if equal else _printable(comparison.difference), comparison.similarity


def _printable(text: str) -> str:
    """Text that any file can carry: half surrogate pairs and the like are written out, and it is kept short."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")[:200]


def _verdict(reason: VerdictReason, components: dict[str, Json]) -> Verdict:
    return Verdict(1.0 if reason is VerdictReason.ACCEPTED else 0.0, str(reason), components)

"""The expert's calls with all that a comparison by schema needs."""

from __future__ import annotations

from dataclasses import dataclass

from pivotrl_core.trajectories.arguments import Decoded, decode_arguments
from pivotrl_core.types import Candidate, Tool, ToolCall
from pivotrl_core.verifiers.comparators import ANY_TOOL, Comparators, Mark, marks_of
from pivotrl_core.verifiers.derived_cache import DerivedCache
from pivotrl_core.verifiers.offers import schema_of
from pivotrl_core.verifiers.schema import Schema


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call of the expert's with all that a comparison needs."""

    call: ToolCall
    decoded: Decoded
    schema: Schema
    mark: Mark


class ExpectedCalls:
    """The first calls of the last few candidates that were asked about.

    Raises:
        ValueError: there is no such comparator.
    """

    def __init__(self, comparators: Comparators, max_calls: int) -> None:
        self._marks = {tool: marks_of(comparators, tool) for tool in {*comparators, ANY_TOOL}}
        self._max_calls = max_calls
        self._derived = DerivedCache(self._read_calls)
        self.of = self._derived.of

    def _read_calls(self, candidate: Candidate) -> tuple[ExpectedCall, ...]:
        return tuple(self._read(call, candidate.tools) for call in candidate.expert.tool_calls[: self._max_calls])

    def _read(self, call: ToolCall, tools: tuple[Tool, ...]) -> ExpectedCall:
        mark = self._marks.get(call.name) or self._marks[ANY_TOOL]
        return ExpectedCall(call, decode_arguments(call.arguments), schema_of(call.name, tools), mark)

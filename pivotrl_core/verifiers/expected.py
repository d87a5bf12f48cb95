"""The expert's side of a comparison, decoded once for all the actions that are compared with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pivotrl_core.types import Candidate, Message, Tool, ToolCall
from pivotrl_core.verifiers.arguments import Decoded, decode_arguments
from pivotrl_core.verifiers.comparators import ANY_TOOL, Comparators, Mark, marks_of
from pivotrl_core.verifiers.schema import Schema

MAX_HELD = 512
"""Candidates whose expert's side is held at a time: what one batch of a profile or of training looks at."""


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call of the expert's with all that a comparison needs."""

    call: ToolCall
    decoded: Decoded
    schema: Schema
    mark: Mark


class ExpectedCalls:
    """The calls of the last few candidates that were asked about. Safe among threads: entries are made whole.

    Raises:
        ValueError: there is no such comparator.
    """

    def __init__(self, comparators: Comparators, max_calls: int) -> None:
        self._marks = {tool: marks_of(comparators, tool) for tool in {*comparators, ANY_TOOL}}
        self._max_calls = max_calls
        # By identity: hashing a state would cost more than comparing. The key's objects are held, so it stays theirs.
        self._held: dict[tuple[int, int], tuple[Message, tuple[Tool, ...], tuple[ExpectedCall, ...]]] = {}

    def of(self, candidate: Candidate) -> tuple[ExpectedCall, ...]:
        """The first calls of the candidate's expert action."""
        expert, tools = candidate.expert, candidate.tools
        held = self._held.get((id(expert), id(tools)))
        if held is not None:
            return held[2]
        calls = tuple(self._read(call, tools) for call in expert.tool_calls[: self._max_calls])
        if len(self._held) >= MAX_HELD:
            self._held.clear()
        self._held[id(expert), id(tools)] = (expert, tools, calls)
        return calls

    def _read(self, call: ToolCall, tools: tuple[Tool, ...]) -> ExpectedCall:
        schema = next((tool.parameters for tool in tools if tool.name == call.name), None)
        root = schema if isinstance(schema, Mapping) else {}
        mark = self._marks.get(call.name) or self._marks[ANY_TOOL]
        return ExpectedCall(call, decode_arguments(call.arguments), root, mark)

"""What a row says about its tools: their schemas, and which of them can be called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pivotrl_core.types import Candidate, Tool
from pivotrl_core.verifiers.schema import Schema


def schema_of(name: str, tools: Sequence[Tool]) -> Schema:
    """The schema of a tool, or an empty one."""
    found = next((tool.parameters for tool in tools if tool.name == name), None)
    return found if isinstance(found, Mapping) else {}


def offered_names(candidate: Candidate) -> frozenset[str]:
    """Names of the tools that a row lists, where all that the expert calls are among them; else none.

    A list without the expert's tools is not the list of what can be called.
    """
    names = frozenset(tool.name for tool in candidate.tools)
    return names if all(call.name in names for call in candidate.expert.tool_calls) else frozenset()

"""Tools from the calls of conversations, where a file has calls and no list of tools.

What is inferred: names, names of arguments and their JSON types. Whether an argument is required, its default and its
description cannot be known, and tools that were never called are missing: such trajectories are marked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pivotrl_core.trajectories.decoding import decode_json, has_lone_surrogate
from pivotrl_core.types import Json, Message, Tool


@dataclass(slots=True)
class CalledTools:
    """The tools of calls that go by: for each name, for each of its arguments, the JSON types of its values."""

    types: dict[str, dict[str, set[str]]] = field(default_factory=dict)

    def add(self, messages: Iterable[Message]) -> None:
        """Take the calls of some messages; arguments that are no JSON object add nothing but the name."""
        for call in (call for message in messages for call in message.tool_calls):
            types = self.types.setdefault(call.name, {})
            for name, value in _decoded(call.arguments).items():
                types.setdefault(name, set()).add(_json_type(value))

    def tools(self) -> tuple[Tool, ...]:
        """A tool for each name, sorted by name."""
        return tuple(Tool(name, "", _schema(self.types[name])) for name in sorted(self.types))


def infer_tools(messages: Iterable[Message]) -> tuple[Tool, ...]:
    """The tools that some messages call."""
    called = CalledTools()
    called.add(messages)
    return called.tools()


def _decoded(arguments: str) -> dict[str, Json]:
    try:
        value = decode_json(arguments)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: one for name, one in value.items() if not has_lone_surrogate(name)}


def _schema(types: dict[str, set[str]]) -> dict[str, Json]:
    properties = {}
    for name in sorted(types):
        kinds = sorted(types[name])
        properties[name] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    return {"type": "object", "properties": properties}


def _json_type(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"

"""Tools from the calls of a conversation, where a file has calls and no list of tools.

What is inferred: names, names of arguments and their JSON types. Whether an argument is required, its default and its
description cannot be known, and tools that were never called are missing: such trajectories are marked.
"""

from __future__ import annotations

from collections.abc import Iterable

from pivotrl_core.trajectories.decoding import decode_json, has_lone_surrogate
from pivotrl_core.types import Json, Message, Tool


def infer_tools(messages: Iterable[Message]) -> tuple[Tool, ...]:
    """A tool for each name that is called, sorted by name; arguments that are no JSON object add nothing."""
    found: dict[str, dict[str, set[str]]] = {}
    for call in (call for message in messages for call in message.tool_calls):
        types = found.setdefault(call.name, {})
        for name, value in _decoded(call.arguments).items():
            types.setdefault(name, set()).add(_json_type(value))
    return tuple(Tool(name, "", _schema(found[name])) for name in sorted(found))


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

"""Calls, turns and tool lists written as the text that a policy reads and writes. `parsing.py` is the inverse.

Two formats: `hermes`, blocks of `<tool_call>{json}</tool_call>` as Qwen models write them, and `compact`, one call a
line as `@name {json}`, short enough for a very small model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from pivotrl_core.types import Json, Message, Tool, ToolCall

OPEN_TAG = "<tool_call>"
CLOSE_TAG = "</tool_call>"
OTHER_FORMAT = "a call in the other format than data.tool_format names"
"""What is wrong with such an action; profile and selection count them."""
COMPACT_NAME = re.compile(r"[A-Za-z0-9_.:/-]+")


class ToolFormat(StrEnum):
    HERMES = "hermes"
    COMPACT = "compact"


def can_write(name: str, tool_format: ToolFormat) -> bool:
    """Whether a format can carry a call of a tool of this name."""
    return tool_format is ToolFormat.HERMES or COMPACT_NAME.fullmatch(name) is not None


def format_call(call: ToolCall, tool_format: ToolFormat | str) -> str:
    """One call as text; its arguments stay as they were written.

    Raises:
        ValueError: the compact format cannot carry such a name, or the format is unknown.
    """
    if ToolFormat(tool_format) is ToolFormat.HERMES:
        name = json.dumps(call.name, ensure_ascii=False)
        return f'{OPEN_TAG}\n{{"name": {name}, "arguments": {call.arguments}}}\n{CLOSE_TAG}'
    if not can_write(call.name, ToolFormat.COMPACT):
        raise ValueError(f"the compact format cannot carry a tool named {call.name!r}; use hermes")
    return f"@{call.name} {call.arguments}"


def format_turn(message: Message, tool_format: ToolFormat | str) -> str:
    """What a policy writes to say and do what an assistant message says and does. Thinking is not written.

    In the compact format a turn is either calls or words: beside calls, words are left out.
    """
    calls = [format_call(call, tool_format) for call in message.tool_calls]
    words = [message.content] if message.content.strip() and not (calls and tool_format == ToolFormat.COMPACT) else []
    return "\n".join([*words, *calls])


def tools_listing(tools: Sequence[Tool]) -> str:
    """The tools for a system prompt, one signature a line, as short as can be.

    Example line: `@find_order(order_id: string, detail?: "short"|"full" = "short")  what it does`
    """
    return "\n".join(_signature(tool) for tool in tools)


def _signature(tool: Tool) -> str:
    properties, required = tool.parameters.get("properties"), tool.parameters.get("required")
    names = required if isinstance(required, list) else []
    parts = properties if isinstance(properties, Mapping) else {}
    arguments = ", ".join(_argument(name, part, name in names) for name, part in parts.items())
    description = " ".join(tool.description.split())
    return f"@{tool.name}({arguments})" + (f"  {description}" if description else "")


def _argument(name: str, schema: Json, is_required: bool) -> str:
    part = schema if isinstance(schema, Mapping) else {}
    if "default" in part:
        return f"{name}: {_type(part)} = {json.dumps(part['default'], ensure_ascii=False)}"
    return f"{name}{'' if is_required else '?'}: {_type(part)}"


def _type(schema: Json) -> str:
    part = schema if isinstance(schema, Mapping) else {}
    if isinstance(part.get("enum"), list):
        return "|".join(json.dumps(value, ensure_ascii=False) for value in part["enum"])
    branches = part.get("anyOf") or part.get("oneOf")
    if isinstance(branches, list):
        return "|".join(_type(branch) for branch in branches)
    kind, properties = part.get("type"), part.get("properties")
    if kind == "array":
        return f"[{_type(part.get('items'))}]"
    if kind == "object" and isinstance(properties, Mapping):
        return "{" + ", ".join(f"{name}: {_type(value)}" for name, value in properties.items()) + "}"
    if kind == "string" and part.get("format") in ("date", "date-time", "time"):
        return str(part["format"])
    return "|".join(map(str, kind)) if isinstance(kind, list) else str(kind or "any")

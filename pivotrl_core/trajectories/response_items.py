"""Items of OpenAI's Responses API as messages: messages, reasoning, function calls and their outputs.

Items between two model calls are one turn. Reasoning that stands behind the calls of its own turn (some servers list
them so) belongs to that turn. Format: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.fields import (
    read_call_arguments,
    read_call_name,
    read_content,
    read_object,
    read_role,
    reject,
)
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Json, Message, Role, ToolCall


@dataclass(slots=True)
class _Turn:
    """An assistant turn while its items go by."""

    thinking: list[str] = field(default_factory=list)
    content: str = ""
    calls: list[ToolCall] = field(default_factory=list)

    def is_open(self) -> bool:
        return bool(self.thinking or self.acts())

    def acts(self) -> bool:
        """Whether it did something: reasoning alone is no turn."""
        return bool(self.content or self.calls)

    def message(self) -> Message:
        thinking, content = split_thinking(self.content)
        parts = [*self.thinking, thinking]
        return Message(Role.ASSISTANT, content, tuple(self.calls), thinking="\n".join(part for part in parts if part))


def read_items(items: list[Json], field: str) -> tuple[Message, ...]:
    """Items as messages.

    Args:
        items: of `input`, of `output`, or both behind each other.
        field: path of the list in its row.

    Raises:
        InvalidRowError: with the reason and the path of the field.
    """
    messages: list[Message] = []
    turn = _Turn()
    for index, value in enumerate(items):
        where = f"{field}[{index}]"
        item = read_object(value, where)
        kind = item.get("type") or "message"
        if _ends_turn(turn, item, kind) and turn.is_open():
            _close(turn, messages, before_result=kind == "function_call_output")
            turn = _Turn()
        other = _read_item(item, kind, where, turn)
        if other is not None:
            messages.append(other)
    if turn.is_open():
        messages.append(turn.message())
    return tuple(messages)


def _close(turn: _Turn, messages: list[Message], before_result: bool) -> None:
    """End a turn. Reasoning alone before a result is that of the turn whose call is answered."""
    if before_result and not turn.acts() and messages and messages[-1].role is Role.ASSISTANT:
        parts = [messages[-1].thinking, *turn.thinking]
        messages[-1] = replace(messages[-1], thinking="\n".join(part for part in parts if part))
    else:
        messages.append(turn.message())


def _ends_turn(turn: _Turn, item: Mapping[str, Json], kind: Json) -> bool:
    """Whether an item belongs to another model call than the open turn."""
    if kind == "function_call":
        return False
    if kind == "reasoning" or (kind == "message" and item.get("role") == "assistant"):
        return turn.acts()
    return True


def _read_item(item: Mapping[str, Json], kind: Json, where: str, turn: _Turn) -> Message | None:
    """Add an item to the open turn, or return it as a message of its own."""
    if kind == "reasoning":
        turn.thinking.append(_read_reasoning(item, where))
        return None
    if kind == "function_call":
        turn.calls.append(read_call(item, where))
        return None
    if kind == "function_call_output":
        output = read_content(item.get("output"), f"{where}.output")
        return Message(Role.TOOL, output, tool_call_id=str(item.get("call_id") or ""))
    if isinstance(kind, str) and kind.endswith(("_call", "_call_output")):
        reject(DropReason.BUILT_IN_TOOL, f"{where}.type", kind[:80])
    if kind != "message":
        reject(DropReason.UNSUPPORTED_CONTENT, f"{where}.type", repr(kind)[:80])
    role = read_role(item.get("role"), f"{where}.role")
    content = read_content(item.get("content"), f"{where}.content")
    if role is not Role.ASSISTANT:
        return Message(role, content)
    if not content.strip():
        reject(DropReason.EMPTY_ASSISTANT_TURN, where)
    turn.content = content
    return None


def _read_reasoning(item: Mapping[str, Json], where: str) -> str:
    parts = [read_content(item.get(key), f"{where}.{key}") for key in ("summary", "content")]
    return "\n".join(part for part in parts if part)


def read_call(value: Json, where: str) -> ToolCall:
    """A call from an item of type function_call."""
    call = read_object(value, where)
    name = read_call_name(call.get("name"), f"{where}.name")
    return ToolCall(name, read_call_arguments(call, where), str(call.get("call_id") or ""))

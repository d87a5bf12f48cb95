"""Messages of OpenAI's chat format, which many formats hold: content, calls in both forms, thinking apart from both.

Thinking stands in a field of its own (`reasoning_content`, `reasoning`, `thinking`, `thinking_blocks`), in parts of the
content, or in a `<think>` block before it. Calls and results may also stand in the text, as Hermes and Qwen write them.
Format: https://platform.openai.com/docs/guides/function-calling
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.fields import (
    read_content,
    read_function,
    read_object,
    read_role,
    reject,
)
from pivotrl_core.trajectories.hermes_text import split_calls, split_results, without_calls
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Json, Message, Role, ToolCall

THINKING_KEYS = ("reasoning_content", "reasoning", "thinking", "thinking_blocks")
THINKING_PARTS = frozenset({"thinking", "reasoning", "redacted_thinking"})


def is_message(value: Json) -> bool:
    """Whether a value has a message's shape: an object with a role."""
    return isinstance(value, Mapping) and isinstance(value.get("role"), str)


def read_chat_message(value: Json, field: str) -> Message:
    """One message.

    Raises:
        InvalidRowError: with the reason and the path of the field.
    """
    message = read_object(value, field)
    role = read_role(message.get("role"), f"{field}.role")
    if role is Role.ASSISTANT:
        return _read_assistant(message, field)
    content = read_content(message.get("content"), f"{field}.content")
    if role is Role.TOOL:
        return Message(role, content, tool_call_id=_read_id(message.get("tool_call_id"), f"{field}.tool_call_id"))
    if "content" not in message:
        reject(DropReason.MISSING_FIELD, f"{field}.content")
    return Message(role, content)


def system_message(value: Json, field: str) -> list[Message]:
    """The system prompt that stands beside the messages of a row, where there is one."""
    text = read_content(value, field)
    return [Message(Role.SYSTEM, text)] if text.strip() else []


def read_chat_messages(values: Sequence[Json], field: str) -> tuple[list[Message], list[int]]:
    """Messages, and positions in them of assistant turns of weight 0; the results in one message's text are several.

    Raises:
        InvalidRowError: with the reason and the path of the field.
    """
    messages: list[Message] = []
    state_only = []
    ignored = set(unweighted(values))
    for index, value in enumerate(values):
        message = read_chat_message(value, f"{field}[{index}]")
        if index in ignored and message.role is Role.ASSISTANT:
            state_only.append(len(messages))
        messages += split_results(message)
    return messages, state_only


def unweighted(messages: Sequence[Json]) -> list[int]:
    """Positions of assistant messages with `weight` 0: OpenAI's mark of a turn that is not to be learned."""
    return [i for i, one in enumerate(messages) if is_message(one) and "weight" in one and one["weight"] == 0]


def _read_assistant(message: Mapping[str, Json], field: str) -> Message:
    value = message.get("content") or message.get("refusal")
    parts = [part for part in value if _is_thinking(part)] if isinstance(value, list) else []
    if parts and isinstance(value, list):
        value = [part for part in value if not _is_thinking(part)]
    thinking, content = split_thinking(read_content(value, f"{field}.content"))
    given = [_thinking_text(message.get(key)) for key in THINKING_KEYS]
    # Some write the same thinking under two keys.
    texts = dict.fromkeys(text for text in (*given, _thinking_text(parts), thinking) if text)
    calls = _read_calls(message, field)
    if calls:  # some keep the text that the calls were read from
        content = without_calls(content)
    else:
        content, calls = split_calls(content, f"{field}.content")
    return Message(Role.ASSISTANT, content, calls, thinking="\n".join(texts))


def _is_thinking(part: Json) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("type"), str) and part["type"] in THINKING_PARTS


def _thinking_text(value: Json) -> str:
    """Thinking in whatever form: text, or a list of blocks. What has another form is not understood and not kept."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    blocks = [block for block in value if isinstance(block, Mapping)]
    texts = [next((block[key] for key in ("thinking", "reasoning", "text") if block.get(key)), "") for block in blocks]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _read_calls(message: Mapping[str, Json], field: str) -> tuple[ToolCall, ...]:
    if message.get("function_call"):
        return (read_function(message["function_call"], f"{field}.function_call", ""),)
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        reject(DropReason.WRONG_TYPE, f"{field}.tool_calls", "expected a list")
    return tuple(_read_call(call, f"{field}.tool_calls[{index}]") for index, call in enumerate(calls))


def _read_call(value: Json, field: str) -> ToolCall:
    call = read_object(value, field)
    call_id = _read_id(call.get("id"), f"{field}.id")
    if "function" not in call:
        return read_function(call, field, call_id)
    return read_function(call["function"], f"{field}.function", call_id)


def _read_id(value: Json, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str | int):
        reject(DropReason.WRONG_TYPE, field, "expected text")
    return str(value)

"""Reader of OpenAI chat rows: `messages` with `tool_calls` and `tools`, and the older `function_call` and `functions`.

Also read: content as a list of text parts, arguments as an object, `tools` as JSON text, `traj` for `messages` (result
files of tau-bench), `reasoning_content` or a `<think>` block as thinking. Unknown keys of a row are kept as metadata.
Format: https://platform.openai.com/docs/guides/function-calling
"""

from __future__ import annotations

from collections.abc import Mapping

from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.fields import (
    first_name,
    read_arguments,
    read_call_name,
    read_content,
    read_list,
    read_object,
    read_role,
    read_tools,
    reject,
)
from pivotrl_core.trajectories.protocol import RESERVED
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Json, Message, Role, ToolCall, Trajectory

MESSAGE_KEYS = ("messages", "traj")
GROUP_KEYS = ("group", "trajectory_group", "task_id")


class OpenAIChatReader:
    """One row is one conversation. The group is `group` or `task_id`, where the row has one."""

    name = "openai-chat"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        return any(isinstance(row.get(key), list) for key in MESSAGE_KEYS)

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        key = next((key for key in MESSAGE_KEYS if key in row), "messages")
        raw = read_list(row.get(key), key)
        messages = tuple(_read_message(value, f"{key}[{index}]") for index, value in enumerate(raw))
        tools_key = "tools" if row.get("tools") else "functions"
        metadata = {k: v for k, v in row.items() if k not in {key, "tools", "functions"} | RESERVED}
        if isinstance(row.get("id"), str | int):
            metadata["row_id"] = str(row["id"])
        domain = row.get("domain")
        return Trajectory(
            messages,
            read_tools(row.get(tools_key), tools_key),
            domain=domain if isinstance(domain, str) and domain else "tool",
            source=source,
            group=first_name(row, GROUP_KEYS),
            metadata=metadata,
        )


def _read_message(value: Json, field: str) -> Message:
    message = read_object(value, field)
    role = read_role(message.get("role"), f"{field}.role")
    content = read_content(message.get("content"), f"{field}.content")
    if role is Role.TOOL:
        return Message(role, content, tool_call_id=_read_id(message.get("tool_call_id"), f"{field}.tool_call_id"))
    if role is not Role.ASSISTANT:
        if "content" not in message:
            reject(DropReason.MISSING_FIELD, f"{field}.content")
        return Message(role, content)
    thinking, content = split_thinking(content)
    given = message.get("reasoning_content") or message.get("thinking")
    if isinstance(given, str):
        thinking = "\n".join(text for text in (given, thinking) if text)
    return Message(role, content, _read_calls(message, field), thinking=thinking)


def _read_calls(message: Mapping[str, Json], field: str) -> tuple[ToolCall, ...]:
    if message.get("function_call"):
        return (_read_function(message["function_call"], f"{field}.function_call", ""),)
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        reject(DropReason.WRONG_TYPE, f"{field}.tool_calls", "expected a list")
    return tuple(_read_call(call, f"{field}.tool_calls[{index}]") for index, call in enumerate(calls))


def _read_call(value: Json, field: str) -> ToolCall:
    call = read_object(value, field)
    call_id = _read_id(call.get("id"), f"{field}.id")
    if "function" not in call:
        return _read_function(call, field, call_id)
    return _read_function(call["function"], f"{field}.function", call_id)


def _read_function(value: Json, field: str, call_id: str) -> ToolCall:
    function = read_object(value, field)
    name = read_call_name(function.get("name"), f"{field}.name")
    return ToolCall(name, read_arguments(function.get("arguments"), f"{field}.arguments"), call_id)


def _read_id(value: Json, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str | int):
        reject(DropReason.WRONG_TYPE, field, "expected text")
    return str(value)

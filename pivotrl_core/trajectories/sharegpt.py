"""Reader of ShareGPT rows (`conversations` of {from, value}) and of function calling written into them.

Calls stand in `<tool_call>` blocks (Hermes, Qwen) or in turns of `function_call`, results in `<tool_response>` blocks
or turns of `tool`, `observation` or `function_response`, tools in `tools` or in a `<tools>` block of the system prompt,
which stays as it is. Formats: https://github.com/NousResearch/Hermes-Function-Calling and LLaMA-Factory's `sharegpt`
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pivotrl_core.trajectories.chat_messages import read_function
from pivotrl_core.trajectories.decoding import decode_json
from pivotrl_core.trajectories.domains import row_domain
from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.fields import (
    first_name,
    read_content,
    read_decoded,
    read_json_text,
    read_list,
    read_object,
    read_tools,
    reject,
    short_values,
)
from pivotrl_core.trajectories.marks import STATE_ONLY
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Json, Message, Role, Tool, ToolCall, Trajectory

KEYS = ("conversations", "conversation")
FUNCTION_CALL = "function_call"
SPEAKERS: Mapping[str, Role] = {
    "system": Role.SYSTEM, "human": Role.USER, "user": Role.USER, "gpt": Role.ASSISTANT, "assistant": Role.ASSISTANT,
    "chatgpt": Role.ASSISTANT, "model": Role.ASSISTANT, FUNCTION_CALL: Role.ASSISTANT, "tool": Role.TOOL,
    "observation": Role.TOOL, "function_response": Role.TOOL, "function": Role.TOOL,
}  # fmt: skip
_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_RESULT = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)
_TOOLS = re.compile(r"<tools>(.*?)</tools>", re.DOTALL)


class ShareGPTReader:
    """One row is one conversation."""

    name = "sharegpt"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        return any(isinstance(row.get(key), list) for key in KEYS)

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        key = next((key for key in KEYS if key in row), KEYS[0])
        messages: list[Message] = []
        if isinstance(row.get("system"), str) and row["system"]:
            messages.append(Message(Role.SYSTEM, row["system"]))
        state_only = []
        for index, value in enumerate(read_list(row.get(key), key)):
            turn = read_object(value, f"{key}[{index}]")
            read = _read_turn(turn, f"{key}[{index}]")
            if turn.get("weight") == 0 and read[0].role is Role.ASSISTANT:
                state_only.append(len(messages))
            messages += read
        tools = read_tools(row.get("tools"), "tools") or _prompt_tools(messages)
        metadata = short_values(row, {"tools", "system"})
        if isinstance(row.get("id"), str | int):
            metadata["row_id"] = str(row["id"])
        if state_only:
            metadata[STATE_ONLY] = state_only
        group = first_name(row, ("group", "task_id"))
        return Trajectory(tuple(messages), tools, row_domain(row), source, group, metadata)


def _read_turn(turn: Mapping[str, Json], field: str) -> list[Message]:
    """A turn as messages: several where it holds the results of several calls."""
    speaker = next((turn[key] for key in ("from", "role") if turn.get(key)), None)
    if not isinstance(speaker, str) or speaker not in SPEAKERS:
        reject(DropReason.UNKNOWN_ROLE, f"{field}.from", repr(speaker)[:80])
    place = f"{field}.{'value' if 'value' in turn else 'content'}"
    if "value" not in turn and "content" not in turn:
        reject(DropReason.MISSING_FIELD, f"{field}.value")
    text = read_content(turn.get("value", turn.get("content")), place)
    role = SPEAKERS[speaker]
    if role is Role.TOOL:
        results = [result.strip() for result in _RESULT.findall(text)]
        return [Message(role, result) for result in results or [text]]
    if role is not Role.ASSISTANT:
        return [Message(role, text)]
    thinking, said = split_thinking(text)
    if speaker == FUNCTION_CALL:
        return [Message(role, "", _read_calls(said, place), thinking=thinking)]
    calls = tuple(call for block in _CALL.findall(said) for call in _read_calls(block, place))
    return [Message(role, _CALL.sub("", said).strip() if calls else said, calls, thinking=thinking)]


def _read_calls(text: str, field: str) -> tuple[ToolCall, ...]:
    """The call, or the list of calls, that a text holds."""
    value = read_json_text(text, field)
    calls = value if isinstance(value, list) else [value]
    if not calls:
        reject(DropReason.UNNAMED_TOOL_CALL, field)
    return tuple(read_function(call, field, "") for call in calls)


def _prompt_tools(messages: list[Message]) -> tuple[Tool, ...]:
    """Tools of a `<tools>` block in the system prompt: a JSON list, or an object a line; none where it is not JSON."""
    prompt = messages[0].content if messages and messages[0].role is Role.SYSTEM else ""
    # The usual prompt names the empty pair of tags before it uses them.
    text = next((text for block in _TOOLS.findall(prompt) if (text := block.strip()).startswith(("[", "{"))), "")
    lines = [text] if text.startswith("[") else [line for line in text.splitlines() if line.strip()]
    try:
        values = [read_decoded(decode_json(line), "tools") for line in lines]
    except (ValueError, RecursionError):
        return ()
    return read_tools(values[0] if len(values) == 1 and isinstance(values[0], list) else values, "tools")

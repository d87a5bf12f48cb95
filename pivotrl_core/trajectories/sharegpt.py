"""Reader of ShareGPT rows (`conversations` of {from, value}) and of function calling written into them.

Calls stand in `<tool_call>` blocks (Hermes, Qwen) or in turns of `function_call`, results in `<tool_response>` blocks
or turns of `tool`, `observation` or `function_response`, tools in `tools` or in a `<tools>` block of the system prompt,
which stays as it is. A turn with `role` and `content` is read as OpenAI's message that it is.
Formats: https://github.com/NousResearch/Hermes-Function-Calling and LLaMA-Factory's `sharegpt`
"""

from __future__ import annotations

from collections.abc import Mapping

from pivotrl_core.trajectories.chat_messages import read_chat_message, system_message
from pivotrl_core.trajectories.domains import named_domain
from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.fields import (
    ROLES,
    first_name,
    read_content,
    read_list,
    read_object,
    read_tools,
    reject,
    short_values,
)
from pivotrl_core.trajectories.hermes_text import prompt_tools, read_text_calls, split_calls, split_results
from pivotrl_core.trajectories.marks import STATE_ONLY
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Json, Message, Role, Trajectory

KEYS = ("conversations", "conversation")
FUNCTION_CALL = "function_call"
SPEAKERS: Mapping[str, Role] = {
    "system": Role.SYSTEM, "human": Role.USER, "user": Role.USER, "gpt": Role.ASSISTANT, "assistant": Role.ASSISTANT,
    "chatgpt": Role.ASSISTANT, "model": Role.ASSISTANT, FUNCTION_CALL: Role.ASSISTANT, "tool": Role.TOOL,
    "observation": Role.TOOL, "function_response": Role.TOOL, "function": Role.TOOL,
}  # fmt: skip


class ShareGPTReader:
    """One row is one conversation."""

    name = "sharegpt"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        return any(isinstance(row.get(key), list) for key in KEYS)

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        key = next((key for key in KEYS if key in row), KEYS[0])
        messages = system_message(row.get("system"), "system")
        state_only = []
        for index, value in enumerate(read_list(row.get(key), key)):
            turn = read_object(value, f"{key}[{index}]")
            read = _read_turn(turn, f"{key}[{index}]")
            if turn.get("weight") == 0 and read[0].role is Role.ASSISTANT:
                state_only.append(len(messages))
            messages += read
        tools = read_tools(row.get("tools"), "tools") or prompt_tools(messages)
        metadata = short_values(row, {"tools", "system"})
        if isinstance(row.get("id"), str | int):
            metadata["row_id"] = str(row["id"])
        if state_only:
            metadata[STATE_ONLY] = state_only
        group = first_name(row, ("group", "task_id"))
        return Trajectory(
            tuple(messages), tools, domain=named_domain(row), source=source, group=group, metadata=metadata
        )


def _read_turn(turn: Mapping[str, Json], field: str) -> list[Message]:
    """A turn as messages: several where it holds the results of several calls."""
    speaker = next((turn[key] for key in ("from", "role") if turn.get(key)), None)
    if "from" not in turn and "value" not in turn and isinstance(speaker, str) and speaker in ROLES:
        return split_results(read_chat_message(turn, field))  # some keep OpenAI's messages under this key
    if not isinstance(speaker, str) or speaker not in SPEAKERS:
        reject(DropReason.UNKNOWN_ROLE, f"{field}.from", repr(speaker)[:80])
    place = f"{field}.{'value' if 'value' in turn else 'content'}"
    if "value" not in turn and "content" not in turn:
        reject(DropReason.MISSING_FIELD, f"{field}.value")
    text = read_content(turn.get("value", turn.get("content")), place)
    role = SPEAKERS[speaker]
    if role is not Role.ASSISTANT:
        return split_results(Message(role, text))
    thinking, said = split_thinking(text)
    said, calls = ("", read_text_calls(said, place)) if speaker == FUNCTION_CALL else split_calls(said, place)
    return [Message(role, said, calls, thinking=thinking)]

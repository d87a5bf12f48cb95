"""Reader of NVIDIA NeMo Gym pivot rows: a state (`responses_create_params.input`) and the expert's action at it.

A row becomes a trajectory whose last message is the expert's action; earlier turns are state, and only the last one is
a candidate. The whole row is kept in `metadata["nemo_row"]`, so that writing it again loses nothing. Items between two
model calls (reasoning, message, function calls) are one turn. Source: github.com/NVIDIA-NeMo/Gym, resources_servers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.fields import (
    first_name,
    read_arguments,
    read_call_name,
    read_content,
    read_decoded,
    read_list,
    read_object,
    read_role,
    read_tools,
    reject,
)
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.trajectories.turns import ONLY_LAST_TURN
from pivotrl_core.types import Json, Message, Role, ToolCall, Trajectory, content_id, messages_to_json

NEMO_ROW = "nemo_row"
PARAMS = "responses_create_params"
INPUT = f"{PARAMS}.input"
TRAJECTORY_KEYS = ("trajectory_id", "source_trajectory_uid")


class NemoGymReader:
    """Tool-call, software and terminal pivot rows, profiled or not."""

    name = "nemo-gym"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        return PARAMS in row

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        params = read_object(row.get(PARAMS), PARAMS)
        state = read_items(read_list(params.get("input"), INPUT))
        expert = read_expert(row)
        metadata: dict[str, Json] = {ONLY_LAST_TURN: True, NEMO_ROW: dict(row)}
        identity = row.get("uuid") or row.get("id")
        if isinstance(identity, str | int):
            metadata["row_id"] = f"{identity}/{row.get('pivot_agent_turn_index', '')}"
        if isinstance(row.get("pivot_agent_turn_index"), int):
            metadata["turn_index"] = row["pivot_agent_turn_index"]
        tools = read_tools(params.get("tools"), f"{PARAMS}.tools")
        return Trajectory((*state, expert), tools, _domain(row), source, _group(row, state), metadata)


@dataclass(slots=True)
class _Turn:
    """An assistant turn while its items go by."""

    thinking: list[str] = field(default_factory=list)
    content: str = ""
    calls: list[ToolCall] = field(default_factory=list)

    def is_open(self) -> bool:
        return bool(self.thinking or self.content or self.calls)

    def message(self) -> Message:
        thinking, content = split_thinking(self.content)
        parts = [*self.thinking, thinking]
        return Message(Role.ASSISTANT, content, tuple(self.calls), thinking="\n".join(part for part in parts if part))


def read_items(items: list[Json]) -> tuple[Message, ...]:
    """Input items of the Responses API as messages."""
    messages: list[Message] = []
    turn = _Turn()
    for index, value in enumerate(items):
        where = f"{INPUT}[{index}]"
        item = read_object(value, where)
        kind = item.get("type") or "message"
        ends = _ends_turn(turn, item, kind)
        if ends and turn.is_open():
            messages.append(turn.message())
            turn = _Turn()
        other = _read_item(item, kind, where, turn)
        if other is not None:
            messages.append(other)
    if turn.is_open():
        messages.append(turn.message())
    return tuple(messages)


def _ends_turn(turn: _Turn, item: Mapping[str, Json], kind: Json) -> bool:
    """Whether an item belongs to another model call than the open turn."""
    if kind == "function_call":
        return False
    if kind == "reasoning":
        return bool(turn.content or turn.calls)
    if kind == "message" and item.get("role") == "assistant":
        return bool(turn.content or turn.calls)
    return True


def _read_item(item: Mapping[str, Json], kind: Json, where: str, turn: _Turn) -> Message | None:
    """Add an item to the open turn, or return it as a message of its own."""
    if kind == "reasoning":
        turn.thinking.append(_read_reasoning(item, where))
        return None
    if kind == "function_call":
        turn.calls.append(_read_call(item, where))
        return None
    if kind == "function_call_output":
        output = read_content(item.get("output"), f"{where}.output")
        return Message(Role.TOOL, output, tool_call_id=str(item.get("call_id") or ""))
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


def _read_call(value: Json, where: str) -> ToolCall:
    call = read_object(value, where)
    name = read_call_name(call.get("name"), f"{where}.name")
    return ToolCall(name, read_arguments(call.get("arguments"), f"{where}.arguments"), str(call.get("call_id") or ""))


def read_expert(row: Mapping[str, Json]) -> Message:
    """The target: `expected_action`, then `expected_answer`, then `metadata.expected_action`."""
    if row.get("expected_action"):
        return _read_action(row["expected_action"], "expected_action")
    answer = row.get("expected_answer")
    if isinstance(answer, str) and answer.strip():
        value = _decode(answer, "expected_answer")
        if isinstance(value, dict) and value.get("type") in ("function_call", "function_call_batch", "message"):
            return _read_action(value, "expected_answer")
        return Message(Role.ASSISTANT, answer)
    metadata = row.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("expected_action"):
        value = metadata["expected_action"]
        where = "metadata.expected_action"
        return _read_action(_decode(value, where) if isinstance(value, str) else value, where)
    return reject(DropReason.MISSING_FIELD, "expected_action", "nor expected_answer")


def _read_action(value: Json, where: str) -> Message:
    action = read_object(value, where)
    kind = action.get("type")
    if kind == "message":
        thinking, content = split_thinking(read_content(action.get("content"), f"{where}.content"))
        return Message(Role.ASSISTANT, content, thinking=thinking)
    if kind == "function_call":
        return Message(Role.ASSISTANT, tool_calls=(_read_call(action, where),))
    if kind == "function_call_batch":
        calls = read_list(action.get("calls"), f"{where}.calls")
        read = tuple(_read_call(call, f"{where}.calls[{index}]") for index, call in enumerate(calls))
        return Message(Role.ASSISTANT, tool_calls=read)
    return reject(DropReason.UNSUPPORTED_CONTENT, f"{where}.type", repr(kind)[:80])


def _decode(text: str, where: str) -> Json:
    """The JSON value of a text, or None for plain text. NaN is found later, among the arguments that hold it."""
    try:
        value = json.loads(text)
    except RecursionError:
        reject(DropReason.TOO_DEEP, where)
    except ValueError:
        return None
    return read_decoded(value, where)


def _domain(row: Mapping[str, Json]) -> str:
    metadata, agent = row.get("metadata"), row.get("agent_ref")
    harness = str(metadata.get("harness", "")) if isinstance(metadata, Mapping) else ""
    name = str(agent.get("name", "")) if isinstance(agent, Mapping) else ""
    if harness.startswith("terminus") or name.startswith("terminus"):
        return "terminal"
    software = "pivot_tags" in row or "ref_patch" in row or name.startswith("swe_")
    return "software" if software else "tool"


def _group(row: Mapping[str, Json], state: tuple[Message, ...]) -> str:
    """Rows of one trajectory belong in one split: its id where the row has it, else all up to its first user turn."""
    if name := first_name(row, TRAJECTORY_KEYS):
        return name
    first_user = next((i for i, message in enumerate(state) if message.role is Role.USER), len(state) - 1)
    return content_id(messages_to_json(state[: first_user + 1]))

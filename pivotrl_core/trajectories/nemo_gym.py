"""Reader of NVIDIA NeMo Gym pivot rows: a state (`responses_create_params.input`) and the expert's action at it.

A row becomes a trajectory whose last message is the expert's action; earlier turns are state, and only the last one is
a candidate. The whole row is kept in `metadata["nemo_row"]`, so that writing it again loses nothing. A `response` in
the row is some policy's sample, never the expert's. Source: github.com/NVIDIA-NeMo/Gym, resources_servers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from pivotrl_core.trajectories.domains import row_domain
from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.fields import (
    first_name,
    read_content,
    read_decoded,
    read_list,
    read_object,
    read_tools,
    reject,
)
from pivotrl_core.trajectories.marks import HARNESS, ONLY_LAST_TURN
from pivotrl_core.trajectories.response_items import read_call, read_items
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Json, Message, Role, Trajectory, content_id, messages_to_json

NEMO_ROW = "nemo_row"
PARAMS = "responses_create_params"
INPUT = f"{PARAMS}.input"
TRAJECTORY_KEYS = ("trajectory_id", "source_trajectory_uid")


class NemoGymReader:
    """Tool-call, software and terminal pivot rows, profiled or not."""

    name = "nemo-gym"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        return PARAMS in row and (_has_target(row) or not isinstance(row.get("response"), Mapping))

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        params = read_object(row.get(PARAMS), PARAMS)
        state, expert = _own_thinking(read_items(read_list(params.get("input"), INPUT), INPUT), read_expert(row))
        metadata: dict[str, Json] = {ONLY_LAST_TURN: True, NEMO_ROW: dict(row)}
        if harness := _harness(row):
            metadata[HARNESS] = harness
        identity = row.get("uuid") or row.get("id")
        if isinstance(identity, str | int):
            metadata["row_id"] = f"{identity}/{row.get('pivot_agent_turn_index', '')}"
        if isinstance(row.get("pivot_agent_turn_index"), int):
            metadata["turn_index"] = row["pivot_agent_turn_index"]
        tools = read_tools(params.get("tools"), f"{PARAMS}.tools")
        return Trajectory(
            (*state, expert), tools, domain=row_domain(row), source=source, group=_group(row, state), metadata=metadata
        )


def _own_thinking(state: tuple[Message, ...], expert: Message) -> tuple[tuple[Message, ...], Message]:
    """Reasoning at the end of a state is the expert's at this turn: as a part of the state it would tell the action."""
    last = state[-1] if state else expert
    if last.role is not Role.ASSISTANT or last.content or last.tool_calls:
        return state, expert
    thinking = "\n".join(text for text in (last.thinking, expert.thinking) if text)
    return state[:-1], replace(expert, thinking=thinking)


def _harness(row: Mapping[str, Json]) -> str:
    metadata = row.get("metadata")
    name = metadata.get("harness") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""


def _has_target(row: Mapping[str, Json]) -> bool:
    """Whether a row says what the expert did. One that does not, and has a response, is a whole conversation."""
    metadata = row.get("metadata")
    inner = isinstance(metadata, Mapping) and "expected_action" in metadata
    return inner or "expected_action" in row or "expected_answer" in row


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
        return Message(Role.ASSISTANT, tool_calls=(read_call(action, where),))
    if kind == "function_call_batch":
        calls = read_list(action.get("calls"), f"{where}.calls")
        read = tuple(read_call(call, f"{where}.calls[{index}]") for index, call in enumerate(calls))
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


def _group(row: Mapping[str, Json], state: tuple[Message, ...]) -> str:
    """Rows of one trajectory belong in one split: its id where the row has it, else all up to its first user turn."""
    if name := first_name(row, TRAJECTORY_KEYS):
        return name
    first_user = next((i for i, message in enumerate(state) if message.role is Role.USER), len(state) - 1)
    return content_id(messages_to_json(state[: first_user + 1]))

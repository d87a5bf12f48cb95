"""Checks on a whole trajectory, whatever format it came from.

One bad turn drops the whole trajectory: a state with a hole in it would teach the wrong thing at every later turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from pivotrl_core.trajectories.arguments import decode_arguments
from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.fields import reject
from pivotrl_core.trajectories.formatting import ToolFormat, can_write
from pivotrl_core.trajectories.turns import candidate_positions
from pivotrl_core.types import Message, Role, ToolCall, Trajectory


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one row: bytes of one call's arguments, bytes of a line, depth of nesting, how calls are written."""

    max_argument_bytes: int = 1_000_000
    max_line_bytes: int = 256_000_000
    max_depth: int = 100
    tool_format: ToolFormat = ToolFormat.HERMES


def validate(trajectory: Trajectory, limits: Limits) -> None:
    """Check one trajectory.

    Raises:
        InvalidRowError: at the first thing that is wrong.
    """
    positions = candidate_positions(trajectory)
    if not positions:
        reject(DropReason.NO_ASSISTANT_TURN, "messages")
    names = frozenset(tool.name for tool in trajectory.tools)
    for position, message in enumerate(trajectory.messages):
        if message.role is Role.ASSISTANT:
            _check_turn(message, limits, f"messages[{position}]")
    for position in positions:
        for index, call in enumerate(trajectory.messages[position].tool_calls):
            _check_expert_call(call, names, f"messages[{position}].tool_calls[{index}]")
    _check_results(trajectory.messages)


def _check_turn(message: Message, limits: Limits, field: str) -> None:
    if not message.tool_calls and not message.content.strip():
        reject(DropReason.EMPTY_ASSISTANT_TURN, field, "only thinking" if message.thinking else "")
    for index, call in enumerate(message.tool_calls):
        if not can_write(call.name, limits.tool_format):
            reject(DropReason.UNWRITABLE_NAME, f"{field}.tool_calls[{index}].name", call.name[:80])
        size = len(call.arguments.encode("utf-8", "surrogatepass"))
        if size > limits.max_argument_bytes:
            detail = f"{size} bytes, the limit is {limits.max_argument_bytes}"
            reject(DropReason.OVERSIZED_ARGUMENT, f"{field}.tool_calls[{index}].arguments", detail)


def _check_expert_call(call: ToolCall, names: frozenset[str], field: str) -> None:
    """An expert call must be one that a verifier can compare with: a tool that is offered, and a JSON object."""
    # Without a tool list (some public sets leave it out) any name may be right.
    if names and call.name not in names:
        reject(DropReason.UNKNOWN_TOOL, f"{field}.name", call.name[:80])
    # The verifier's own reading: what it cannot decode, no sample could ever match.
    error = decode_arguments(call.arguments).error
    if error:
        reason = DropReason.TOO_DEEP if error.startswith("nested") else DropReason.ARGUMENTS_NOT_JSON
        reject(reason, f"{field}.arguments", error)


def _check_results(messages: tuple[Message, ...]) -> None:
    """Each tool result answers a call that is still open; a result without an id answers the oldest."""
    pending: list[str] = []
    for position, message in enumerate(messages):
        pending.extend(call.call_id for call in message.tool_calls)
        if message.role is not Role.TOOL:
            continue
        field = f"messages[{position}]"
        if not pending:
            reject(DropReason.ORPHAN_TOOL_RESULT, field, "no call is open")
        if not message.tool_call_id or not any(pending):
            pending.pop(0)
        elif message.tool_call_id in pending:
            pending.remove(message.tool_call_id)
        else:
            reject(DropReason.ORPHAN_TOOL_RESULT, f"{field}.tool_call_id", message.tool_call_id[:80])

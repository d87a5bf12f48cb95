"""Turns of a trajectory: which may become candidates, and in what order the results of one stand."""

from __future__ import annotations

from collections.abc import Sequence

from pivotrl_core.trajectories.marks import ONLY_LAST_TURN, STATE_ONLY
from pivotrl_core.types import Message, Role, Trajectory


def candidate_positions(trajectory: Trajectory) -> list[int]:
    """Positions in `messages` of the turns to learn from: every assistant turn that no mark leaves out."""
    last = len(trajectory.messages) - 1
    only_last = bool(trajectory.metadata.get(ONLY_LAST_TURN))
    state_only = frozenset(trajectory.metadata.get(STATE_ONLY, ()))
    return [
        position
        for position, message in enumerate(trajectory.messages)
        if message.role is Role.ASSISTANT and (position == last or not only_last) and position not in state_only
    ]


def in_order_of_calls(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Messages with the results of parallel calls in the order of the calls, by their ids; others as they stand.

    Clients may write results as they come, but the text that a policy reads has no ids to tell them apart by.
    """
    ordered = list(messages)
    for start, message in enumerate(messages):
        places = {call.call_id: place for place, call in enumerate(message.tool_calls)}
        end = start + 1
        while end < len(messages) and messages[end].role is Role.TOOL:
            end += 1
        ids = [one.tool_call_id for one in messages[start + 1 : end]]
        if len(set(ids)) == len(ids) and places.keys() >= set(ids):
            ordered[start + 1 : end] = sorted(messages[start + 1 : end], key=lambda one: places[one.tool_call_id])
    return tuple(ordered)

"""Which assistant turns of a trajectory may become candidates."""

from __future__ import annotations

from pivotrl_core.types import Role, Trajectory

ONLY_LAST_TURN = "only_last_turn"
"""Metadata key of a trajectory that stands for one turn (a pivot row): only its last message is the expert's."""


def candidate_positions(trajectory: Trajectory) -> list[int]:
    """Positions in `messages` of the turns to learn from: every assistant turn, or the last alone where marked so."""
    last = len(trajectory.messages) - 1
    only_last = bool(trajectory.metadata.get(ONLY_LAST_TURN))
    return [
        position
        for position, message in enumerate(trajectory.messages)
        if message.role is Role.ASSISTANT and (position == last or not only_last)
    ]

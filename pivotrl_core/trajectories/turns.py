"""Which assistant turns of a trajectory may become candidates."""

from __future__ import annotations

from pivotrl_core.trajectories.marks import ONLY_LAST_TURN, STATE_ONLY
from pivotrl_core.types import Role, Trajectory


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

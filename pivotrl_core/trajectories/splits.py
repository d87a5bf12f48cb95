"""Split by trajectory group: a hash of the group's name, so that new data never moves old data to another split."""

from __future__ import annotations

from pivotrl_core.seeding import derive_seed
from pivotrl_core.types import Split, Trajectory


def split_of(group: str, validation_share: float, test_share: float) -> Split:
    """The split of a group.

    Args:
        group: name of what must stay together.
        validation_share: share of groups for validation, in [0, 1].
        test_share: share of groups for the test, in [0, 1].
    """
    position = derive_seed("split", group) / 2**63
    if position < test_share:
        return Split.TEST
    if position < test_share + validation_share:
        return Split.VALIDATION
    return Split.TRAIN


def split_trajectory(trajectory: Trajectory, validation_share: float, test_share: float) -> Split:
    """The split of a trajectory: that of its group, or of its id where it names no group."""
    return split_of(trajectory.group or trajectory.id, validation_share, test_share)

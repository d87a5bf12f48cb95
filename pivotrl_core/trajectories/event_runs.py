"""Runs that are recorded as lists of events, as OpenHands and its SDK write them: what has been read, and its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pivotrl_core.trajectories.fields import first_name, short_values
from pivotrl_core.trajectories.marks import HARNESS, LEFT_OUT
from pivotrl_core.types import Json, Message, Tool, Trajectory


@dataclass(slots=True)
class EventRun:
    """What has been read of a run so far.

    Attributes:
        left_out: counts, by name, of the events that are not read.
        condensed: whether a condensation was read, behind which nothing is.
    """

    messages: list[Message] = field(default_factory=list)
    tools: tuple[Tool, ...] = ()
    left_out: Counter[str] = field(default_factory=Counter)
    condensed: bool = False

    def trajectory(self, row: Mapping[str, Json], source: str, harness: str) -> Trajectory:
        """The run as a trajectory. Domain software; the group is `instance_id`, where the row has one."""
        metadata = {**short_values(row), HARNESS: harness}
        if self.left_out:
            metadata[LEFT_OUT] = dict(sorted(self.left_out.items()))
        group = first_name(row, ("instance_id",))
        return Trajectory(tuple(self.messages), self.tools, "software", source, group, metadata)

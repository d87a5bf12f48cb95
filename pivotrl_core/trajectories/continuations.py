"""Rows of one conversation: a log with a row for each model call holds a conversation many times, each time longer.

A row that goes on from another (which is all of its beginning, up to a turn) belongs to that one's group, and the turns
that it repeats are state alone. Where the longer row came first, the shorter one has no turn of its own. Rows that
merely begin alike are different runs. Thinking is not compared where the repeated turn has none: most logs leave it
out of what they send again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from pivotrl_core.trajectories.marks import ONLY_LAST_TURN, STATE_ONLY
from pivotrl_core.trajectories.turns import candidate_positions
from pivotrl_core.types import (
    Message,
    Role,
    Trajectory,
    canonical_json,
    content_id,
    message_to_json,
    ordered_json,
    tools_to_json,
)


@dataclass(slots=True)
class Continuations:
    """What rows have been read, as numbers: 16 hex digits for each of their turns.

    Attributes:
        roots: by the digest of a row up to a turn, the trajectory whose group it belongs to.
        ends: digests of rows up to their last turn.
        turns: digests of the turns that are candidates, with what tools they had.
        groups: names of the groups of those trajectories that name one.
    """

    roots: dict[int, int] = field(default_factory=dict)
    ends: set[int] = field(default_factory=set)
    turns: set[int] = field(default_factory=set)
    groups: dict[int, str] = field(default_factory=dict)

    def link(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory in the group of the row that it goes on from, without the turns that earlier rows had.

        Nothing of it is left to learn from where an earlier row had all of its turns.
        """
        if trajectory.metadata.get(ONLY_LAST_TURN):
            return trajectory
        digests = dict(_digests(trajectory.messages))
        end, linked = list(digests.values())[-1], self._found(digests.values())
        own = int(trajectory.id, 16)
        root = own if linked is None else self.roots[linked]
        tools = int(content_id(ordered_json(tools_to_json(trajectory.tools))), 16)
        positions = candidate_positions(trajectory)
        keys = {at: _keys(digests[at] ^ tools, trajectory.messages[at].thinking) for at in positions}
        repeated = [] if linked is None else [at for at in positions if keys[at][0] in self.turns]
        if linked is not None and not _names_group(trajectory):
            trajectory = replace(trajectory, group=self.groups.get(root, f"{root:016x}"))
        if repeated:
            ignored = sorted({*trajectory.metadata.get(STATE_ONLY, ()), *repeated})
            trajectory = replace(trajectory, metadata={**trajectory.metadata, STATE_ONLY: ignored})
        if root == own and trajectory.group:
            self.groups[own] = trajectory.group
        for digest in digests.values():
            self.roots.setdefault(digest, root)
        self.ends.add(end)
        self.turns.update(key for pair in keys.values() for key in pair)
        return trajectory

    def goes_on(self, trajectory: Trajectory) -> bool:
        """Whether an earlier row is the beginning of this one, or this one of it."""
        return self._found(dict(_digests(trajectory.messages)).values()) is not None

    def _found(self, digests: Iterable[int]) -> int | None:
        """The digest by which an earlier row is the beginning, up to a turn, or goes on from all of this one."""
        *inner, end = digests
        return next((one for one in inner if one in self.ends), end if end in self.roots else None)


def _names_group(trajectory: Trajectory) -> bool:
    """Whether the row says what it belongs to; an id of its own does not."""
    return trajectory.group not in ("", str(trajectory.metadata.get("id", "")))


def _digests(messages: tuple[Message, ...]) -> Iterator[tuple[int, int]]:
    """Position of each assistant turn, and the digest of all up to it, without thinking."""
    running = hashlib.sha256()
    for position, message in enumerate(messages):
        running.update(canonical_json(message_to_json(replace(message, thinking=""))).encode("utf-8", "surrogatepass"))
        if message.role is Role.ASSISTANT:
            yield position, int.from_bytes(running.digest()[:8])


def _keys(turn: int, thinking: str) -> tuple[int, ...]:
    """What a turn is known by: itself, and what is left of it once its thinking is left out."""
    return (turn ^ int(content_id(thinking), 16), turn) if thinking else (turn,)

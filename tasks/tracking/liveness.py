"""Which process writes a run, so that runs of dead processes can be told from running ones.

A pid alone is not enough: it is given out again. Host, pid and the process's start (since which boot) identify it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from tasks.processes import boot_id, start_time

TAGS = ("pivotrl.owner.host", "pivotrl.owner.pid", "pivotrl.owner.started")


@dataclass(frozen=True, slots=True)
class Owner:
    """A process on a host; `started` in seconds since the machine's start, to two digits, and the id of that start."""

    host: str
    pid: int
    started: str

    def tags(self) -> dict[str, str]:
        """As MLflow tags."""
        return dict(zip(TAGS, (self.host, str(self.pid), self.started), strict=True))


def current_owner() -> Owner:
    """This process."""
    return Owner(platform.node(), os.getpid(), _started(os.getpid()) or "")


def owner_from_tags(tags: Mapping[str, str]) -> Owner | None:
    """The owner that a run's tags name; None where they name none."""
    if any(tag not in tags for tag in TAGS) or not tags[TAGS[1]].isdigit():
        return None
    return Owner(tags[TAGS[0]], int(tags[TAGS[1]]), tags[TAGS[2]])


def process_is_alive(owner: Owner) -> bool:
    """Whether the owner still runs. A process on another host cannot be asked and counts as alive."""
    if owner.host != platform.node():
        return True
    return _started(owner.pid) == owner.started


def _started(pid: int) -> str | None:
    started = start_time(pid)
    return None if started is None else f"{started:.2f} {boot_id()}"

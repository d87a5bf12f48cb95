"""Which process is meant: a process id alone is used again by the system, so its start time and host go with it."""

from __future__ import annotations

import os
import socket
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process of one host. `started` is its start time in seconds since the epoch."""

    host: str
    pid: int
    started: float

    def is_dead(self) -> bool:
        """Whether it has certainly ended. A process of another host cannot be asked and counts as alive."""
        if self.host != socket.gethostname():
            return False
        started = start_time(self.pid)
        return started is None or abs(started - self.started) > 1.0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ProcessIdentity:
        """Inverse of `to_json`."""
        return cls(str(value["host"]), int(value["pid"]), float(value["started"]))


def this_process() -> ProcessIdentity:
    """Identity of the running process."""
    return ProcessIdentity(socket.gethostname(), os.getpid(), start_time(os.getpid()) or 0.0)


def start_time(pid: int) -> float | None:
    """Start time in seconds since the epoch, None where no such process runs (a zombie does not run)."""
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None

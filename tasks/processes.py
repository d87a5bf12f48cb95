"""Which process is meant: a process id alone is used again by the system, so host, boot and start time go with it.

The start time is counted from the machine's start, not by the wall clock: that may be set while a process runs (a
virtual machine that was paused, a clock that is corrected), and a living process would look like another one.
"""

from __future__ import annotations

import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process of one host. `started` is its start time in seconds since the machine's start, which `boot` names."""

    host: str
    pid: int
    started: float
    boot: str = ""

    def is_here(self) -> bool:
        """Whether it is one of this host."""
        return self.host == socket.gethostname()

    def is_dead(self) -> bool:
        """Whether it has certainly ended. A process of another host cannot be asked and counts as alive."""
        if not self.is_here():
            return False
        return self.boot != boot_id() or start_time(self.pid) != self.started

    def __str__(self) -> str:
        """One line for a tag."""
        return f"{self.host}:{self.pid}:{self.started}:{self.boot}"

    @classmethod
    def from_text(cls, text: str) -> ProcessIdentity | None:
        """Inverse of `str`; None where the text is not of that form."""
        try:
            host, pid, started, *boot = text.split(":")
            return cls(host, int(pid), float(started), *boot)
        except (ValueError, TypeError):
            return None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ProcessIdentity:
        """Inverse of `to_json`."""
        return cls(str(value["host"]), int(value["pid"]), float(value["started"]), str(value.get("boot", "")))


def this_process() -> ProcessIdentity:
    """Identity of the running process."""
    return ProcessIdentity(socket.gethostname(), os.getpid(), start_time(os.getpid()) or 0.0, boot_id())


def boot_id() -> str:
    """What Linux calls this run of the machine; empty elsewhere."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def start_time(pid: int) -> float | None:
    """Start time in seconds since the machine's start, None where no such process runs (a zombie does not run).

    Outside of Linux it is in seconds since the epoch.
    """
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return _ticks(pid) / os.sysconf("SC_CLK_TCK") if psutil.LINUX else float(process.create_time())
    except (psutil.Error, OSError):
        return None


def _ticks(pid: int) -> int:
    """Field 22 of /proc/PID/stat; counted from behind the name, which may hold blanks and brackets."""
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])

"""Control groups: memory and processes of a whole tree, bounded where this process may make groups.

Resource limits (`prlimit`) hold per process; what a tree takes altogether is bounded only here. Groups are made below
the one that this process is in, so whatever bounds us bounds them. Version 1 (one hierarchy per controller) and
version 2 are read; where a hierarchy cannot be written, `Group.enforced` lacks its limit and nothing else changes.

A group is for one run. What a killed process left of its groups is ended and removed by the next one to make any.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMORY, PROCESSES = "memory", "processes"
_PREFIX = "pivotrl-sandbox-"
_SWAP_1 = ("memory.memsw.limit_in_bytes", "")
"""Version 1 bounds memory and swap together, here by what bounds memory alone."""
_SWAP_2 = ("memory.swap.max", "0")
_REMOVAL_SECONDS = 5.0
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class _Parent:
    """A group below which groups can be made, and what they bound: file of the limit by kind.

    `swap` is a file and what it gets, so that no memory is had by swapping; not each kernel has one.
    """

    folder: Path
    limits: tuple[tuple[str, str], ...]
    events: str = ""
    swap: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Group:
    """Folders of one group, one for each hierarchy. A process joins by writing 0 into each of `entrances`."""

    folders: tuple[Path, ...]
    enforced: frozenset[str]
    events: Path | None

    @property
    def entrances(self) -> tuple[Path, ...]:
        return tuple(folder / "cgroup.procs" for folder in self.folders)

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel ended a process of the group for want of memory."""
        if self.events is None:
            return False
        counts = dict(line.split() for line in self.events.read_text(encoding="ascii").splitlines())
        return int(counts.get("oom_kill", 0)) > 0


@contextmanager
def group(memory_bytes: int, processes: int) -> Iterator[Group]:
    """A group with these limits for the time of a block; removed at its end, when it must be empty."""
    values = {MEMORY: memory_bytes, PROCESSES: processes}
    folders: list[Path] = []
    enforced: set[str] = set()
    events: Path | None = None
    try:
        for parent in _parents():
            folder = parent.folder / f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
            with contextlib.suppress(OSError):
                folder.mkdir()
                folders.append(folder)
                for kind, name in parent.limits:
                    (folder / name).write_text(str(values[kind]), encoding="ascii")
                    enforced.add(kind)
                    events = folder / parent.events if kind == MEMORY else events
                if parent.swap[0] and (folder / parent.swap[0]).exists():
                    (folder / parent.swap[0]).write_text(parent.swap[1] or str(memory_bytes), encoding="ascii")
        yield Group(tuple(folders), frozenset(enforced), events)
    finally:
        for folder in folders:
            _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a group; the kernel may need a moment to forget processes that have ended."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.002)
        else:
            return


@functools.cache
def _parents() -> tuple[_Parent, ...]:
    """Where groups can be made, tried once; also removes what dead processes left there."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    parents = tuple(parent for parent in find_parents(ROOT, lines) if _is_writable(parent.folder))
    for parent in parents:
        _remove_leftovers(parent.folder)
    return parents


def find_parents(root: Path, lines: Sequence[str]) -> list[_Parent]:
    """Groups that bound memory or processes, from the lines of /proc/self/cgroup (`id:controllers:path`)."""
    found: list[_Parent] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        below = path.lstrip("/")
        if "memory" in controllers.split(","):
            limits = ((MEMORY, "memory.limit_in_bytes"),)
            found.append(_Parent(root / "memory" / below, limits, "memory.oom_control", _SWAP_1))
        elif "pids" in controllers.split(","):
            found.append(_Parent(root / "pids" / below, ((PROCESSES, "pids.max"),)))
        elif not controllers:
            found += _version_2(root / below)
    return found


def _version_2(folder: Path) -> list[_Parent]:
    """A group of version 2 hands to its children only the controllers that its `cgroup.subtree_control` names."""
    try:
        handed = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return []
    limits = [(MEMORY, "memory.max")] if "memory" in handed else []
    limits += [(PROCESSES, "pids.max")] if "pids" in handed else []
    return [_Parent(folder, tuple(limits), "memory.events", _SWAP_2)] if limits else []


def _is_writable(folder: Path) -> bool:
    trial = folder / f"{_PREFIX}{os.getpid()}-trial"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError:
        return False
    return True


def _remove_leftovers(folder: Path) -> None:
    """Remove the groups of processes that are gone, with whatever still runs in them."""
    for left in folder.glob(f"{_PREFIX}*"):
        owner = left.name.removeprefix(_PREFIX).partition("-")[0]
        if Path("/proc", owner).exists():
            continue
        with contextlib.suppress(OSError):
            for process in (left / "cgroup.procs").read_text(encoding="ascii").split():
                os.kill(int(process), signal.SIGKILL)
        _remove(left)

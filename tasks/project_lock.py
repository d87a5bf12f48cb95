"""The project lock: one holder at a time, who is named to those that wait, and whose death frees it.

DVC's own locks fail at once instead of waiting and do not exclude threads of one process; Prefect's concurrency slots
stay taken after a SIGKILL. So every run takes this lock around its DVC calls. The lock is a small JSON file (host,
process id, start time of the process, run id), written whole; who looks at it or changes it holds a guard (`flock`) for
that moment, so that two processes never break the same dead lock at once.
"""

from __future__ import annotations

import fcntl
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.errors import TemporaryError
from pivotrl_core.files import write_json
from tasks.processes import ProcessIdentity, boot_id, this_process

_POLL_SECONDS = 0.2
_SAY_EVERY_SECONDS = 30.0


class LockedError(TemporaryError):
    """The lock did not become free in time. Names the holder."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has the lock."""

    process: ProcessIdentity
    run_id: str

    def __str__(self) -> str:
        return f"run {self.run_id} (process {self.process.pid} on {self.process.host})"


def read_holder(path: Path) -> Holder | None:
    """Who has the lock at `path`; None where nobody has, or where the file is not readable as a lock."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return Holder(ProcessIdentity.from_json(value), str(value["run_id"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def hold_lock(
    path: Path, run_id: str, wait: float = 24 * 3600.0, say: Callable[[str], None] | None = None
) -> Iterator[Holder]:
    """Hold the lock while the block runs.

    Args:
        path: The lock file.
        run_id: Told to those that wait.
        wait: Longest wait in seconds; 0 does not wait at all.
        say: Receives a line when waiting begins and now and then afterwards (default: standard error).

    Raises:
        LockedError: Somebody else still has it after `wait` seconds.
    """
    mine = Holder(this_process(), run_id)
    with ExitStack() as life:
        _acquire(path, mine, life, wait, say or (lambda line: print(line, file=sys.stderr, flush=True)))
        try:
            yield mine
        finally:
            release(path, mine)


def _acquire(path: Path, mine: Holder, life: ExitStack, wait: float, say: Callable[[str], None]) -> None:
    end = time.monotonic() + wait
    next_word = time.monotonic()
    while (other := _try_once(path, mine, life)) is not None:
        now = time.monotonic()
        if now >= end:
            raise LockedError(f"{other} holds {path}; wait for it, or end it ({_when_dead(other, path)})")
        if now >= next_word:
            say(f"waiting for {other}, which holds {path}")
            next_word = now + _SAY_EVERY_SECONDS
        time.sleep(_POLL_SECONDS)


def _when_dead(other: Holder, path: Path) -> str:
    if other.process.is_here():
        return "a lock of a dead process frees itself"
    return f"it is not known here whether it lives: where {other.process.host} is gone for good, remove {path}"


def _try_once(path: Path, mine: Holder, life: ExitStack) -> Holder | None:
    """Take the lock if it is free or its holder is dead, until `life` is closed; otherwise say who has it."""
    with _guard(path):
        other = read_holder(path)
        if other is not None and not is_left_behind(other, path):
            return other
        _life_file(path).unlink(missing_ok=True)  # what a dead holder started may still have it open
        fcntl.flock(life.enter_context(_life_file(path).open("w")), fcntl.LOCK_EX | fcntl.LOCK_NB)
        write_json(path, {**mine.process.to_json(), "run_id": mine.run_id})
        return None


def is_left_behind(holder: Holder, path: Path) -> bool:
    """Whether the holder of the lock at `path` has certainly ended.

    Under another host name on this very machine (a container beside us, or its host) its process has another number,
    but both have one kernel, which gives up what a dead process locked.
    """
    if holder.process.is_here() or holder.process.boot != boot_id():
        return holder.process.is_dead()
    try:
        with _life_file(path).open("r+") as life:
            fcntl.flock(life, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError):  # it lives; or it is of a version that kept no such file
        return False
    return True


def _life_file(path: Path) -> Path:
    """What a holder keeps locked as long as it lives."""
    return path.with_name(f"{path.name}.life")


def release(path: Path, mine: Holder) -> None:
    """Give the lock back, unless it has meanwhile become somebody else's."""
    with _guard(path):
        if read_holder(path) == mine:
            path.unlink(missing_ok=True)


@contextmanager
def _guard(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.guard").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

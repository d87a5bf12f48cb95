"""A small process between us and a program: the whole tree below it ends when the program ends, is late, or we die.

Run as a program of its own, in a session of its own: `python -I guardian.py DEADLINE GRACE COMMAND...`. Standard input
is the lifeline: a pipe whose other end only the parent holds, so its end-of-file says that the parent is gone, however
it died. It is asked for TERM, or the deadline passes: the tree gets TERM, and KILL after the grace time. Whatever
outlives its own parent is adopted (child subreaper) and killed too. Only the standard library: it must start in
milliseconds.

DVC starts a stage through a shell and leaves it alive when DVC itself is killed; a second writer on the same outputs
would be the result. That is why killing the child alone is not enough.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

TIMED_OUT = 124
_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # no prctl outside Linux: the lifeline alone must do there
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _die_with_guardian() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _descendants() -> list[int]:
    """Process ids below this one, found in /proc (empty where there is none)."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # it has ended meanwhile
            parents[int(status.parent.name)] = int(status.read_bytes().rpartition(b")")[2].split()[1])
    found: list[int] = []
    level = [os.getpid()]
    while level:
        level = [process for process, parent in parents.items() if parent in level]
        found.extend(level)
    return found


def _signal_tree(number: int) -> int:
    """Send a signal to all descendants. Returns how many there were."""
    processes = _descendants()
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process, number)
    return len(processes)


def _kill_tree() -> None:
    """KILL until nothing is left: a tree that is forking needs more than one pass."""
    while _signal_tree(signal.SIGKILL):
        _reap()
        time.sleep(0.01)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


class _Watch:
    """Waits for the first of: the child's end, the deadline, a TERM, the parent's death."""

    def __init__(self, child: int, deadline: float, grace: float) -> None:
        self.child, self.deadline, self.grace = child, deadline, grace
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True

    def run(self) -> int:
        """Exit code of the child, or 124 where the deadline ended it."""
        late = False
        while (code := self._ended()) is None:
            if _parent_is_gone():
                _kill_tree()
                os._exit(128 + signal.SIGKILL)
            late = time.monotonic() > self.deadline
            if late or self.asked:
                code = self._terminate()
                break
        _kill_tree()
        return TIMED_OUT if late else code

    def _ended(self) -> int | None:
        """The child's exit code once it has ended; adopted orphans are reaped on the way."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 1
            if process == self.child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if process == 0:
                return None

    def _terminate(self) -> int:
        _signal_tree(signal.SIGTERM)
        end = time.monotonic() + self.grace
        while time.monotonic() < end:
            code = self._ended()
            if code is not None:
                return code
            time.sleep(_POLL_SECONDS)
        return 128 + signal.SIGKILL


def _parent_is_gone() -> bool:
    """Waits a moment on the lifeline; True at its end-of-file."""
    readable, _, _ = select.select([0], [], [], _POLL_SECONDS)
    return bool(readable) and os.read(0, 1) == b""


def main(arguments: list[str]) -> int:
    """Guard one command. Arguments: deadline and grace in seconds, then the command."""
    deadline, grace, *command = arguments
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_guardian)
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error}\n")
        return 127
    return _Watch(child.pid, time.monotonic() + float(deadline), float(grace)).run()


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))

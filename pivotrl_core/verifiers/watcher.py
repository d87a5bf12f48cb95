"""A small process that ends the sandboxes of this one when this one is gone, however it ended.

Bubblewrap ties a sandbox to its parent, but only once the sandbox stands: who is killed while one starts would leave a
process behind that waits for ever. So a shell reads from a pipe which process groups have begun and ended; at the end
of the file it kills those that have begun and not ended. A group announces itself, with the first thing that it does
(`ANNOUNCE`), and only then closes its copy of the pipe: the end of the file cannot come before the announcement.

One per process, started with the first sandbox; a forked child starts its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import threading

_SCRIPT = """
declare -A begun
while read -r what group; do
  if [ "$what" = begin ]; then begun[$group]=1; else unset "begun[$group]"; fi
done
for group in "${!begun[@]}"; do kill -9 -- "-$group"; done
"""
ANNOUNCE = """
pipe=$1; shift
echo "begin $$" >&"$pipe"; exec {pipe}>&-
"""
_lock = threading.Lock()
_watchers: dict[int, subprocess.Popen[bytes]] = {}


def pipe_of_watcher() -> int:
    """The descriptor that a process group announces itself on; it is to inherit it."""
    pipe = _watcher().stdin
    assert pipe is not None
    return pipe.fileno()


def forget(group: int) -> None:
    """A process group has ended."""
    # One write, shorter than a pipe's atom: lines of several threads do not mix.
    os.write(pipe_of_watcher(), f"end {group}\n".encode("ascii"))


def _watcher() -> subprocess.Popen[bytes]:
    with _lock:
        watcher = _watchers.get(os.getpid())
        if watcher is None or watcher.poll() is not None:
            watcher = _watchers[os.getpid()] = subprocess.Popen(
                ["bash", "--norc", "--noprofile", "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
            )
        return watcher


def _forget_in_child() -> None:
    """A forked child must not keep the parent's pipe open: its end is what the parent's watcher waits for."""
    global _lock
    _lock = threading.Lock()
    for watcher in _watchers.values():
        if watcher.stdin is not None:
            with contextlib.suppress(OSError):
                watcher.stdin.close()
        watcher.returncode = 0  # not a child of this process: nothing to wait for
    _watchers.clear()


@atexit.register
def _end() -> None:
    """The end of a pipe that nothing is announced on any more ends the watcher."""
    for watcher in _watchers.values():
        watcher.communicate()


os.register_at_fork(after_in_child=_forget_in_child)

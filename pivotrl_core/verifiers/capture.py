"""Reading a child's output under a time limit and a size limit, and ending it with all it started.

The child must lead a session of its own, and must be the first process of its PID namespace (or its parent, dying with
it): then killing it closes the pipes, and end of file on both pipes is the proof that nothing of it runs any more.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

_CHUNK_BYTES = 65536
_GRACE_SECONDS = 5.0
_REAPING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Captured:
    """Output of a finished child, and which limit ended it, if one did."""

    stdout: str
    stderr: str
    timed_out: bool
    overflowed: bool


def capture(
    process: subprocess.Popen[bytes],
    seconds: float,
    max_bytes: int,
    kill_inside: Callable[[], None] = lambda: None,
) -> Captured:
    """Read both pipes until they close, `seconds` have passed, or either holds more than `max_bytes`; then reap.

    Never holds more than `max_bytes` and one chunk of each stream. Where a limit ends the child, `kill_inside` first
    ends what it has to wait for: killed itself, it would leave that to whoever adopts orphans.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    streams: tuple[IO[bytes], IO[bytes]] = (process.stdout, process.stderr)
    buffers = (bytearray(), bytearray())
    deadline = time.monotonic() + seconds
    timed_out = overflowed = False
    try:
        with selectors.DefaultSelector() as selector:
            for stream, buffer in zip(streams, buffers, strict=True):
                selector.register(stream, selectors.EVENT_READ, buffer)
            while selector.get_map() and not (timed_out or overflowed):
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                for key, _ in ready:
                    _read_once(selector, key)
                overflowed = any(len(buffer) > max_bytes for buffer in buffers)
                timed_out = not overflowed and bool(selector.get_map()) and time.monotonic() >= deadline
            if timed_out or overflowed:
                _kill(process, kill_inside)
                _drain(selector)
        # A child may close its pipes and go on: the deadline holds for it all the same.
        timed_out = not _wait(process, deadline) or timed_out
    finally:
        _kill(process, kill_inside)
        for stream in streams:
            stream.close()
    stdout, stderr = (bytes(buffer[:max_bytes]).decode("utf-8", "replace") for buffer in buffers)
    return Captured(stdout, stderr, timed_out, overflowed)


def _read_once(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    data = os.read(key.fd, _CHUNK_BYTES)
    if data:
        key.data.extend(data)
    else:
        selector.unregister(key.fileobj)


def _drain(selector: selectors.BaseSelector) -> None:
    """Throw away what is left until both pipes close, which shows that the tree is dead; bounded all the same."""
    deadline = time.monotonic() + _GRACE_SECONDS
    while selector.get_map() and time.monotonic() < deadline:
        for key, _ in selector.select(max(0.0, deadline - time.monotonic())):
            if not os.read(key.fd, _CHUNK_BYTES):
                selector.unregister(key.fileobj)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Wait until the deadline; True where the child ended by itself before it (or was already dead)."""
    if process.poll() is not None:
        return True
    # `Popen.wait` with a timeout asks again and again, in steps that become as long as a run takes.
    descriptor = os.pidfd_open(process.pid)
    try:
        ended = bool(select.select([descriptor], [], [], max(0.05, deadline - time.monotonic()))[0])
    finally:
        os.close(descriptor)
    return ended


def _kill(process: subprocess.Popen[bytes], kill_inside: Callable[[], None]) -> None:
    """End a child that has not ended, and reap it."""
    if process.poll() is None:
        kill_inside()
        _wait(process, time.monotonic() + _REAPING_SECONDS)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()

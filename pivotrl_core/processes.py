"""Programs that run beside this one under a guardian (guardian.py): their whole tree dies with us, however we end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from pivotrl_core import guardian

RANK = "TORCHELASTIC_RUN_ID"  # set in the processes that torchrun starts
TAIL_LINES = 30
TAIL_BYTES = 65536


def start_guarded(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], output: int, deadline: float, grace: float
) -> subprocess.Popen[bytes]:
    """Start a command under a guardian and return the guardian. Closing its `stdin` kills the tree.

    Args:
        command: Program and arguments.
        cwd: Working folder.
        environment: The whole environment.
        output: Descriptor of the file that receives output and errors.
        deadline: Seconds until TERM; infinity for none.
        grace: Seconds from TERM until KILL.
    """
    guarded = [sys.executable, "-I", guardian.__file__, str(deadline), str(grace), *command]
    return subprocess.Popen(
        guarded,
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def end_guarded(process: subprocess.Popen[bytes], grace: float = 10.0) -> None:
    """TERM for the tree, KILL after the grace time, and wait for it."""
    process.terminate()
    try:
        process.wait(grace + 5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


def last_lines(log: Path, count: int = TAIL_LINES) -> list[str]:
    """The last lines of a log, in a few tens of kilobytes of memory."""
    if not log.is_file():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    return list(deque((line.rstrip() for line in text.splitlines() if line.strip()), maxlen=count))


def leave(code: int) -> NoReturn:
    """End this process with an exit code, after a failure.

    One that torchrun started ends at once: threads of a process group that others still wait for may abort an
    interpreter that takes itself apart, and the abort's code would hide what failed.
    """
    if RANK not in os.environ:
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

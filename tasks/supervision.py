"""Running a stage's process: it dies with us, has a real deadline, and its exit code says whether a retry makes sense.

Prefect's own time-outs cannot interrupt a synchronous task and its hooks do not run on SIGKILL, so the work is done in
a process tree that `pivotrl_core/guardian.py` ends. Output goes to a log file as it comes; a failure carries its last
lines.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core import processes
from pivotrl_core.errors import EXIT_CONFIG, EXIT_DATA, EXIT_TEMPORARY, ConfigError, PivotRLError
from pivotrl_core.guardian import TIMED_OUT
from pivotrl_core.processes import end_guarded
from tasks.confidential import without_keys

STAGE_HOURS = "PIVOTRL_STAGE_HOURS"
DISK_FULL = 74
NOT_STORED = 73
"""DVC could not put what a stage made into its cache. DVC itself ends with 0 then."""
# What must stay free, in bytes. DVC waits for ever on a full disk, and what tells of the failure needs room too.
LEAST_FREE = 64 << 20
_KILLED = 137


class StageFailedError(PivotRLError):
    """A stage's process ended with an error. Carries the exit code and the last lines of its output."""

    def __init__(self, name: str, code: int, log: Path, tail: Sequence[str]) -> None:
        self.name, self.code, self.log = name, code, log
        self.tail = tuple(without_keys("\n".join(tail)).splitlines())
        self.exit_code = code if code in (EXIT_CONFIG, EXIT_DATA, EXIT_TEMPORARY) else PivotRLError.exit_code
        last = "\n".join(f"  | {line}" for line in self.tail)
        super().__init__(f"{name}: {describe_exit(code)}; the whole output is in {log}\n{last}".rstrip())

    def __reduce__(self) -> tuple[type[StageFailedError], tuple[str, int, Path, tuple[str, ...]]]:
        return type(self), (self.name, self.code, self.log, self.tail)

    @property
    def retryable(self) -> bool:
        """Whether it may pass: a temporary failure, or an end by a signal. What computes fails the same way again."""
        return self.code == EXIT_TEMPORARY or 128 < self.code < 128 + 65


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a process may take, in seconds: until TERM (None: as long as a stage may), and from TERM until KILL."""

    deadline: float | None = math.inf
    grace: float = 10.0


DEFAULT_LIMITS = Limits(deadline=None)


def stage_deadline() -> float:
    """Seconds that a stage may take: the hours in PIVOTRL_STAGE_HOURS, 24 of them where it is not set."""
    text = os.environ.get(STAGE_HOURS) or "24"
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not hours > 0:
        raise ConfigError(f"{STAGE_HOURS}: {text!r} is no number of hours above 0; set one, such as 48")
    return hours * 3600.0


def describe_exit(code: int) -> str:
    """An exit code in words that say what to do."""
    known = {
        EXIT_DATA: "its input is wrong (exit 65), a retry changes nothing",
        EXIT_CONFIG: "its configuration is wrong (exit 78), a retry changes nothing",
        EXIT_TEMPORARY: "a failure that may pass (exit 75)",
        TIMED_OUT: f"it passed its deadline and was ended; raise {STAGE_HOURS} (24 where not set), or make it smaller",
        DISK_FULL: f"the disk is full (under {LEAST_FREE >> 20} MiB free) and it was ended; make room and run "
        "again: what had finished is kept (`pivotrl gc` makes room too, and forgets what an unfinished run had done)",
        NOT_STORED: "what it made could not be put into DVC's cache; look at the disk and the rights of the folder "
        "that the output names (`pivotrl doctor` shows it), and run again",
        127: "its program was not found",
        _KILLED: "it was killed (SIGKILL); where nobody did that, the machine ran out of memory",
        143: "it was terminated (SIGTERM)",
    }
    return known.get(code, f"it failed (exit {code})")


def run_supervised(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    log: Path,
    limits: Limits = DEFAULT_LIMITS,
    poll: Callable[[], None] | None = None,
) -> int:
    """Run a command in a process tree of its own until it ends.

    Args:
        command: Program and arguments.
        cwd: Working folder.
        environment: The whole environment.
        log: File that receives output and errors (appended).
        limits: Deadline and grace.
        poll: Called a few times a second while the command runs, in this thread.

    Returns:
        The exit code; 124 for a passed deadline, 74 for a full disk, 128 + n for a command that signal n ended.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output, start_guarded(command, cwd, environment, output.fileno(), limits) as guardian:
        try:
            while (code := guardian.poll()) is None:
                if _is_full(cwd) or _is_full(log.parent):
                    end_guarded(guardian, limits.grace)
                    code = DISK_FULL
                    break
                if poll is not None:
                    poll()
                time.sleep(0.05)
        except BaseException:  # also KeyboardInterrupt: whatever takes us out of here ends the tree first
            end_guarded(guardian, limits.grace)
            raise
    if poll is not None:
        poll()
    return code if code >= 0 else 128 - code


def _is_full(folder: Path) -> bool:
    usage = shutil.disk_usage(folder)
    return usage.total > 0 and usage.free < LEAST_FREE  # some network file systems say 0 of all


def start_guarded(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], output: int, limits: Limits
) -> subprocess.Popen[bytes]:
    """Start a command under a guardian and return the guardian. Closing its `stdin` kills the tree.

    Raises:
        ConfigError: PIVOTRL_STAGE_HOURS is no number of hours.
    """
    deadline = stage_deadline() if limits.deadline is None else limits.deadline
    return processes.start_guarded(command, cwd, environment, output, deadline, limits.grace)

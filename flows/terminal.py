"""What a person sees while a run goes on: every line on a terminal, one now and then elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pivotrl_core.addresses import without_credentials
from tasks.following import LineFollower

_QUIET_SECONDS = 20.0
_LOOK_SECONDS = 0.5
# What DVC tells somebody who runs it by hand: here it would send people to do what the flow does itself.
_FROM_DVC = (
    "Running stage ", "> ", "Generating lock file ", "Updating lock file ", "To track the changes with git",
    "\tgit add ", "To enable auto staging", "\tdvc config core.autostage", "Use `dvc push`",
)  # fmt: skip


def say(line: str) -> None:
    """One line of progress, with the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {without_credentials(line)}", file=sys.stderr, flush=True)


class _Shown(logging.Handler):
    """Says warnings and errors of ours, but for what the command line says by itself."""

    def emit(self, record: logging.LogRecord) -> None:
        if not getattr(record, "told_anyway", False):
            say(self.format(record))


def show_warnings() -> None:
    """Say what our modules log: on the console Prefect shows its own log and ours alike, and both are off there."""
    for package in ("flows", "tasks", "pivotrl_core"):
        logger = logging.getLogger(package)
        if not any(isinstance(handler, _Shown) for handler in logger.handlers):
            logger.addHandler(_Shown(logging.WARNING))


class LogEcho:
    """Shows the new lines of a stage's log, each with the stage's name: others may run beside it."""

    def __init__(self, log: Path, every_line: bool | None = None) -> None:
        self._name = log.stem
        self._follower = LineFollower(log)
        self._follower.read()
        self._every_line = sys.stderr.isatty() if every_line is None else every_line
        self._said = self._looked = time.monotonic()

    def poll(self) -> None:
        """Show what is new; where not every line is shown, the last one at most every 20 s."""
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        lines = [line for line in self._follower.read() if line.strip() and not line.startswith(_FROM_DVC)]
        if self._every_line:
            for line in lines:
                say(f"  {self._name} | {line}")
        elif lines and now - self._said >= _QUIET_SECONDS:
            self._said = now
            say(f"  {self._name} | {lines[-1]}")


def together(*polls: Callable[[], None] | None) -> Callable[[], None]:
    """One function that calls all of them."""
    real = [poll for poll in polls if poll is not None]

    def poll_all() -> None:
        for poll in real:
            poll()

    return poll_all

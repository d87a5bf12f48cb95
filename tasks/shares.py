"""How stages that run side by side share the machine's lanes: a number in a file of each, which it reads as it works.

A batch is cut into parts whatever the share is (pivotrl_core/lanes.py), so that a share changes when a stage ends, and
no bit of what it computes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import write_text
from pivotrl_core.lanes import limit_workers

SHARE = "PIVOTRL_SHARE"
STAGES_AT_ONCE = "PIVOTRL_STAGES_AT_ONCE"


def stages_at_once(config: Config) -> int:
    """Stages that may run side by side: one for each lane that is computed at once, fewer where the user says so.

    One where a stage has a GPU, several processes or a server to itself.

    Raises:
        ConfigError: PIVOTRL_STAGES_AT_ONCE is no positive number.
    """
    compute = config.compute
    alone = compute.device != "cpu" or compute.processes > 1 or config.engine.kind != "transformers"
    most = 1 if alone else compute.lane_plan.workers
    named = os.environ.get(STAGES_AT_ONCE)
    if not named:
        return most
    if not named.isdecimal() or int(named) < 1:
        raise ConfigError(f"{STAGES_AT_ONCE}: {named!r} is no number of stages; set 1 or more, or nothing")
    return min(most, int(named))


class Shares:
    """Divides lanes evenly among the stages at work; those that have been at work longest get what is left over.

    Args:
        folder: For the files; one process at a time works with it.
        lanes: Parts that the machine computes at once.
    """

    def __init__(self, folder: Path, lanes: int) -> None:
        self._folder, self._lanes = folder, lanes
        self._names: list[str] = []

    def join(self, name: str) -> Path:
        """Give a stage its share, taken from the others. Returns the file, whose path goes into PIVOTRL_SHARE."""
        self._names.append(name)
        self._divide()
        return self._file(name)

    def leave(self, name: str) -> None:
        """Give the share of a stage that has ended to the others."""
        self._names.remove(name)
        self._file(name).unlink(missing_ok=True)
        self._divide()

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.share"

    def _divide(self) -> None:
        for index, name in enumerate(self._names):
            each, rest = divmod(self._lanes, len(self._names))
            write_text(self._file(name), f"{max(1, each + (index < rest))}\n")


def follow_share() -> None:
    """Let the lanes of this process keep to the share that PIVOTRL_SHARE points to; where it is not set, to none."""
    named = os.environ.get(SHARE)
    if named:
        limit_workers(_Share(Path(named)))


class _Share:
    """The number in a file; the last one that was read where the file has gone, as it does with the run it is of."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = 1

    def __call__(self) -> int:
        with suppress(OSError, ValueError):
            self._last = int(self._path.read_text(encoding="ascii"))
        return self._last

"""Following files that another process writes: whole new lines, as they come, each once.

DVC deletes a stage's outputs before it runs it, and a resumed stage writes its metrics anew from the first step, so a
follower of metrics takes a replaced file from its beginning and drops the steps it has already passed on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class LineFollower:
    """New whole lines of a file that may not exist yet, and may be replaced.

    Args:
        path: The file.
        skip_existing: Ignore what lies there now: it is the result of an earlier run, about to be replaced.
    """

    def __init__(self, path: Path, skip_existing: bool = False) -> None:
        self.path = path
        self._offset = 0
        self._seen = _identity(path) if skip_existing else None
        self._ignored = self._seen

    def read(self) -> list[str]:
        """Lines that were completed since the last call."""
        identity = _identity(self.path)
        if identity is None or (self._ignored is not None and identity == self._ignored):
            return []
        self._ignored = None
        if self._seen is None or identity[:1] != self._seen[:1] or identity[2] < self._offset:
            self._offset = 0
        self._seen = identity
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:  # removed since it was looked at, as DVC does before it runs a stage again
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.decode("utf-8", "replace").splitlines()


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class MetricsFollower:
    """Passes the lines of `metrics.jsonl` files of a stage's output folders on to a recorder, each step once."""

    def __init__(self, folders: Sequence[Path], log_metrics: Callable[[int, Mapping[str, float]], None]) -> None:
        self._followers = [LineFollower(folder / "metrics.jsonl", skip_existing=True) for folder in folders]
        self._log = log_metrics
        self._last = {follower.path: -1 for follower in self._followers}

    def poll(self) -> None:
        """Pass on what is new."""
        for follower in self._followers:
            for line in follower.read():
                self._pass_on(follower.path, line)

    def _pass_on(self, path: Path, line: str) -> None:
        try:
            row = json.loads(line)
            step, metrics = int(row["step"]), {str(k): float(v) for k, v in row["metrics"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            return  # a stage's own check of its metrics is elsewhere; a curve must not end a run
        if step > self._last[path]:
            self._last[path] = step
            self._log(step, metrics)

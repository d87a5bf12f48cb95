"""A journal of measurements on a machine that may be gone at any moment: each line is on the disk before the next."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pivotrl_core.bench.measuring import Say

RECORDS, LOG = "records.jsonl", "log.txt"


class Journal:
    """Records as lines of JSON, and a log. A folder that has them already is carried on.

    Args:
        folder: of both files.
        say: hears of the log, and `tell`, of the records, while they are written.
    """

    def __init__(self, folder: Path, say: Say, tell: Say) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._say, self._tell = say, tell
        self._begun = time.monotonic()

    def record(self, values: Mapping[str, Any]) -> None:
        """Add a record, with the second at which it was made."""
        line = json.dumps({**values, "at": round(time.monotonic() - self._begun, 2)}, allow_nan=False)
        _append(self.folder / RECORDS, line)
        self._tell(line)

    def say(self, text: str) -> None:
        """Add to the log."""
        _append(self.folder / LOG, f"{time.monotonic() - self._begun:8.1f} {text}")
        self._say(text)


def _append(file: Path, line: str) -> None:
    """One call of the system writes the whole line, so that a kill leaves it or does not."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, f"{line}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)

"""An environment whose interpreter starts our own completions server, where one with vLLM would start vLLM's."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[1]


class StandIn:
    """Where the environment lies, and what the server does: `ready`, `serving` (samples), `slow`, or `broken`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, told: str = "ready") -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        python = folder / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(
            f"#!/bin/sh\nshift 2\nPYTHONPATH={ROOT} exec {sys.executable} -W ignore -m tests.completions_server $*\n"
        )
        python.chmod(0o755)
        monkeypatch.setenv("STAND_IN_PIDS", str(folder / "pids"))
        self.tell(told)

    def tell(self, told: str) -> None:
        """What servers do that are started from now on."""
        self.monkeypatch.setenv("STAND_IN", told)

    def processes(self, seconds: float = 60.0) -> list[int]:
        """The server and its child, once they have started."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self._started():
                return found
            time.sleep(0.02)
        raise AssertionError("the stand-in did not start")

    def is_gone(self, seconds: float = 10.0) -> bool:
        """Whether nothing of it is left, soon."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not any(map(_lives, self._started())):
                return True
            time.sleep(0.02)
        return False

    def _started(self) -> list[int]:
        pids = self.folder / "pids"
        return [int(pid) for pid in pids.read_text().split()] if pids.exists() else []


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

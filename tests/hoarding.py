"""A side of a benchmark that is light enough to start a process for it: it takes memory, and does what it is told."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from pivotrl_core.bench.measuring import Answer


class Hoard:
    """Takes some MiB, and tells its process."""

    def __init__(self, size: int) -> None:
        self.size = size

    def load(self, task: Callable[[], None] | None) -> None:
        if task is not None:
            task()

    def run(self) -> None:
        self.sum = sum(bytearray(self.size * 2**20)[:: 2**12])

    def answer(self) -> Answer:
        return {"process": os.getpid(), "sum": self.sum}


def nothing() -> None:
    pass


def fail() -> None:
    raise ValueError("odd task")


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

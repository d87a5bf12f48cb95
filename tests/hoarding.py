"""A side of a benchmark that is light enough to start a process for it: it takes memory, and does what it is told."""

from __future__ import annotations

import os
import signal
import time
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


class Slow:
    """Takes some time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def load(self, task: None) -> None:
        del task

    def run(self) -> None:
        time.sleep(self.seconds)

    def answer(self) -> Answer:
        return {}


class QueueGPU:
    """What the gauge asks of `torch.cuda`, as a GPU answers it that works when it is waited for."""

    def __init__(self, allocated: int) -> None:
        self._now = self._peak = allocated
        self._queued: list[tuple[float, int]] = []

    def queue(self, seconds: float, allocated: int) -> None:
        """Let it work so long, with so many bytes at the peak."""
        self._queued.append((seconds, allocated))

    def synchronize(self) -> None:
        for seconds, allocated in self._queued:
            time.sleep(seconds)
            self._peak = max(self._peak, allocated)
        self._queued.clear()

    def empty_cache(self) -> None:
        pass

    def memory_allocated(self) -> int:
        return self._now

    def reset_peak_memory_stats(self) -> None:
        self._peak = self._now

    def max_memory_allocated(self) -> int:
        return self._peak

    def max_memory_reserved(self) -> int:
        return 2 * self._peak


class OutOfMemoryError(RuntimeError):
    """By its name torch's own."""


def nothing() -> None:
    pass


def fail() -> None:
    raise ValueError("odd task")


def want_too_much() -> None:
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 900.00 GiB.\nMore is said.")


def sleep_long() -> None:
    time.sleep(60.0)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

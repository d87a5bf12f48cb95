"""What one run takes, read in the process that runs it: on a processor, or on a GPU.

On a processor: time, processor time (user and system, of all threads), and the peak of the resident set. On a GPU: the
time until all queued work is done, and the peak of what torch's allocator has given out. Processor time says nothing
there, for it holds the waiting for the GPU, and is left out.
"""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True, slots=True)
class Spent:
    """One run.

    Attributes:
        wall: seconds.
        cpu: processor seconds; None on a GPU.
        memory: bytes at the peak, above what the process holds with everything loaded.
        reserved: bytes at the peak that torch has taken of the GPU's memory, all in all; None on a processor.
    """

    wall: float
    cpu: float | None
    memory: int
    reserved: int | None = None


class Gauge(Protocol):
    """Made once everything is loaded, then asked around each run."""

    def begin(self) -> None:
        """The run begins."""
        ...

    def end(self) -> Spent:
        """The run has ended: what it took."""
        ...


def make_gauge(device: Device) -> Gauge:
    """The gauge of this process, whose work is on `device`."""
    return GPUGauge() if device == "cuda" else HostGauge()


class HostGauge:
    """Time, processor time and resident set of this process."""

    def __init__(self) -> None:
        with suppress(AttributeError, OSError, TypeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)  # what loading has freed is given back first
        self._loaded = _status_bytes("VmRSS")
        self._wall = self._cpu = 0.0

    def begin(self) -> None:
        """The run begins, and with it the peak."""
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # see proc(5)
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def end(self) -> Spent:
        """What the run took."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return Spent(wall, cpu, max(0, _status_bytes("VmHWM") - self._loaded))


class GPUGauge:
    """Time until the GPU is done, and the memory that torch took on it."""

    def __init__(self) -> None:
        import torch

        self._cuda = torch.cuda
        self._cuda.synchronize()
        self._cuda.empty_cache()  # what loading has freed is given back first
        self._loaded = self._cuda.memory_allocated()
        self._wall = 0.0

    def begin(self) -> None:
        """The run begins once the GPU has nothing left to do."""
        self._cuda.synchronize()
        self._cuda.reset_peak_memory_stats()
        self._wall = time.perf_counter()

    def end(self) -> Spent:
        """What the run took, with all that it left queued."""
        self._cuda.synchronize()
        wall = time.perf_counter() - self._wall
        peak = max(0, self._cuda.max_memory_allocated() - self._loaded)
        return Spent(wall, None, peak, self._cuda.max_memory_reserved())


def _status_bytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{key}:")).split()[1])

"""Measuring: each side of a comparison works in a fresh process of its own, and the sides take turns.

A process of its own makes the peak of memory that of one side alone; taking turns spreads what else happens on the
machine over all of them. Processor time is user and system time of all threads of the process. Memory is what a run
takes on top of the loaded model: the peak of the resident set while it runs, less the resident set before the first.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.errors import MeasurementError, SideKilledError

Answer = Mapping[str, Any]
Say = Callable[[str], None]


class Work(Protocol):
    """What a side does, once its process has loaded everything."""

    def load(self, task: Any) -> None:
        """Take a task; not timed."""
        ...

    def run(self) -> None:
        """Do it; timed. May be called again."""
        ...

    def answer(self) -> Answer:
        """What came out, by which sides are compared; not timed."""
        ...


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: `prepare(*arguments)` makes its work, in its own process."""

    name: str
    prepare: Callable[..., Work]
    arguments: tuple[Any, ...] = ()


class Runner(Protocol):
    """A loaded side."""

    name: str

    def load(self, task: Any) -> None:
        """Give it a task."""
        ...

    def run(self) -> Reading:
        """Let it do the task once."""
        ...


@dataclass(frozen=True, slots=True)
class Machine:
    """How sides are run here.

    Attributes:
        before: called first in each process, before anything is loaded; the same for every side.
        isolated: each side in a process of its own. Without, memory is that of all sides together: for tests alone.
    """

    before: Callable[[], None]
    isolated: bool = True

    def start(self, side: Side) -> AbstractContextManager[Runner]:
        """Load a side."""
        return Worker(side, self.before) if self.isolated else nullcontext(Inline(side))


@dataclass(frozen=True, slots=True)
class Bench:
    """What every benchmark is given.

    Attributes:
        folder: the model, `model`: what records call it.
        compute: how all sides compute.
        machine: how they are run.
        say: hears of the progress.
    """

    folder: Path
    compute: ComputeConfig
    machine: Machine
    say: Say
    model: str = "bundled"

    @property
    def computed_on(self) -> dict[str, Any]:
        """What records say of the model and the machine."""
        return {"model": self.model, "dtype": self.compute.dtype, "threads": self.compute.threads}


@dataclass(frozen=True, slots=True)
class Reading:
    """One run: seconds, processor seconds, bytes at the peak above the loaded model, and what came out."""

    wall: float
    cpu: float
    memory: int
    answer: Answer


@dataclass(slots=True)
class Measured:
    """The runs of one side."""

    readings: list[Reading] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """Median of the seconds."""
        return statistics.median(one.wall for one in self.readings)

    @property
    def cpu(self) -> float:
        """Median of the processor seconds."""
        return statistics.median(one.cpu for one in self.readings)

    @property
    def memory(self) -> int:
        """The highest peak, in bytes above the loaded model."""
        return max(one.memory for one in self.readings)

    @property
    def answer(self) -> Answer:
        """What came out of the last run."""
        return self.readings[-1].answer


class Inline:
    """A side in this process."""

    def __init__(self, side: Side) -> None:
        self.name = side.name
        self._work = side.prepare(*side.arguments)
        self._loaded = _loaded_memory()

    def load(self, task: Any) -> None:
        """Give it a task."""
        self._work.load(task)

    def run(self) -> Reading:
        """Let it do the task once."""
        return _run(self._work, self._loaded)


class Worker:
    """The process of one side. A context manager: it ends with the block.

    Args:
        side: what to do there.
        before: called first in the process.
    """

    def __init__(self, side: Side, before: Callable[[], None]) -> None:
        self.name = side.name
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, side, before), daemon=True)
        self._process.start()
        theirs.close()
        self._receive()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.close()  # which ends its loop; one that is at work is ended
        self._process.join(timeout=1.0 if error is None else 0.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def load(self, task: Any) -> None:
        """Give it a task."""
        self._pipe.send(("load", task))
        self._receive()

    def run(self) -> Reading:
        """Let it do the task once.

        Raises:
            MeasurementError: it failed.
            SideKilledError: its process was killed.
        """
        self._pipe.send(("run", None))
        reading: Reading = self._receive()
        return reading

    def _receive(self) -> Any:
        try:
            kind, value = self._pipe.recv()
        except EOFError as error:
            self._process.join()
            raise SideKilledError(
                f"{self.name}: its process ended with {self._process.exitcode} (-9: there was too little memory); "
                "measure a smaller setting"
            ) from error
        if kind == "failed":
            raise MeasurementError(f"{self.name}: {value}")
        return value


def measure(
    sides: Sequence[Side], task: Any, rounds: int, machine: Machine,
    check: Callable[[Mapping[str, Answer]], None] | None = None, warm_up: Any = None,
) -> dict[str, Measured]:  # fmt: skip
    """Measure sides by turns: one warm-up each, then `rounds` runs each, every second round in reverse order.

    Args:
        sides: each in a process of its own; all stay loaded until the end.
        task: what every one does.
        rounds: measured runs of each.
        machine: how they are run.
        check: hears of the answers of the warm-up, and raises where the sides did not do the same.
        warm_up: a smaller task for the warm-up, where the task itself takes too long.

    Raises:
        MeasurementError: a side failed, or they did not do the same.
    """
    measured = {side.name: Measured() for side in sides}
    with ExitStack() as stack:
        workers = [stack.enter_context(machine.start(side)) for side in sides]
        for worker in workers:
            worker.load(task if warm_up is None else warm_up)
        answers = {worker.name: worker.run().answer for worker in workers}
        if check is not None:
            check(answers)
        if warm_up is not None:
            for worker in workers:
                worker.load(task)
        for turn in range(rounds):
            for worker in workers if turn % 2 == 0 else workers[::-1]:
                measured[worker.name].readings.append(worker.run())
    return measured


def _serve(pipe: Connection, side: Side, before: Callable[[], None]) -> None:
    """The loop of a side's process."""
    os.dup2(2, 1)  # what libraries print is no result: standard output is the caller's
    os.environ.update({"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"})
    try:
        before()
        work = side.prepare(*side.arguments)
        loaded = _loaded_memory()
        pipe.send(("done", None))
        while True:
            order, task = pipe.recv()
            if order == "load":
                work.load(task)
                pipe.send(("done", None))
            else:
                pipe.send(("done", _run(work, loaded)))
    except EOFError:
        return
    except Exception:  # noqa: BLE001 - a boundary between processes: the other side raises it
        pipe.send(("failed", traceback.format_exc()))


def _run(work: Work, loaded: int) -> Reading:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew; see proc(5)
    wall, cpu = time.perf_counter(), time.process_time()
    work.run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Reading(wall, cpu, max(0, _status_bytes("VmHWM") - loaded), work.answer())


def _loaded_memory() -> int:
    """Bytes that the process holds with everything loaded; what loading has freed is given back first."""
    with suppress(AttributeError, OSError, TypeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)
    return _status_bytes("VmRSS")


def _status_bytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{key}:")).split()[1])

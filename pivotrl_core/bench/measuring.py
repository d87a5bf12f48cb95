"""Measuring: each side of a comparison works in a fresh process of its own, and the sides take turns.

A process of its own makes the peak of memory that of one side alone; taking turns spreads what else happens on the
machine over all of them. What a run takes, time and memory on top of the loaded model, is read in its process
(`gauges.py`).
"""

from __future__ import annotations

import os
import statistics
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from pivotrl_core.bench.gauges import Device, Gauge, Spent, make_gauge
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.errors import MeasurementError, OutOfTimeError, SideKilledError

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
        device: what a run's time and memory are read on.
        until: when all must have ended, by time.monotonic(): a process that works longer is ended. None: no limit.
    """

    before: Callable[[], None]
    isolated: bool = True
    device: Device = "cpu"
    until: float | None = None

    def start(self, side: Side) -> AbstractContextManager[Runner]:
        """Load a side."""
        return Worker(side, self) if self.isolated else nullcontext(Inline(side, self.device))

    def has_time(self, seconds: float) -> bool:
        """Whether what takes so long would still end in time."""
        return self.until is None or time.monotonic() + seconds <= self.until


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
        told = {"model": self.model, "dtype": self.compute.dtype, "threads": self.compute.threads}
        return told | ({"device": self.compute.device} if self.compute.device != "cpu" else {})


@dataclass(frozen=True, slots=True)
class Reading:
    """One run: what it took, and what came out."""

    spent: Spent
    answer: Answer


@dataclass(slots=True)
class Measured:
    """The runs of one side."""

    readings: list[Reading] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """Median of the seconds."""
        return statistics.median(one.spent.wall for one in self.readings)

    @property
    def cpu(self) -> float | None:
        """Median of the processor seconds; None on a GPU."""
        told = [one.spent.cpu for one in self.readings if one.spent.cpu is not None]
        return statistics.median(told) if told else None

    @property
    def cost(self) -> float:
        """What the faster of two settings has less of: processor seconds, or seconds on a GPU."""
        return self.wall if self.cpu is None else self.cpu

    @property
    def memory(self) -> int:
        """The highest peak, in bytes above the loaded model."""
        return max(one.spent.memory for one in self.readings)

    @property
    def reserved(self) -> int | None:
        """The most of the GPU's memory that torch took, in bytes; None on a processor."""
        told = [one.spent.reserved for one in self.readings if one.spent.reserved is not None]
        return max(told) if told else None

    @property
    def answer(self) -> Answer:
        """What came out of the last run."""
        return self.readings[-1].answer


class Inline:
    """A side in this process."""

    def __init__(self, side: Side, device: Device) -> None:
        self.name = side.name
        self._work = side.prepare(*side.arguments)
        self._gauge = make_gauge(device)

    def load(self, task: Any) -> None:
        """Give it a task."""
        self._work.load(task)

    def run(self) -> Reading:
        """Let it do the task once."""
        return _run(self._work, self._gauge)


class Worker:
    """The process of one side. A context manager: it ends with the block.

    Args:
        side: what to do there.
        machine: what is called first in the process, what is read there, and how long it may live.
    """

    def __init__(self, side: Side, machine: Machine) -> None:
        self.name = side.name
        self._until = machine.until
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, side, machine.before, machine.device), daemon=True)
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
            SideKilledError: its process was killed, or the GPU has too little memory.
            OutOfTimeError: it was ended, for its time is over.
        """
        self._pipe.send(("run", None))
        reading: Reading = self._receive()
        return reading

    def _receive(self) -> Any:
        if self._until is not None and not self._pipe.poll(max(0.0, self._until - time.monotonic())):
            self._process.kill()
            self._process.join()
            raise OutOfTimeError(f"{self.name}: its time is over; give it more, or measure a smaller setting")
        try:
            kind, value = self._pipe.recv()
        except EOFError as error:
            self._process.join()
            raise SideKilledError(
                f"{self.name}: its process ended with {self._process.exitcode} (-9: there was too little memory); "
                "measure a smaller setting"
            ) from error
        if kind == "memory":
            raise SideKilledError(f"{self.name}: the GPU has too little memory ({value}); measure a smaller setting")
        if kind == "failed":
            raise MeasurementError(f"{self.name}: {value}")
        return value


def measure(
    sides: Sequence[Side], task: Any, rounds: int, machine: Machine,
    check: Callable[[Mapping[str, Answer]], None] | None = None, warm_up: Any = None,
) -> dict[str, Measured]:  # fmt: skip
    """Measure sides by turns: one warm-up each, then `rounds` runs each, every second round in reverse order.

    Where the machine's time is limited, rounds end with the last one that it has time for; there is always one.

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
        longest = 0.0
        for turn in range(rounds):
            if turn and not machine.has_time(longest):
                break
            begun = time.monotonic()
            for worker in workers if turn % 2 == 0 else workers[::-1]:
                measured[worker.name].readings.append(worker.run())
            longest = max(longest, time.monotonic() - begun)
    return measured


def _serve(pipe: Connection, side: Side, before: Callable[[], None], device: Device) -> None:
    """The loop of a side's process."""
    os.dup2(2, 1)  # what libraries print is no result: standard output is the caller's
    os.environ.update({"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"})
    try:
        before()
        work = side.prepare(*side.arguments)
        if device == "cuda":
            without_plans()  # of all sides: our stages go without, and theirs meet as many shapes
        gauge = make_gauge(device)
        pipe.send(("done", None))
        while True:
            order, task = pipe.recv()
            if order == "load":
                work.load(task)
                pipe.send(("done", None))
            else:
                pipe.send(("done", _run(work, gauge)))
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 - a boundary between processes: the other side raises it
        if type(error).__name__ == "OutOfMemoryError":  # torch's, which not every side has loaded
            pipe.send(("memory", str(error).partition("\n")[0]))
        else:
            pipe.send(("failed", traceback.format_exc()))


def without_plans() -> None:
    """Let attention do without cuDNN, which plans anew for every shape (`engines/model.py`)."""
    import torch

    torch.backends.cuda.enable_cudnn_sdp(False)


def _run(work: Work, gauge: Gauge) -> Reading:
    gauge.begin()
    work.run()
    spent = gauge.end()
    return Reading(spent, work.answer())

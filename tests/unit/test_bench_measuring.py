"""Sides run in processes of their own, and what happens to them is told."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
import torch

from pivotrl_core.bench.gauges import make_gauge
from pivotrl_core.bench.measuring import Machine, Side, Worker, measure
from pivotrl_core.errors import MeasurementError, OutOfTimeError, SideKilledError
from tests.hoarding import Hoard, QueueGPU, Slow, fail, kill_itself, nothing, sleep_long, want_too_much


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker(Side("hoard", Hoard, (64,)), Machine(nothing)) as found:
        yield found


def test_each_side_has_a_process_and_a_peak_of_its_own() -> None:
    sides = [Side("large", Hoard, (256,)), Side("small", Hoard, (16,))]
    measured = measure(sides, None, 3, Machine(nothing))
    large, small = measured["large"], measured["small"]
    assert len({os.getpid(), large.answer["process"], small.answer["process"]}) == 3
    assert len(large.readings) == len(small.readings) == 3
    assert large.memory == pytest.approx(256 * 2**20, rel=0.1)
    assert small.memory == pytest.approx(16 * 2**20, rel=0.3)
    assert large.cpu is not None
    assert 0 < large.cpu <= 2 * large.wall


def test_a_side_that_fails_says_what_and_one_that_is_killed_says_so(worker: Worker) -> None:
    with pytest.raises(MeasurementError, match=r"hoard: Traceback[\s\S]*ValueError: odd task"):
        worker.load(fail)
    gone = Side("gone", Hoard, (1,))
    with Machine(nothing).start(gone) as other, pytest.raises(SideKilledError, match=r"gone.*-9"):
        other.load(kill_itself)
    with (
        Machine(nothing).start(gone) as full,
        pytest.raises(SideKilledError, match=r"gone: the GPU has too little .*GiB"),
    ):
        full.load(want_too_much)


def test_a_side_that_works_too_long_is_ended() -> None:
    begun = time.monotonic()
    slow = Side("slow", Hoard, (1,))
    with (
        pytest.raises(OutOfTimeError, match="slow: its time is over"),
        Machine(nothing, until=begun + 1.5).start(slow) as one,
    ):
        one.load(sleep_long)
    assert 1.5 <= time.monotonic() - begun < 20.0


def test_rounds_end_with_the_last_one_that_there_is_time_for() -> None:
    machine = Machine(nothing, isolated=False, until=time.monotonic() + 1.0)
    measured = measure([Side("slow", Slow, (0.3,))], None, 50, machine)["slow"]
    assert 1 <= len(measured.readings) <= 3  # 0.3 s each, after a warm-up of 0.3 s
    late = Machine(nothing, isolated=False, until=time.monotonic())
    assert len(measure([Side("slow", Slow, (0.01,))], None, 50, late)["slow"].readings) == 1


def test_a_gpu_is_waited_for_before_a_run_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for torch.cuda that works off a queue: what is queued takes its time when it is waited for."""
    gpu = QueueGPU(allocated=1000)
    for name in ("synchronize", "empty_cache", "memory_allocated", "reset_peak_memory_stats", "max_memory_allocated",
                 "max_memory_reserved"):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, getattr(gpu, name))
    gauge = make_gauge("cuda")
    gpu.queue(seconds=0.2, allocated=9000)  # before the run: neither its time nor its memory
    gauge.begin()
    gpu.queue(seconds=0.1, allocated=1500)
    spent = gauge.end()
    assert spent.wall == pytest.approx(0.1, abs=0.05)
    assert (spent.cpu, spent.memory, spent.reserved) == (None, 1500 - 1000, 2 * 1500)

"""Sides run in processes of their own, and what happens to them is told."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pivotrl_core.bench.measuring import Machine, Side, Worker, measure
from pivotrl_core.errors import MeasurementError, SideKilledError
from tests.hoarding import Hoard, fail, kill_itself, nothing


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
    with Worker(Side("gone", Hoard, (1,)), Machine(nothing)) as other, pytest.raises(SideKilledError, match=r"gone.*-9"):
        other.load(kill_itself)

"""Parts of a batch side by side: results come in order, and no more of them exist at once than there are workers."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pivotrl_core.lanes import Lanes, even_batches


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_results_come_in_the_order_of_the_items(workers: int, count: int) -> None:
    def slow_at_first(item: int) -> int:
        time.sleep(0.02 if item == 0 else 0.0)
        return item * item

    lanes = Lanes(workers, workers)
    assert list(lanes.map(slow_at_first, range(count))) == [item * item for item in range(count)]


def test_two_lanes_compute_at_once_and_no_third() -> None:
    meeting = threading.Barrier(2, timeout=10.0)  # broken unless two are there together
    busy, most, lock = 0, 0, threading.Lock()

    def compute(item: int) -> int:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        meeting.wait()
        with lock:
            busy -= 1
        return item

    assert list(Lanes(2, 2).map(compute, range(6))) == list(range(6))
    assert most == 2


def test_one_worker_computes_in_the_callers_thread() -> None:
    assert list(Lanes(2, 1).map(lambda _: threading.get_ident(), range(3))) == [threading.get_ident()] * 3


def test_nothing_is_computed_further_ahead_than_there_are_workers() -> None:
    begun: list[int] = []

    def compute(item: int) -> int:
        begun.append(item)
        return item

    results = Lanes(2, 2).map(compute, range(8))
    next(results)
    time.sleep(0.05)
    assert max(begun) <= 2  # the first is taken, so that one more began
    assert list(results) == list(range(1, 8))


def test_an_error_ends_the_iteration_at_its_place() -> None:
    def compute(item: int) -> int:
        if item == 2:
            raise ValueError("no")
        return item

    results = Lanes(2, 2).map(compute, range(6))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="no"):
        next(results)


@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 4))
def test_batches_are_even_and_come_in_multiples(count: int, limit: int, parts: int) -> None:
    batches = even_batches(count, limit, parts)
    assert [item for batch in batches for item in batch] == list(range(count))
    sizes = [len(batch) for batch in batches]
    assert not sizes or (min(sizes) > 0 and max(sizes) <= limit and max(sizes) - min(sizes) <= 1)
    assert len(batches) % parts == 0 or len(batches) == count

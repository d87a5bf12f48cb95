"""Padded batches: each row once, at no more than they may cost or hold."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl_core.engines.batching import batches_by_length


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.integers(0, 300), max_size=30), overhead=st.integers(0, 100))
def test_batches_by_length_take_each_row_once_and_cost_no_more_than_one_batch(
    lengths: list[int], overhead: int
) -> None:
    batches = batches_by_length(lengths, overhead)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    cost = sum(len(batch) * max(lengths[index] for index in batch) + overhead for batch in batches)
    assert cost <= len(lengths) * max(lengths, default=0) + overhead


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.integers(0, 300), max_size=30), most=st.integers(1, 2000))
def test_batches_of_bounded_size_take_each_row_once(lengths: list[int], most: int) -> None:
    batches = batches_by_length(lengths, most=most)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= most for batch in batches)

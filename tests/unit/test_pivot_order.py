"""The order of pivots: passes over a pool, from which mastered ones may rest."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pivotrl_core.seeding import generator
from pivotrl_core.training.pivot_order import PivotOrder


def test_without_rest_every_pass_has_the_whole_pool_in_an_order_of_its_own() -> None:
    order = PivotOrder(size=5, seed=3)
    taken: list[int] = []
    for _ in range(4):
        step = order.take(4)
        order.note_mastered(step)
        taken += step
    expected = [generator(3, "pivot-order", number).permutation(5).tolist() for number in range(4)]
    assert taken == [*expected[0], *expected[1], *expected[2], *expected[3][:1]]
    assert len({tuple(one) for one in expected}) > 1


def test_a_mastered_pivot_sits_out_the_next_passes_and_comes_back() -> None:
    order = PivotOrder(size=4, seed=0, rest=2)
    first = order.take(4)
    order.note_mastered(first[:1])
    passes = [order.take(3), order.take(3), order.take(4)]
    assert [first[0] in one for one in passes] == [False, False, True]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(first[1:])
    assert sorted(passes[2]) == sorted(first)


def test_where_all_are_mastered_the_pool_is_passed_again() -> None:
    order = PivotOrder(size=3, seed=0, rest=5)
    order.note_mastered(order.take(3))
    assert sorted(order.take(3)) == [0, 1, 2]


def test_a_step_larger_than_the_pool_takes_pivots_twice() -> None:
    order = PivotOrder(size=3, seed=0, rest=1)
    taken = order.take(7)
    assert sorted(taken[:6]) == [0, 0, 1, 1, 2, 2]


@given(
    size=st.integers(1, 12),
    rest=st.integers(0, 3),
    count=st.integers(1, 9),
    mastered=st.lists(st.sets(st.integers(0, 11)), min_size=2, max_size=12),
    data=st.data(),
)
def test_an_order_that_is_resumed_goes_on_as_if_nothing_had_happened(
    size: int, rest: int, count: int, mastered: list[set[int]], data: st.DataObject
) -> None:
    order = PivotOrder(size, 7, rest)
    cut = data.draw(st.integers(0, len(mastered)))
    for step, done in enumerate(mastered):
        if step == cut:
            resumed = PivotOrder(size, 7, rest)
            resumed.resume(json.loads(json.dumps(order.state())))
            order = resumed
        taken = order.take(count)
        order.note_mastered(place for place in taken if place in done)
        assert len(taken) == count
        assert set(taken) <= set(range(size))
    whole = PivotOrder(size, 7, rest)
    for done in mastered:
        whole.note_mastered(place for place in whole.take(count) if place in done)
    assert order == whole

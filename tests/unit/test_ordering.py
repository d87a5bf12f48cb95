"""Agreement of the order of alternative actions, worked out by hand and against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kendalltau

from pivotrl_core.evaluation.ordering import order_agreement


def test_the_same_order_agrees_wholly_whatever_the_distances() -> None:
    result = order_agreement([[-1.0, -2.0, -3.0]], [[-0.1, -5.0, -5.1]])
    assert (result.kendall_tau, result.same_order, result.states, result.pairs) == (1.0, 1.0, 1, 3)


def test_the_reverse_order_disagrees_wholly() -> None:
    result = order_agreement([[1.0, 2.0, 3.0]], [[3.0, 2.0, 1.0]])
    assert (result.kendall_tau, result.same_order) == (-1.0, 0.0)


def test_one_swapped_pair_of_three() -> None:
    # Pairs (1,2), (1,3), (2,3): two of three agree; tau = (2 - 1) / 3.
    result = order_agreement([[3.0, 2.0, 1.0]], [[3.0, 1.0, 2.0]])
    assert result.kendall_tau == pytest.approx(1 / 3)
    assert result.same_order == pytest.approx(2 / 3)


def test_ties_follow_tau_b() -> None:
    # Signs a: 0, +, +; signs b: +, +, +. Sum of products 2; sqrt(2 * 3) = 2.449; tau-b = 0.8165. Two of three agree.
    result = order_agreement([[2.0, 2.0, 1.0]], [[3.0, 2.0, 1.0]])
    assert result.kendall_tau == pytest.approx(2 / math.sqrt(6))
    assert result.same_order == pytest.approx(2 / 3)


def test_impossible_actions_are_tied_with_each_other() -> None:
    result = order_agreement([[-1.0, -math.inf, -math.inf]], [[-1.0, -math.inf, -math.inf]])
    assert (result.kendall_tau, result.same_order) == (1.0, 1.0)


def test_states_without_an_order_are_counted_and_not_averaged() -> None:
    result = order_agreement([[1.0, 2.0], [5.0, 5.0], [1.0]], [[1.0, 2.0], [1.0, 2.0], [1.0]])
    assert (result.kendall_tau, result.states, result.undefined_states) == (1.0, 1, 2)
    assert (result.same_order, result.pairs) == (0.5, 2)


def test_no_states_is_no_number() -> None:
    result = order_agreement([], [])
    assert result.kendall_tau is None
    assert result.same_order is None


def test_it_agrees_with_scipy_on_random_rows_with_ties() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 6, (20, 8)).astype(float), rng.integers(0, 6, (20, 8)).astype(float)
    expected = np.mean([kendalltau(x, y).statistic for x, y in zip(a, b, strict=True)])
    assert order_agreement(list(a), list(b)).kendall_tau == pytest.approx(expected)


@pytest.mark.parametrize(
    ("a", "b"),
    [([[1.0]], []), ([[1.0, 2.0]], [[1.0, 2.0, 3.0]]), ([[math.nan, 1.0]], [[1.0, 2.0]]), ([[[1.0]]], [[1.0]])],
)
def test_rows_that_cannot_be_compared_are_refused(a: list[object], b: list[object]) -> None:
    with pytest.raises(ValueError):
        order_agreement(a, b)  # type: ignore[arg-type]

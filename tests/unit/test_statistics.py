"""Intervals and paired differences, with numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pivotrl_core.evaluation.statistics import bootstrap_mean, paired_difference


def test_bootstrap_of_one_repeated_value_has_no_width() -> None:
    interval = bootstrap_mean([0.25] * 8, "x")
    assert (interval.mean, interval.low, interval.high, interval.items, interval.seeds) == (0.25, 0.25, 0.25, 8, 1)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_wrong_or_all_right_has_the_exact_bound(value: float) -> None:
    # Of 32 items none is right: 1 - 0.025^(1/32) = 1 - exp(-3.68888 / 32) = 0.108881.
    for scores, strata in (([value] * 32, ()), ([[value] * 32] * 2, ()), ([value] * 32, (16, 16))):
        interval = bootstrap_mean(scores, "x", strata=strata)
        low, high = (0.0, 0.108881) if value == 0.0 else (1 - 0.108881, 1.0)
        assert interval.mean == value
        assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-6)
        assert interval.exact


def test_benchmarks_of_unequal_size_count_as_the_smallest() -> None:
    # Scaled as `stack` does: 8 / (2 * 6) and 8 / (2 * 2), whose mean is 1. 1 - 0.025^(1/4) = 0.602365.
    interval = bootstrap_mean([8 / 12] * 6 + [2.0] * 2, "x", strata=(6, 2))
    assert (interval.low, interval.high) == pytest.approx((1 - 0.602365, 1.0), abs=1e-6)


def test_the_exact_bound_is_for_means_alone() -> None:
    interval = paired_difference([1.0] * 8, [0.0] * 8, 0)
    assert (interval.low, interval.high, interval.exact) == (1.0, 1.0, False)
    assert not bootstrap_mean([0.0] * 7 + [1.0], 0).exact


def test_bootstrap_of_two_items_covers_all_three_possible_means() -> None:
    # Resamples of {0, 1}: mean 0 with probability 1/4, 1/2 with 1/2, 1 with 1/4, so the 2.5 % ends are 0 and 1.
    interval = bootstrap_mean([0.0, 1.0], 1)
    assert (interval.mean, interval.low, interval.high) == (0.5, 0.0, 1.0)


def test_bootstrap_width_agrees_with_the_normal_approximation() -> None:
    # 400 items, 100 of them 1: standard error sqrt(0.25 * 0.75 / 400) = 0.0216506, half width 1.96 * that = 0.0424
    interval = bootstrap_mean([1.0] * 100 + [0.0] * 300, 0, resamples=4000)
    assert interval.mean == 0.25
    assert interval.low == pytest.approx(0.25 - 0.0424, abs=0.004)
    assert interval.high == pytest.approx(0.25 + 0.0424, abs=0.004)


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    scores = np.linspace(0, 1, 37)
    assert bootstrap_mean(scores, 3, "a") == bootstrap_mean(scores, 3, "a")
    assert bootstrap_mean(scores, 3, "a") != bootstrap_mean(scores, 3, "b")


def test_the_paired_interval_ignores_how_hard_items_are() -> None:
    # Item difficulty varies over the whole range but b is 0.1 below a on every item: the difference is certain.
    a = np.linspace(0.1, 1.0, 40)
    interval = paired_difference(a, a - 0.1, 0)
    assert interval.mean == pytest.approx(0.1)
    assert interval.low == pytest.approx(0.1)
    assert interval.high == pytest.approx(0.1)


def test_seeds_that_disagree_widen_the_paired_interval() -> None:
    base = np.full((1, 50), 0.5)
    agreeing = np.full((3, 50), 0.6)
    disagreeing = np.stack([np.full(50, 0.3), np.full(50, 0.6), np.full(50, 0.9)])
    assert paired_difference(agreeing, base, 0).low == pytest.approx(0.1)
    # Seed means 0.3, 0.6, 0.9: all three draws are the first with probability 1/27 = 3.7 % > 2.5 %, so low = 0.3 - 0.5.
    interval = paired_difference(disagreeing, base, 0)
    assert interval.mean == pytest.approx(0.1)
    assert interval.low == pytest.approx(-0.2)
    assert interval.high == pytest.approx(0.4)


@pytest.mark.parametrize(("wins", "shown"), [(1, False), (5, False), (6, True)])
@pytest.mark.parametrize("ties", [0, 58])
def test_fewer_than_six_items_that_differ_decide_nothing(wins: int, ties: int, shown: bool) -> None:
    # All on one side by chance: 2 * 0.5^5 = 0.0625 for five, 0.03 for six.
    a, b = np.array([1.0] * wins + [0.0] * ties), np.zeros(wins + ties)
    interval = paired_difference(np.stack([a, a]), b, 0)
    assert interval.mean == pytest.approx(wins / (wins + ties))
    assert (interval.low > 0) is shown
    turned = paired_difference(b, a, 0)
    assert (turned.high < 0) is shown


def test_swapping_the_arms_turns_the_difference_round() -> None:
    a, b = [1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]
    forward, backward = paired_difference(a, b, 0), paired_difference(b, a, 0)
    assert (forward.mean, backward.mean) == (0.5, -0.5)
    assert (forward.low, forward.high) == (-backward.high, -backward.low)


def test_large_item_counts_go_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from pivotrl_core.evaluation import statistics

    monkeypatch.setattr(statistics, "_BLOCK_WEIGHTS", 300)
    interval = bootstrap_mean([1.0] * 50 + [0.0] * 50, 0, resamples=500)
    assert interval.low < 0.45
    assert interval.high > 0.55


@pytest.mark.parametrize("scores", [[], [[]], [0.1, math.nan], [math.inf], np.zeros((2, 2, 2))])
def test_scores_that_cannot_be_averaged_are_refused(scores: object) -> None:
    with pytest.raises(ValueError, match="scores must be"):
        bootstrap_mean(scores, 0)  # type: ignore[arg-type]


def test_arms_on_different_items_are_not_paired() -> None:
    with pytest.raises(ValueError, match="same items"):
        paired_difference([0.0, 1.0], [1.0], 0)


def test_strata_are_resampled_apart() -> None:
    ones_and_zeros = [1.0] * 30 + [0.0] * 10
    whole = bootstrap_mean(ones_and_zeros, 0)
    assert whole.high - whole.low > 0.2
    apart = bootstrap_mean(ones_and_zeros, 0, strata=(30, 10))
    assert (apart.mean, apart.low, apart.high) == pytest.approx((0.75, 0.75, 0.75))
    one = bootstrap_mean(ones_and_zeros, 0, strata=(40,))
    assert one == whole
    difference = paired_difference(ones_and_zeros, np.zeros(40), 0, strata=(30, 10))
    assert (difference.low, difference.high) == pytest.approx((0.75, 0.75))

"""Intervals, paired differences and verdicts, with numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pivotrl_core.evaluation.statistics import Finding, bootstrap_mean, paired_difference, verdict, wilson_interval


def test_wilson_interval_of_half_of_a_hundred() -> None:
    # z = 1.959964, z^2 = 3.841459; centre = (0.5 + 0.01920729) / 1.03841459 = 0.5;
    # half = 1.959964 * sqrt(0.0025 + 0.0000960365) / 1.03841459 = 0.0961685
    interval = wilson_interval(50, 100)
    assert interval.mean == 0.5
    assert interval.low == pytest.approx(0.4038315, abs=1e-6)
    assert interval.high == pytest.approx(0.5961685, abs=1e-6)


def test_wilson_interval_of_none_of_ten_starts_at_zero_and_is_not_empty() -> None:
    # high = z^2 / (n + z^2) = 3.841459 / 13.841459 = 0.2775328
    interval = wilson_interval(0, 10)
    assert (interval.mean, interval.low) == (0.0, 0.0)
    assert interval.high == pytest.approx(0.2775328, abs=1e-6)
    mirrored = wilson_interval(10, 10)
    assert mirrored.high == 1.0
    assert mirrored.low == pytest.approx(1 - 0.2775328, abs=1e-6)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (-1, 3), (4, 3)])
def test_wilson_refuses_what_is_no_proportion(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="not a proportion"):
        wilson_interval(successes, trials)


def test_bootstrap_of_one_repeated_value_has_no_width() -> None:
    interval = bootstrap_mean([0.25] * 8, "x")
    assert (interval.mean, interval.low, interval.high, interval.items, interval.seeds) == (0.25, 0.25, 0.25, 8, 1)


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
    assert verdict(interval.low, interval.high) is Finding.HIGHER


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
    assert verdict(interval.low, interval.high) is Finding.UNDECIDED


@pytest.mark.parametrize(("wins", "finding"), [(1, Finding.UNDECIDED), (5, Finding.UNDECIDED), (6, Finding.HIGHER)])
@pytest.mark.parametrize("ties", [0, 58])
def test_fewer_than_six_items_that_differ_decide_nothing(wins: int, ties: int, finding: Finding) -> None:
    # All on one side by chance: 2 * 0.5^5 = 0.0625 for five, 0.03 for six.
    a, b = np.array([1.0] * wins + [0.0] * ties), np.zeros(wins + ties)
    interval = paired_difference(np.stack([a, a]), b, 0)
    assert interval.mean == pytest.approx(wins / (wins + ties))
    assert verdict(interval.low, interval.high) is finding
    turned = paired_difference(b, a, 0)
    assert (turned.high < 0) is (finding is Finding.HIGHER)


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


@pytest.mark.parametrize(
    ("low", "high", "finding"),
    [
        (0.01, 0.2, Finding.HIGHER),
        (-0.2, -0.01, Finding.LOWER),
        (-0.1, 0.1, Finding.UNDECIDED),
        (0.0, 0.2, Finding.UNDECIDED),
        (-0.2, 0.0, Finding.UNDECIDED),
        (0.0, 0.0, Finding.UNDECIDED),
    ],
)
def test_no_winner_is_named_inside_an_interval(low: float, high: float, finding: Finding) -> None:
    assert verdict(low, high) is finding


@pytest.mark.parametrize(("low", "high"), [(math.nan, 1.0), (0.0, math.nan), (1.0, 0.0)])
def test_a_verdict_needs_an_interval(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="not an interval"):
        verdict(low, high)

"""The intervals hold what they promise on data whose truth is known."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl_core.evaluation.statistics import bootstrap_mean, paired_difference

_REPEATS = 200


def test_a_95_percent_bootstrap_interval_covers_the_truth_about_95_times_in_100() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for repeat in range(_REPEATS):
        interval = bootstrap_mean(rng.random(120) < 0.3, repeat, resamples=400)
        covered += interval.low <= 0.3 <= interval.high
    # Binomial(200, 0.95) is at or above 180 with probability 0.998; the percentile interval is a little narrow.
    assert 178 <= covered <= 200


def test_the_paired_interval_covers_no_difference_when_there_is_none() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for repeat in range(_REPEATS):
        hardness = rng.random(120)
        a, b = (rng.random(120) < hardness for _ in range(2))
        interval = paired_difference(a, b, repeat, resamples=400)
        covered += interval.low <= 0 <= interval.high
    assert 178 <= covered <= 200


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(0, 5))
def test_an_interval_stays_in_the_range_of_the_scores(scores: list[float], seed: int) -> None:
    interval = bootstrap_mean(scores, seed, resamples=50)
    low, high = (0.0, 1.0) if interval.exact else (min(scores), max(scores))
    assert interval.exact == (set(scores) in ({0.0}, {1.0}))
    assert low - 1e-9 <= interval.low <= interval.high <= high + 1e-9


def test_the_exact_bound_covers_a_rare_success() -> None:
    # 20 items at 0.1: all fail with probability 0.9^20 = 0.12, and a bootstrap would then say 0 to 0.
    interval = bootstrap_mean([0.0] * 20, 0)
    assert interval.low <= 0.1 <= interval.high

"""Intervals and comparisons over benchmark items: pure NumPy, seeded, and silent about winners that are none.

Scores are arrays `scores_SN`: S training seeds by N items, the same items in the same order everywhere. A policy with
one seed may come as `scores_N`.

- A mean gets a percentile bootstrap interval over items, and over seeds where there is more than one.
- A difference between two arms is PAIRED by item: one resample of items serves both arms, so that what makes an item
  hard for both cancels. Seeds are resampled for each arm on its own: seed 0 of one arm shares nothing with seed 0 of
  the other but its number.
- Items that come in strata (benchmarks, under their mean) are resampled within each: how many items each has is no
  accident, and what sets benchmarks apart is no noise.
- Where all scores of a mean are 0, or all 1, no resample differs: it gets the exact two-sided bound (Clopper and
  Pearson 1934) instead, 1 - 0.025^(1/N) above 0 or as much below 1. It holds for any scores in [0, 1].
- Fewer than 6 items with a difference decide nothing, for chance alone puts 5 on one side once in 16 times: where the
  bootstrap, which sees no other items, leaves out 0, the interval of such a difference is drawn to 0.

Limits, to be read with any table made from these: with S seeds the bootstrap sees only (S - 1) / S of the variance
between seeds, so with two or three seeds intervals are too narrow; all values equal give an interval of width 0, but
for those means of 0 or 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pivotrl_core.seeding import generator

Scores: TypeAlias = npt.ArrayLike
Floats: TypeAlias = npt.NDArray[np.float64]

# Resamples are drawn in blocks of at most this many item weights (16 MB), so that memory does not grow with N.
_BLOCK_WEIGHTS = 2_000_000
MIN_DIFFERING = 6  # the sign test's least p is 2 * 0.5^n, which is below 0.05 from here on


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with the ends of its interval; `items` and `seeds` say what it rests on.

    `exact`: the ends are a closed form, no bootstrap's.
    """

    mean: float
    low: float
    high: float
    items: int
    seeds: int = 1
    exact: bool = False


def bootstrap_mean(
    scores: Scores, *seed: str | int, strata: Sequence[int] = (), level: float = 0.95, resamples: int = 2000
) -> Interval:
    """Mean over items (and seeds) with its percentile bootstrap interval; an exact one where all are 0 or all 1.

    Args:
        scores: scores_N or scores_SN, finite; shares in [0, 1], or scaled so that their mean is one (`pairing.stack`).
        seed: parts of the random seed, e.g. the run's seed, the benchmark's and the arm's name.
        strata: sizes of the groups of neighbouring items that are resampled apart, N in all; none: one group.
        level: share of the distribution between the ends.
        resamples: number of bootstrap draws R.

    Raises:
        ValueError: no items, a value that is not finite, or more than two axes.
    """
    scores_SN = _as_matrix(scores)
    if (exact := _exact_bounds(scores_SN, strata, level)) is not None:
        return Interval(float(scores_SN.mean()), *exact, scores_SN.shape[1], scores_SN.shape[0], exact=True)
    means_R = np.concatenate(
        [
            _resampled_means(scores_SN, item_weights_RN, rng)
            for item_weights_RN, rng in _item_weights(strata or scores_SN.shape[1:], resamples, ("mean", *seed))
        ]
    )
    low, high = _percentiles(means_R, level)
    return Interval(float(scores_SN.mean()), low, high, scores_SN.shape[1], scores_SN.shape[0])


def paired_difference(
    a: Scores, b: Scores, *seed: str | int, strata: Sequence[int] = (), level: float = 0.95, resamples: int = 2000
) -> Interval:
    """Mean of a minus mean of b over the same items, hierarchical bootstrap as the module says.

    Args:
        a: scores of one arm, (N,) or (S_a, N).
        b: scores of the other arm, (N,) or (S_b, N), the same N items in the same order; S_b may differ from S_a.
        seed: parts of the random seed.
        strata: as for `bootstrap_mean`.
        level: share of the distribution between the ends.
        resamples: number of bootstrap draws R.

    Returns:
        The difference; `seeds` is the smaller number of seeds of the two.

    Raises:
        ValueError: the arms were not scored on the same number of items, or as for `bootstrap_mean`.
    """
    a_SN, b_SN = _as_matrix(a), _as_matrix(b)
    if a_SN.shape[1] != b_SN.shape[1]:
        raise ValueError(f"paired arms need the same items: {a_SN.shape[1]} and {b_SN.shape[1]} given")
    # The draws of a and b come from one generator in a fixed order; equal arms still get their own seed draws.
    differences_R = np.concatenate(
        [
            _resampled_means(a_SN, item_weights_RN, rng) - _resampled_means(b_SN, item_weights_RN, rng)
            for item_weights_RN, rng in _item_weights(strata or a_SN.shape[1:], resamples, ("paired", *seed))
        ]
    )
    low, high = _percentiles(differences_R, level)
    differing = ~np.isclose(a_SN.mean(axis=0), b_SN.mean(axis=0), rtol=0.0, atol=1e-12)
    if differing.sum() < MIN_DIFFERING:
        low, high = min(low, 0.0), max(high, 0.0)
    seeds = min(a_SN.shape[0], b_SN.shape[0])
    return Interval(float(a_SN.mean() - b_SN.mean()), low, high, a_SN.shape[1], seeds)


def _exact_bounds(scores_SN: Floats, strata: Sequence[int], level: float) -> tuple[float, float] | None:
    """Clopper-Pearson bounds where all N items score 0 or all 1, whatever the seed; else None.

    Seeds share their items and add none. Of a mean over B strata the bound is that of B times the smallest one's items:
    right where all have one size, and too wide where not.
    """
    sizes = tuple(strata) or scores_SN.shape[1:]
    if (scores_SN == 0.0).all():
        ones = False
    elif np.allclose(
        scores_SN, np.repeat([sum(sizes) / (len(sizes) * size) for size in sizes], sizes), rtol=1e-12, atol=0.0
    ):
        ones = True
    else:
        return None
    reach = 1.0 - ((1.0 - level) / 2) ** (1.0 / (len(sizes) * min(sizes)))
    return (1.0 - reach, 1.0) if ones else (0.0, reach)


def _as_matrix(scores: Scores) -> Floats:
    scores_SN = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    if scores_SN.ndim != 2 or scores_SN.size == 0:
        raise ValueError(f"scores must be (N,) or (S, N) with at least one item; the shape is {scores_SN.shape}")
    if not np.isfinite(scores_SN).all():
        raise ValueError("scores must be finite: an item without a score must be recorded as such, not averaged")
    return scores_SN


def _item_weights(
    strata: Sequence[int], resamples: int, seed: tuple[str | int, ...]
) -> Iterator[tuple[Floats, np.random.Generator]]:
    """Blocks of item weights (at most R in all), each with the generator to draw seed weights from."""
    rng = generator("bootstrap", *seed)
    items = sum(strata)
    block = max(1, _BLOCK_WEIGHTS // items)
    for start in range(0, resamples, block):
        drawn = min(block, resamples - start)
        yield np.concatenate([_weights(size, drawn, rng) * (size / items) for size in strata], axis=1), rng


def _resampled_means(scores_SN: Floats, item_weights_RN: Floats, rng: np.random.Generator) -> Floats:
    """Means under given weights of items and freshly drawn weights of seeds; each row of weights sums to 1."""
    means_RS = item_weights_RN @ scores_SN.T
    return np.asarray((means_RS * _weights(scores_SN.shape[0], len(item_weights_RN), rng)).sum(axis=1))


def _weights(count: int, resamples: int, rng: np.random.Generator) -> Floats:
    """How often each of `count` things is drawn in a resample of `count`, divided by `count`; shape (R, count)."""
    return rng.multinomial(count, np.full(count, 1 / count), size=resamples) / count


def _percentiles(values_R: Floats, level: float) -> tuple[float, float]:
    tail = 50 * (1 - level)
    low, high = np.percentile(values_R, [tail, 100 - tail])
    return float(low), float(high)

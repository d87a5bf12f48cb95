"""Scores of one metric laid out as seeds by items, and bootstrap intervals over both.

What it is: a crossed bootstrap. Items (benchmark questions or tasks) and training seeds are resampled independently,
because each item is answered under every seed. Two arms are compared on the items and seeds that they share, by the
mean of their differences, so that the items' own difficulty cancels out.
What it is not: a test of many hypotheses; intervals are not corrected for the number of comparisons.

Invariants: the same scores and the same name give the same interval to the bit; an interval over one seed covers the
choice of items only, and says nothing about another training run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pivotrl_core.seeding import generator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Scores:
    """`values_SN[s, n]` is the score of item `items[n]` under seed `seeds[s]`, in [0, 1]."""

    seeds: tuple[int, ...]
    items: tuple[str, ...]
    values_SN: Floats


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the bounds of its interval, and the number of items behind it."""

    mean: float
    low: float
    high: float
    n: int


def align(by_seed: Mapping[int, Mapping[str, float]]) -> Scores | None:
    """Lay out {seed: {item: score}} on the items that every seed has; None where there are none."""
    import numpy as np

    seeds = tuple(sorted(by_seed))
    if not seeds:
        return None
    shared = set.intersection(*(set(by_seed[seed]) for seed in seeds))
    items = tuple(sorted(shared))
    if not items:
        return None
    return Scores(seeds, items, np.array([[by_seed[s][i] for i in items] for s in seeds], dtype=np.float64))


def difference(a: Scores, b: Scores) -> Scores | None:
    """Scores of `a` minus scores of `b`, item by item.

    Paired by seed where the two share seeds; otherwise each side is first averaged over its own seeds, and the interval
    then covers the items only.
    """
    items = tuple(sorted(set(a.items) & set(b.items)))
    if not items:
        return None
    left, right = _columns(a, items), _columns(b, items)
    seeds = tuple(sorted(set(a.seeds) & set(b.seeds)))
    if seeds:
        rows_a, rows_b = [a.seeds.index(s) for s in seeds], [b.seeds.index(s) for s in seeds]
        return Scores(seeds, items, left[rows_a] - right[rows_b])
    return Scores((-1,), items, left.mean(axis=0, keepdims=True) - right.mean(axis=0, keepdims=True))


def _columns(scores: Scores, items: Sequence[str]) -> Floats:
    place = {item: n for n, item in enumerate(scores.items)}
    return scores.values_SN[:, [place[item] for item in items]]


def interval(parts: Sequence[Scores], name: str, resamples: int = RESAMPLES, level: float = LEVEL) -> Interval:
    """Mean over `parts` of their mean score, with a percentile bootstrap interval.

    Args:
        parts: one for a single metric; several (one a benchmark) for their unweighted mean. All on the same seeds.
        name: what is estimated; seeds the resampling, so that equal input gives equal bounds.
        resamples: number of bootstrap samples.
        level: coverage of the interval.
    """
    import numpy as np

    rng = generator("bootstrap", name)
    seeds = len(parts[0].seeds)
    weights_RS = rng.multinomial(seeds, np.full(seeds, 1.0 / seeds), size=resamples) / seeds
    estimates_R = np.zeros(resamples)
    for part in parts:
        items = len(part.items)
        weights_RN = rng.multinomial(items, np.full(items, 1.0 / items), size=resamples) / items
        estimates_R += ((weights_RS @ part.values_SN) * weights_RN).sum(axis=1)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(estimates_R / len(parts), [tail, 1.0 - tail])
    mean = float(np.mean([part.values_SN.mean() for part in parts]))
    return Interval(mean, float(low), float(high), sum(len(part.items) for part in parts))

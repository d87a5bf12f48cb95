"""Scores of one metric laid out as seeds by items, and two arms brought onto the same items.

What it is not: statistics (`statistics.py` resamples items and seeds); here is only what is put beside what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scores:
    """`values_SN[s, n]` is the score of item `items[n]` under seed `seeds[s]`.

    `strata` are the sizes of the groups of items that a resample draws from apart; none: all are one group.
    """

    seeds: tuple[int, ...]
    items: tuple[str, ...]
    values_SN: Floats
    strata: tuple[int, ...] = ()


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


def match(a: Scores, b: Scores) -> tuple[Scores, Scores] | None:
    """Both on the items that they share, in one order; None where they share none. Seeds stay as they are."""
    items = tuple(sorted(set(a.items) & set(b.items)))
    return (_restrict(a, items), _restrict(b, items)) if items else None


def _restrict(scores: Scores, items: tuple[str, ...]) -> Scores:
    place = {item: n for n, item in enumerate(scores.items)}
    return replace(scores, items=items, values_SN=scores.values_SN[:, [place[item] for item in items]])


def stack(parts: Mapping[str, Scores]) -> Scores | None:
    """All items of several benchmarks in one row a seed, scaled so that their mean is the benchmarks' unweighted mean.

    A benchmark of n_b of the N items gets the factor N / (B n_b), which is 1 where all have the same size, and is a
    stratum. None where there is no benchmark, or where they were not run under the same seeds.
    """
    import numpy as np

    members: Sequence[Scores] = [parts[name] for name in sorted(parts)]
    if not members or len({one.seeds for one in members}) != 1:
        return None
    items = tuple(f"{name}\x1f{item}" for name in sorted(parts) for item in parts[name].items)
    scaled = [one.values_SN * (len(items) / (len(members) * len(one.items))) for one in members]
    strata = tuple(len(one.items) for one in members)
    return Scores(members[0].seeds, items, np.concatenate(scaled, axis=1), strata)

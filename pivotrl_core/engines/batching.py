"""Sequences of unequal lengths in padded batches, cut where that costs least."""

from __future__ import annotations

from collections.abc import Sequence


def batches_by_length(lengths: Sequence[int], overhead: int = 48, most: int | None = None) -> list[list[int]]:
    """Indices in batches of similar lengths, so that little is padding: the cheapest cut of the sorted order.

    With `most` none has more tokens, padding among them, unless it has one sequence alone.

    >>> batches_by_length([5, 200, 6, 190])
    [[0, 2], [3, 1]]
    """
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    runs = runs_by_length([lengths[i] for i in order], overhead)
    if most is not None:
        runs = [part for run in runs for part in _parts(run, max(1, most // max(1, lengths[order[run[-1]]])))]
    return [[order[at] for at in run] for run in runs]


def _parts(run: range, rows: int) -> list[range]:
    return [run[start : start + rows] for start in range(0, len(run), rows)]


def runs_by_length(lengths: Sequence[int], overhead: int = 400) -> list[range]:
    """Neighbours in runs, each as long as its longest, so that little is padding: the cheapest cut of the given order.

    A run costs its rows times its longest length, and `overhead` tokens for being one more.

    >>> runs_by_length([5, 6, 900, 890], overhead=48)
    [range(0, 2), range(2, 4)]
    """
    best: list[tuple[int, int]] = [(0, 0)]  # cost of the first n, and where their last run begins
    for end in range(1, len(lengths) + 1):
        longest, found = 0, (best[end - 1][0] + lengths[end - 1] + overhead, end - 1)
        for begin in range(end - 1, -1, -1):
            longest = max(longest, lengths[begin])
            found = min(found, (best[begin][0] + (end - begin) * longest + overhead, begin))
        best.append(found)
    runs = []
    end = len(lengths)
    while end:
        begin = best[end][1]
        runs.append(range(begin, end))
        end = begin
    return runs[::-1]

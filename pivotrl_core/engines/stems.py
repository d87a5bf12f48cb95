"""Prompts that begin alike: what an engine computes once for many."""

from __future__ import annotations

from collections.abc import Sequence

from pivotrl_core.engines.protocol import Request


def common_prefix(sequences: Sequence[Sequence[int]]) -> int:
    """Number of ids that all sequences begin with."""
    ordered = sorted(tuple(ids) for ids in sequences)
    # What the first and the last in order share, all between them share too.
    first, last = ordered[0], ordered[-1]
    pairs = zip(first, last, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))


def plan_stems(requests: Sequence[Request]) -> list[tuple[int, list[int]]]:
    """Requests whose prompts are prefixes of one another: (index of the longest, indices of all), in a fixed order."""
    order = sorted(range(len(requests)), key=lambda i: requests[i].prompt_ids, reverse=True)
    stems: list[tuple[int, list[int]]] = []
    for index in order:
        prompt = requests[index].prompt_ids
        if stems and requests[stems[-1][0]].prompt_ids[: len(prompt)] == prompt:
            stems[-1][1].append(index)
        else:
            stems.append((index, [index]))
    return stems

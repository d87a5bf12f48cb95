"""Calls of attention that make up a prefix tree's: what many nodes see, they see in one call without a mask.

With nodes in depth-first order, a *run* (nodes that follow one another without a branch) is seen by itself, causally,
and by all that stands below it, wholly: a call each. Short siblings are taken together, in a call with a mask over
themselves alone. So a node's attention comes in several calls, whose results are put together by their normalisers
(`tree_attention.py`). Against tiles, which hold all that a query sees in one call (`tree_tiles.py`), next to no masked
pair is computed, and calls have many queries: the kernels of a CPU then take a half to three quarters of the time a
pair (lab log, 2026-12-02). Those of a GPU give no normaliser where there is a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from pivotrl_core.grpo.tree_tiles import Tile, plan_tiles, walk

# In pairs of a query and a key that are all seen: a call, each of its keys and queries, and pairs of other kinds.
# Measured forward and backward on a CPU with 9 heads of 64 (lab log, 2026-12-02).
CALL_COST, KEY_COST, MERGE_COST = 3000, 16, 20
MASKED_PAIR, CAUSAL_PAIR = 1.2, 0.75  # the latter of the whole square, half of which is skipped

# A shared call of at least so many queries and keys is worth a cascade; with smaller ones a step took 4 to 11 % longer
# than with tiles, for calls were many, and their results have to be put together.
LARGE_QUERIES, LARGE_KEYS = 768, 512


@dataclass(frozen=True, slots=True)
class Cascade:
    """The calls of one row: `own` ones hold each node as a query once, `shared` ones what nodes see besides."""

    own: list[Tile]
    shared: list[Tile]


def plan_calls(parent_L: Int[Tensor, " L"], lead: int = 0) -> Cascade:
    """A row's calls on a CPU: a cascade where a large one is shared, and tiles elsewhere. As `plan_cascade`."""
    plan = plan_cascade(parent_L, lead=lead)
    if any(len(tile.queries) >= LARGE_QUERIES and len(tile.keys[0]) >= LARGE_KEYS for tile in plan.shared):
        return plan
    return Cascade(plan_tiles(parent_L, lead=lead), [])


def plan_cascade(parent_L: Int[Tensor, " L"], call_cost: float = CALL_COST, lead: int = 0) -> Cascade:
    """The cheapest calls of a row.

    Args:
        parent_L: each node's parent, -1 at a root.
        call_cost: what a call costs whatever its size, in pairs.
        lead: how many tokens stand before the row; all nodes see them, and keys are places in both together.

    Raises:
        ValueError: the nodes are not in depth-first order.
    """
    size = len(parent_L)
    plan = _Plan(parent_L.tolist(), call_cost)
    end_L = torch.tensor(plan.ends, device="cpu")
    own: list[Tile] = []
    shared = [Tile(range(size), (range(lead),), causal=False, allowed_QK=None)] if lead else []
    waiting = [plan.group(0, size).groups]
    while waiting:
        for group in waiting.pop():
            if group.run is None:
                own.append(_masked(group.nodes, end_L, lead))
                continue
            nodes = group.run.nodes
            keys = range(lead + nodes.start, lead + nodes.stop)
            own.append(Tile(nodes, (keys,), causal=True, allowed_QK=None))
            if group.run.below:
                shared.append(Tile(range(nodes.stop, group.nodes.stop), (keys,), causal=False, allowed_QK=None))
                waiting.append(group.run.below)
    return Cascade(sorted(own, key=lambda tile: tile.queries.start), shared)


@dataclass(frozen=True, slots=True)
class _Run:
    """Nodes that follow one another without a branch, how those below are grouped, and what the calls of all cost."""

    nodes: range
    below: list[_Group]
    cost: float


@dataclass(frozen=True, slots=True)
class _Group:
    """Whole subtrees of consecutive siblings: one, by its run, or some under a mask."""

    nodes: range
    run: _Run | None


@dataclass(frozen=True, slots=True)
class _Grouping:
    groups: list[_Group]
    cost: float


class _Plan:
    """The runs of a row, each with the cheapest plan of what stands below it."""

    def __init__(self, parents: Sequence[int], call_cost: float) -> None:
        size = len(parents)
        self.call_cost = call_cost
        self.ends = walk(parents)[1]
        firsts = [
            node for node in range(size)
            if node == 0 or parents[node] != node - 1 or self.ends[node] != self.ends[node - 1]
        ]  # fmt: skip
        self.runs: dict[int, _Run] = {}  # by first node
        for first, stop in reversed(list(zip(firsts, [*firsts[1:], size], strict=True))):
            self.runs[first] = self._run(range(first, stop))  # what stands below it stands behind it

    def _run(self, nodes: range) -> _Run:
        length, rest = len(nodes), self.ends[nodes.start] - nodes.stop
        cost = self.call_cost + KEY_COST * length + CAUSAL_PAIR * length**2
        if not rest:
            return _Run(nodes, [], cost)
        below = self.group(nodes.stop, self.ends[nodes.start])
        cost += self.call_cost + KEY_COST * length + rest * (length + MERGE_COST) + below.cost
        return _Run(nodes, below.groups, cost)

    def group(self, start: int, stop: int) -> _Grouping:
        """The siblings in a range of nodes as they cost least: a shortest path over the places between them."""
        bounds = [start]
        while bounds[-1] < stop:
            bounds.append(self.ends[bounds[-1]])
        places = np.array(bounds)
        cost = np.full(len(places), np.inf)
        cost[0] = 0.0
        before = np.zeros(len(places), dtype=int)
        by_run: list[_Run | None] = [None] * len(places)
        for at, first in enumerate(bounds[:-1]):
            width = places[at + 1 :] - first
            reached = cost[at] + self.call_cost + KEY_COST * width + MASKED_PAIR * width**2
            better = at + 1 + np.flatnonzero(reached < cost[at + 1 :])
            cost[better] = reached[better - at - 1]
            before[better] = at
            for place in better.tolist():
                by_run[place] = None
            if cost[at] + self.runs[first].cost <= cost[at + 1]:
                cost[at + 1], before[at + 1], by_run[at + 1] = cost[at] + self.runs[first].cost, at, self.runs[first]
        groups = []
        place = len(bounds) - 1
        while place > 0:
            groups.append(_Group(range(bounds[before[place]], bounds[place]), by_run[place]))
            place = int(before[place])
        return _Grouping(groups[::-1], float(cost[-1]))


def _masked(nodes: range, end_L: Int[Tensor, " L"], lead: int) -> Tile:
    """Whole subtrees as one call, in which each node sees its ancestors among them and itself."""
    node_Q = torch.tensor(nodes, device="cpu")
    allowed_QK = (node_Q <= node_Q[:, None]) & (node_Q[:, None] < end_L[node_Q])
    return Tile(nodes, (range(lead + nodes.start, lead + nodes.stop),), causal=False, allowed_QK=allowed_QK)

"""Tiles of a prefix tree: which queries meet which keys, so that most masked pairs of a row are never computed.

With nodes in depth-first order a subtree is a contiguous range, and query q sees key k exactly where
k <= q < end of k's subtree. A *tile* is a range of queries with every key that one of them sees: the ancestors of its
first query, then the range itself. (An ancestor that stands before the range has a subtree that reaches into it, and
so holds its first query.) A row's tiles are the partition of its nodes that costs least: a path of many nodes is a
tile or several, a bushy subtree or several small ones after another are one tile with a mask. A *lead* of tokens that
stand before the row, and that all nodes see, counts as ancestors of each; keys are places in both together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

# What a call of attention and each of its keys cost, in pairs of a query and a key. Measured forward and backward on a
# CPU with 9 heads of 64; the total is flat around its least (a quarter to four times the cost of a call).
CALL_COST, KEY_COST = 2000, 16
# On a GPU a call is some launches of kernels, and pairs are computed by the million in that time. A guess, for it was
# never measured there.
GPU_CALL_COST = 2**20
GRAIN = 16  # nodes between the places where a run without branches may be cut


@dataclass(frozen=True, slots=True)
class Tile:
    """One call of attention: a range of nodes as queries, and the ranges that are their keys, in order.

    A query sees the keys where `allowed_QK` is true; where that is None, all of them, or causally if so marked.
    """

    queries: range
    keys: tuple[range, ...]
    causal: bool
    allowed_QK: Bool[Tensor, "Q K"] | None

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key, the masked ones among them."""
        return len(self.queries) * sum(len(part) for part in self.keys)


def plan_tiles(
    parent_L: Int[Tensor, " L"], call_cost: int = CALL_COST, key_cost: int = KEY_COST, lead: int = 0
) -> list[Tile]:
    """Tiles of a row in the order of its nodes; each node is a query of one of them. A single path is one causal tile.

    Args:
        parent_L: each node's parent, -1 at a root.
        call_cost: what a tile costs whatever its size, in pairs of a query and a key.
        key_cost: what each of its keys costs besides, in the same unit.
        lead: how many tokens stand before the row.

    Raises:
        ValueError: the nodes are not in depth-first order.
    """
    parents = parent_L.tolist()
    depths, ends = walk(parents)
    end_L = torch.tensor(ends, device="cpu")
    depths = [lead + depth for depth in depths]
    return [_tile(queries, parents, end_L, lead) for queries in _cut(parents, depths, ends, call_cost, key_cost)]


def walk(parents: Sequence[int]) -> tuple[list[int], list[int]]:
    """Each node's number of ancestors, and the end of its subtree."""
    depths: list[int] = []
    ends = [len(parents)] * len(parents)
    path: list[int] = []
    for node, parent in enumerate(parents):
        while path and path[-1] != parent:
            ends[path.pop()] = node
        if parent >= 0 and not path:
            raise ValueError(
                f"node {node}: no ancestor of the node before it is its parent {parent}; order depth first"
            )
        depths.append(len(path))
        path.append(node)
    return depths, ends


def _cut(
    parents: Sequence[int], depths: Sequence[int], ends: Sequence[int], call_cost: int, key_cost: int
) -> list[range]:
    """Cut the row where its tiles cost least in sum: a shortest path over the places where a tile may begin."""
    size = len(parents)
    runs = [node for node in range(1, size) if parents[node] != node - 1 or ends[node] != ends[node - 1]]
    places = np.array(sorted({*runs, *range(0, size, GRAIN), size}))
    cost = np.full(len(places), np.inf)
    cost[0] = 0.0
    before = np.zeros(len(places), dtype=int)
    for index, start in enumerate(places[:-1].tolist()):
        stops = places[index + 1 :]
        queries = stops - start
        pairs = queries * (depths[start] + queries)
        if depths[start] == 0:  # causal attention skips what is above the diagonal
            pairs = np.where(stops <= _straight_end(parents, start), queries * (queries + 1) // 2, pairs)
        reached = cost[index] + call_cost + key_cost * (depths[start] + queries) + pairs
        better = index + 1 + np.flatnonzero(reached < cost[index + 1 :])
        cost[better] = reached[better - index - 1]
        before[better] = index
    bounds = [len(places) - 1]
    while bounds[-1] > 0:
        bounds.append(int(before[bounds[-1]]))
    return [range(start, stop) for start, stop in pairwise(places[bounds[::-1]].tolist())]


def _straight_end(parents: Sequence[int], start: int) -> int:
    """End of the path that begins at a node and leads on from child to next child."""
    end = start + 1
    while end < len(parents) and parents[end] == end - 1:
        end += 1
    return end


def _tile(queries: range, parents: Sequence[int], end_L: Int[Tensor, " L"], lead: int) -> Tile:
    nodes = list(queries[::-1])
    while parents[nodes[-1]] >= 0:
        nodes.append(parents[nodes[-1]])
    nodes.reverse()
    if lead == 0 and len(nodes) == len(queries) and _straight_end(parents, queries.start) >= queries.stop:
        return Tile(queries, (queries,), causal=True, allowed_QK=None)
    key_K, query_Q = torch.tensor(nodes, device="cpu"), torch.tensor(queries, device="cpu")
    allowed_QK = (key_K <= query_Q[:, None]) & (query_Q[:, None] < end_L[key_K])
    keys = _ranges([*range(lead), *(lead + node for node in nodes)])
    if bool(allowed_QK.all()):
        return Tile(queries, keys, causal=False, allowed_QK=None)
    return Tile(queries, keys, causal=False, allowed_QK=pad(allowed_QK, (lead, 0), value=True))


def _ranges(nodes: Sequence[int]) -> tuple[range, ...]:
    """Ascending nodes as contiguous ranges."""
    breaks = [0, *(place for place in range(1, len(nodes)) if nodes[place] != nodes[place - 1] + 1), len(nodes)]
    return tuple(range(nodes[start], nodes[stop - 1] + 1) for start, stop in pairwise(breaks))

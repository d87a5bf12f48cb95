"""The prefix tree: any number of token sequences as one row in which every shared prefix is computed once.

A node is a token at the end of a path from the root; two sequences share the nodes of their common prefix, be it the
system prompt of different trajectories, the state of a group, or the first words of two actions. A node attends to its
own path only, at positions that are depths in the tree. So each sequence's hidden states, and gradients through them,
are exactly those of the sequence computed alone: L nodes instead of the sum of all lengths.

Exact for models with full causal attention and rotary positions; not for sliding windows or recurrent layers, whose
sequences are padded lines instead (`padded_rows.py`, `layouts.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TargetSequence:
    """Ids of one sequence, and the places in it whose tokens are predicted; each place is at least 1."""

    ids: tuple[int, ...]
    places: tuple[int, ...]

    def behind(self, lead: int) -> TargetSequence:
        """The sequence without its first ids, none of which predicts a target."""
        return TargetSequence(self.ids[lead:], tuple(place - lead for place in self.places))


Fill = Callable[[Sequence[TargetSequence], int], list[list[int]]]  # sequences and a limit of tokens: rows of indices


@dataclass(frozen=True, slots=True)
class TargetRow:
    """S targets of N sequences that are computed together.

    Per target, in the order of the given sequences: the place whose hidden state predicts it, its id, its sequence,
    and its place among that sequence's targets.
    """

    predict_from_S: Int[Tensor, " S"]
    targets_S: Int[Tensor, " S"]
    owner_S: Int[Tensor, " S"]
    step_S: Int[Tensor, " S"]
    lengths_N: Int[Tensor, " N"]

    @property
    def mask_NT(self) -> Bool[Tensor, "N T"]:
        """True where `unpack` places a target; T is the largest number of targets of a sequence."""
        steps_T = torch.arange(int(self.lengths_N.max()), device=self.lengths_N.device)
        return steps_T[None, :] < self.lengths_N[:, None]

    def to(self, device: torch.device) -> Self:
        """The same row on the device of a model."""
        return type(self)(*(getattr(self, part.name).to(device) for part in fields(self)))


@dataclass(frozen=True, slots=True)
class TreeRow(TargetRow):
    """L nodes as one row, depth first so that every subtree is contiguous; targets are predicted from nodes.

    `parent_L` is -1 at a root.
    """

    input_ids_L: Int[Tensor, " L"]
    position_ids_L: Int[Tensor, " L"]
    parent_L: Int[Tensor, " L"]

    @property
    def computed(self) -> int:
        """Tokens that a forward pass computes."""
        return len(self.input_ids_L)

    @property
    def lead(self) -> int:
        """How many tokens, which all nodes see, stand before the row."""
        return int(self.position_ids_L[0])


def build_tree_row(sequences: Sequence[TargetSequence], lead: int = 0) -> TreeRow:
    """Pack sequences. A sequence's last token is an input only where another sequence goes on from it.

    Args:
        sequences: to be packed; where there is a lead, what follows it.
        lead: how many tokens, which all nodes see, stand before the row.

    Raises:
        ValueError: no sequence, or one without a target, or a target at place 0.
    """
    check_targets(sequences)
    children: dict[tuple[int, int], int] = {}
    ids: list[int] = []
    depths: list[int] = []
    parents: list[int] = []
    paths: list[list[int]] = [[] for _ in sequences]
    for owner in sorted(range(len(sequences)), key=lambda index: sequences[index].ids):
        node = -1
        for depth, token in enumerate(sequences[owner].ids[: max(sequences[owner].places)], lead):
            known = children.get((node, token))
            if known is None:
                known = len(ids)
                children[node, token] = known
                ids.append(token)
                depths.append(depth)
                parents.append(node)
            node = known
            paths[owner].append(node)
    predict_from = [path[place - 1] for path, one in zip(paths, sequences, strict=True) for place in one.places]
    nodes = torch.tensor(ids), torch.tensor(depths), torch.tensor(parents)
    return TreeRow(torch.tensor(predict_from), *target_columns(sequences), *nodes)


def check_targets(sequences: Sequence[TargetSequence]) -> None:
    """Raise ValueError where there is no sequence, or one without a target, or with one at place 0."""
    for owner, sequence in enumerate(sequences):
        if not sequence.places or min(sequence.places) < 1:
            raise ValueError(f"sequence {owner} needs at least one target, and none at its first token")
    if not sequences:
        raise ValueError("no sequence to pack")


def target_columns(sequences: Sequence[TargetSequence]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of a `TargetRow`: targets, their owners and steps [S], and the number of targets of each sequence [N]."""
    return (
        torch.tensor([sequence.ids[place] for sequence in sequences for place in sequence.places]),
        torch.tensor([owner for owner, sequence in enumerate(sequences) for _ in sequence.places]),
        torch.tensor([step for sequence in sequences for step in range(len(sequence.places))]),
        torch.tensor([len(sequence.places) for sequence in sequences]),
    )


def unpack(values_S: Float[Tensor, " S"], row: TargetRow) -> Float[Tensor, "N T"]:
    """Values per target as one padded line per sequence (0 at padding); differentiable."""
    return values_S.new_zeros(row.mask_NT.shape).index_put((row.owner_S, row.step_S), values_S)


def split_sequences(
    sequences: Sequence[TargetSequence], max_tokens: int, parts: int = 1, fill: Fill | None = None
) -> list[list[TargetSequence]]:
    """Sequences in order, as many to a row as its tree has room for (one that is longer goes alone)."""
    return [[sequences[index] for index in row] for row in plan_rows(sequences, max_tokens, parts, fill)]


def plan_rows(
    sequences: Sequence[TargetSequence], max_tokens: int, parts: int = 1, fill: Fill | None = None
) -> list[list[int]]:
    """Indices of the sequences of each row: in order, up to `max_tokens` nodes (or what else `fill` counts).

    With `parts`, there is a row for each lane where there are sequences enough, and rows are about as long as one
    another: the limit is lowered as far as it goes without asking for more than the next multiple of `parts`.
    """
    fill = fill or _fill_rows
    rows = fill(sequences, max_tokens)
    if parts == 1:
        return rows
    goal = -(-len(rows) // parts) * parts
    short, enough = 0, max_tokens  # the smallest limit that needs no more rows than that, to the nearest 32 tokens
    while enough - short > 32:
        middle = (short + enough) // 2
        tried = fill(sequences, middle)
        if len(tried) > goal:
            short = middle
        else:
            enough, rows = middle, tried
    return rows


def _fill_rows(sequences: Sequence[TargetSequence], max_tokens: int) -> list[list[int]]:
    rows: list[list[int]] = []
    nodes: dict[tuple[int, int], int] = {}
    for index, sequence in enumerate(sequences):
        path = sequence.ids[: max(sequence.places)]
        if not rows or _grow(nodes, path) > max_tokens:
            rows.append([])
            nodes = {}
            _grow(nodes, path)
        rows[-1].append(index)
    return rows


def _grow(nodes: dict[tuple[int, int], int], path: Sequence[int]) -> int:
    """Add a path to a tree of (parent, token) -> node; the number of its nodes then."""
    node = -1
    for token in path:
        node = nodes.setdefault((node, token), len(nodes))
    return len(nodes)

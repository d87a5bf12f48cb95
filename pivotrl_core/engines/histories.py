"""Keys and values of conversations of unequal lengths, a row each, and the two ways to attend to them.

A row's tokens stand from its left edge without gaps, so that the store is as wide as the longest row. Writing one
token a row reads the store in place; reading new texts copies what the few rows concerned have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from pivotrl_core.attention import grouped_attention
from pivotrl_core.engines.batching import runs_by_length
from pivotrl_core.engines.branches import TailCache, few_by_many

ROOM = 64  # tokens by which the store grows


class Histories:
    """The store: rows of keys and values, and how many tokens each row has."""

    def __init__(self, store: TailCache) -> None:
        self.store = store
        self.lengths: list[int] = [0] * len(store.valid_RS)
        self.runs: list[range] = runs_by_length(self.lengths)

    def arrange(self, rows: Sequence[int | None]) -> None:
        """Go on with these rows in this order; None is a new and empty one."""
        self.lengths = [0 if row is None else self.lengths[row] for row in rows]
        index = torch.tensor([row or 0 for row in rows], device=self.store.valid_RS.device)
        width = max(self.lengths, default=0)
        room = -(-width // ROOM) * ROOM
        for tensors in (self.store.keys, self.store.values):
            for layer, tensor in enumerate(tensors):
                arranged = tensor.new_zeros(len(rows), tensor.shape[1], room, tensor.shape[3])
                if width and tensor.shape[0]:
                    arranged[:, :, :width] = tensor[index, :, :width]
                tensors[layer] = arranged
        self.measure()

    def measure(self) -> None:
        """Cut the rows into runs of like length again."""
        self.runs = runs_by_length(self.lengths)

    def make_room(self, needed: int) -> None:
        """Let rows grow to `needed` tokens."""
        missing = needed - self.store.keys[0].shape[2]
        if missing <= 0:
            return
        grown = -(-missing // ROOM) * ROOM
        for tensors in (self.store.keys, self.store.values):
            for layer, tensor in enumerate(tensors):
                tensors[layer] = torch.nn.functional.pad(tensor, (0, 0, 0, grown))

    def decode_step(self) -> DecodeStep:
        """One more token in every row."""
        self.make_room(max(self.lengths) + 1)
        store, device = self.store, self.store.valid_RS.device
        return DecodeStep(
            store.keys, store.values, store.valid_RS, max(self.lengths),
            length_R=torch.tensor(self.lengths, device=device), row_R=torch.arange(len(self.lengths), device=device),
            parts=[(max(self.lengths[run.start : run.stop]) + 1, slice(run.start, run.stop)) for run in self.runs],
        )  # fmt: skip

    def prefill_step(
        self, rows: Sequence[int], counts: Sequence[int], stem: tuple[list[Tensor], list[Tensor]]
    ) -> PrefillStep:
        """`counts` more tokens in each of `rows`, which all begin with `stem`."""
        lengths = [self.lengths[row] for row in rows]
        width = max(length + count for length, count in zip(lengths, counts, strict=True))
        self.make_room(width)
        pairs = [(line, step) for line, count in enumerate(counts) for step in range(count)]
        tensor = partial(torch.tensor, device=self.store.valid_RS.device)
        line_M, step_M = tensor(pairs).unbind(dim=1)
        return PrefillStep(
            self.store,
            stem=stem,
            row_R=tensor(rows),
            length_R=tensor(lengths),
            line_M=line_M,
            step_M=step_M,
            width=width,
        )


@dataclass(slots=True, kw_only=True)
class DecodeStep(TailCache):
    """A forward pass of one token a row, at the end of what the row has.

    Attributes:
        length_R: tokens that each row has, and `row_R`: the rows, all of them.
        parts: rows side by side whose lengths are alike, and how far they are read.
    """

    length_R: Tensor
    row_R: Tensor
    parts: list[tuple[int, slice]]

    def append(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Put the newest token behind each row's last one."""
        self.keys[layer][self.row_R, :, self.length_R] = keys[:, :, 0]
        self.values[layer][self.row_R, :, self.length_R] = values[:, :, 0]

    def hidden(self) -> Tensor:
        """What each row must not see [R, 1, S]: all behind the newest token."""
        places_S = torch.arange(self.length + 1, device=self.length_R.device)
        return (places_S[None, :] > self.length_R[:, None])[:, None]

    def scores(self, layer: int, query: Tensor) -> Tensor:
        """Scores [R, H_kv, rep, S]; what is behind a run's longest row is not written: the mask covers it."""
        keys = self.keys[layer]
        if len(self.parts) == 1:
            return few_by_many(query, keys[:, :, : self.length + 1])
        found = query.new_empty(*query.shape[:-1], self.length + 1)
        for end, rows in self.parts:
            found[rows, ..., :end] = few_by_many(query[rows], keys[rows, :, :end])
        return found

    def mix(self, layer: int, weights: Tensor) -> Tensor:
        """Weighted values [R, H_kv, rep, D]."""
        values = self.values[layer]
        return torch.cat([weights[rows, ..., :end] @ values[rows, :, :end] for end, rows in self.parts])


@dataclass(slots=True)
class PrefillStep:
    """A forward pass of several new tokens in some rows, padded to the longest of them.

    Every row gets a copy of what it sees: scores of all pairs would be written and read many times over.

    Attributes:
        store: the rows' keys and values; the new ones are put there.
        stem: keys and values [1, H_kv, T, D] a layer that all rows begin with.
        row_R: the rows that read, and `length_R`: tokens they had before.
        line_M, step_M: where real new tokens stand in the batch.
        width: tokens of the longest of these rows, the new ones among them.
    """

    store: TailCache
    stem: tuple[list[Tensor], list[Tensor]]
    row_R: Tensor
    length_R: Tensor
    line_M: Tensor
    step_M: Tensor
    width: int
    _bias: Tensor | None = field(default=None, init=False)

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        """Attention output [R, w, H, D] for queries [R, H, w, D] and the new keys and values [R, H_kv, w, D]."""
        if layer == 0:
            hidden = self._hidden(query.shape[2])
            self._bias = query.new_zeros(hidden.shape).masked_fill_(hidden, torch.finfo(query.dtype).min)
        seen_keys = self._seen(self.stem[0], self.store.keys, layer, keys)
        seen_values = self._seen(self.stem[1], self.store.values, layer, values)
        return grouped_attention(query, seen_keys, seen_values, scale, self._bias).transpose(1, 2)

    def _seen(self, stem: list[Tensor], store: list[Tensor], layer: int, new: Tensor) -> Tensor:
        """Put the new keys or values away; those of the whole context, row by row [R, H_kv, T + S, D]."""
        slot_M = self.length_R[self.line_M] + self.step_M
        store[layer][self.row_R[self.line_M], :, slot_M] = new[self.line_M, :, self.step_M]
        own = store[layer][self.row_R, :, : self.width]
        return torch.cat([stem[layer].expand(len(own), -1, -1, -1), own], dim=2)

    def _hidden(self, new: int) -> Tensor:
        """What each new token must not see [R, 1, w, T + S]: all behind itself. What padding sees nobody reads."""
        device = self.length_R.device
        places_S = torch.arange(self.width, device=device)
        own_RW = self.length_R[:, None] + torch.arange(new, device=device)
        hidden = places_S > own_RW[:, :, None]
        return torch.nn.functional.pad(hidden, (self.stem[0][0].shape[2], 0))[:, None]

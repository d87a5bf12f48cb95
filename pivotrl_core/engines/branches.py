"""Attention over branches: many rows that continue shared states, each state's keys and values stored once.

A row attends to segments in order: a *stem* that it shares with other rows (read in place, never expanded), its own
*history* (a conversation's earlier turns), and its *tail* (the tokens of the turn being written). Scores of all
segments go through one softmax, so the result is ordinary causal attention, up to the order of sums.

Works for transformers models that call the attention interface with full causal attention. Not for sliding windows or
recurrent layers: `check_supported` refuses those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from pivotrl_core.errors import ConfigError

ATTENTION = "pivotrl_branches"


@dataclass(slots=True)
class Stems:
    """Keys and values [J, H_kv, T, D] a layer, for J states padded to T. A row sees `visible_R` tokens of its stem."""

    keys: list[Tensor]
    values: list[Tensor]
    stem_R: Tensor
    visible_R: Tensor
    grid_JW: Tensor = field(init=False)
    slot_R: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """Rows of one stem stand side by side in a grid [J, W], so that a stem meets all of its rows in one product."""
        stems = self.stem_R.tolist()
        counts = [0] * self.keys[0].shape[0]
        slots = []
        for stem in stems:
            slots.append(counts[stem])
            counts[stem] += 1
        width = max(counts, default=1)
        grid = torch.zeros(len(counts), width, dtype=torch.long)
        self.slot_R = self.stem_R * width + torch.tensor(slots, dtype=torch.long)
        grid.view(-1)[self.slot_R] = torch.arange(len(stems))
        self.grid_JW = grid

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these, and the stems that no row needs any more."""
        stems, self.stem_R = torch.unique(self.stem_R[rows], return_inverse=True)
        self.visible_R = self.visible_R[rows]
        if len(stems) < self.keys[0].shape[0]:
            self.keys = [keys[stems] for keys in self.keys]
            self.values = [values[stems] for values in self.values]
        self._lay_out()

    def scores(self, layer: int, query: Tensor) -> Tensor:
        """Masked scores [R, H_kv, rep * w, T] of grouped queries [R, H_kv, rep * w, D]."""
        keys = self.keys[layer]
        stems, width = self.grid_JW.shape
        heads, many, dim = query.shape[1:]
        grid = query[self.grid_JW.view(-1)].view(stems, width, heads, many, dim).transpose(1, 2)
        scores = grid.reshape(stems, heads, width * many, dim) @ keys.transpose(-1, -2)
        scores = scores.view(stems, heads, width, many, -1).transpose(1, 2).reshape(stems * width, heads, many, -1)
        hidden = torch.arange(keys.shape[2])[None, :] >= self.visible_R[:, None]
        return scores[self.slot_R].float().masked_fill(hidden[:, None, None, :], -torch.inf)

    def mix(self, layer: int, weights: Tensor) -> Tensor:
        """Weighted values [R, H_kv, rep * w, D]."""
        values = self.values[layer]
        stems, width = self.grid_JW.shape
        heads, many, length = weights.shape[1:]
        grid = weights[self.grid_JW.view(-1)].view(stems, width, heads, many, length).transpose(1, 2)
        mixed = grid.reshape(stems, heads, width * many, length) @ values
        mixed = mixed.view(stems, heads, width, many, -1).transpose(1, 2).reshape(stems * width, heads, many, -1)
        return mixed[self.slot_R]


@dataclass(slots=True)
class Own:
    """Each row's own keys and values [R, H_kv, S, D] a layer, with capacity to grow; `valid_RS` marks real tokens."""

    keys: list[Tensor]
    values: list[Tensor]
    valid_RS: Tensor
    length: int = 0

    @classmethod
    def empty(cls, rows: int, capacity: int, layers: int, heads: int, dim: int, dtype: torch.dtype) -> Own:
        """Room for `capacity` tokens a row."""
        shape = (rows, heads, capacity, dim)
        return cls(
            [torch.zeros(shape, dtype=dtype) for _ in range(layers)],
            [torch.zeros(shape, dtype=dtype) for _ in range(layers)],
            torch.zeros(rows, capacity, dtype=torch.bool),
        )

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""
        self.keys = [keys[rows] for keys in self.keys]
        self.values = [values[rows] for values in self.values]
        self.valid_RS = self.valid_RS[rows]

    def append(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Put the keys and values of the newest tokens behind `length` (which the caller moves once per forward)."""
        width = keys.shape[2]
        self.keys[layer][:, :, self.length : self.length + width] = keys
        self.values[layer][:, :, self.length : self.length + width] = values

    def scores(self, layer: int, query: Tensor, width: int) -> Tensor:
        """Masked scores [R, H_kv, rep * w, S]; `width` > 0: the last `width` tokens are the queries' own, causal."""
        end = self.length + width
        scores = (query @ self.keys[layer][:, :, :end].transpose(-1, -2)).float()
        hidden = ~self.valid_RS[:, None, :end].expand(-1, max(width, 1), -1)
        if width > 1:
            future = torch.ones(width, width, dtype=torch.bool).triu(1)
            hidden = hidden.clone()
            hidden[:, :, self.length :] |= future
        if width:  # a padded query must see itself, or its softmax is NaN and spreads
            hidden = hidden & ~torch.nn.functional.pad(torch.eye(width, dtype=torch.bool), (self.length, 0))
        repeats = query.shape[2] // hidden.shape[1]
        return scores.masked_fill(hidden.repeat(1, repeats, 1)[:, None], -torch.inf)

    def mix(self, layer: int, weights: Tensor) -> Tensor:
        """Weighted values [R, H_kv, rep * w, D]."""
        return weights @ self.values[layer][:, :, : weights.shape[-1]]


@dataclass(slots=True)
class Branches:
    """What the attention of one forward pass sees: an optional stem, an optional history, and the growing tail."""

    tail: Own
    stems: Stems | None = None
    history: Own | None = None

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        """Attention output [R, w, H, D] for queries [R, H, w, D] and the new keys and values [R, H_kv, w, D]."""
        rows, heads, width, dim = query.shape
        groups = keys.shape[1]
        self.tail.append(layer, keys, values)
        grouped = (query * scale).reshape(rows, groups, -1, dim)
        sources: list[tuple[Any, Tensor]] = []
        if self.stems is not None:
            sources.append((self.stems, self.stems.scores(layer, grouped)))
        if self.history is not None and self.history.length:
            sources.append((self.history, self.history.scores(layer, grouped, 0)))
        sources.append((self.tail, self.tail.scores(layer, grouped, width)))
        weights = torch.softmax(torch.cat([scores for _, scores in sources], dim=-1), dim=-1).to(values.dtype)
        parts = torch.split(weights, [scores.shape[-1] for _, scores in sources], dim=-1)
        mixed = torch.zeros_like(grouped)
        for (source, _), part in zip(sources, parts, strict=True):
            mixed += source.mix(layer, part)
        return mixed.view(rows, heads, width, dim).transpose(1, 2)

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these, everywhere."""
        self.tail.keep(rows)
        if self.stems is not None:
            self.stems.keep(rows)
        if self.history is not None:
            self.history.keep(rows)


@dataclass(slots=True)
class StemWriter:
    """Computes stems: rows [J, w] behind a common prefix whose keys and values [1, H_kv, P, D] are given (or none)."""

    prefix: tuple[list[Tensor], list[Tensor]] | None = None
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        """Ordinary causal attention; the keys and values of the whole row are kept."""
        if self.prefix is not None:
            keys = torch.cat([self.prefix[0][layer].expand(len(keys), -1, -1, -1), keys], dim=2)
            values = torch.cat([self.prefix[1][layer].expand(len(values), -1, -1, -1), values], dim=2)
        self.keys.append(keys)
        self.values.append(values)
        width, length = query.shape[2], keys.shape[2]
        mask = torch.ones(width, length, dtype=torch.bool).tril(length - width)
        output = torch.nn.functional.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, scale=scale, enable_gqa=True
        )
        return output.transpose(1, 2)


def _attention(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **kwargs: Any) -> tuple[Tensor, None]:
    """The attention that transformers calls; `branches` travels through the model's keyword arguments."""
    del mask
    branches: Branches | StemWriter = kwargs["branches"]
    return branches.attend(module.layer_idx, query, key, value, kwargs["scaling"]), None


def _no_mask(*_args: Any, **_kwargs: Any) -> None:
    """Branches carry their own masks."""


AttentionInterface.register(ATTENTION, _attention)
AttentionMaskInterface.register(ATTENTION, _no_mask)


def check_supported(config: Any) -> None:
    """Raise ConfigError where branching would not be exact."""
    kinds: Sequence[str] = getattr(config, "layer_types", None) or ()
    if any(kind != "full_attention" for kind in kinds):
        raise ConfigError(f"model: {config.model_type} has layers other than full attention; use another engine for it")


@contextmanager
def branch_attention(model: Any) -> Iterator[None]:
    """Let the model attend through branches inside the block."""
    before = model.config._attn_implementation
    model.set_attn_implementation(ATTENTION)
    try:
        yield
    finally:
        model.set_attn_implementation(before)

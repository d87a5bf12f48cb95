"""Attention over branches: many rows that continue shared states, each state's keys and values stored once.

A row attends to two segments: a *stem* that it shares with other rows (read in place, never expanded), and its *tail*
(the tokens of its own, from those of earlier turns to the one being written). Both have their part in one softmax, so
the result is ordinary causal attention, up to rounding.

Works for transformers models that call the attention interface with full causal attention. Not for sliding windows or
recurrent layers: `sharing.py` tells which models those are.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor

from pivotrl_core.attention import attention_in_force, grouped_attention, register_attention

ATTENTION = "pivotrl_branches"


class Attending(Protocol):
    """What the attention of one forward pass sees; it keeps the new keys and values."""

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        """Attention output [R, w, H, D] for queries [R, H, w, D] and the new keys and values [R, H_kv, w, D]."""
        ...


@dataclass(frozen=True, slots=True)
class _Run:
    """Rows side by side that see the same tokens of the same stem."""

    rows: slice
    stem: int
    visible: int


@dataclass(slots=True)
class Stems:
    """Keys and values [J, H_kv, T, D] a layer, for J states padded to T. A row sees `visible_R` tokens of its stem.

    Rows side by side that see the same are computed together; so rows should stand in the order of their stems.
    """

    keys: list[Tensor]
    values: list[Tensor]
    stem_R: Tensor
    visible_R: Tensor
    _runs: list[_Run] = field(init=False)

    def __post_init__(self) -> None:
        self._cut()

    def _cut(self) -> None:
        pairs = list(zip(self.stem_R.tolist(), self.visible_R.tolist(), strict=True))
        bounds = [0, *(row for row in range(1, len(pairs)) if pairs[row] != pairs[row - 1]), len(pairs)]
        self._runs = [_Run(slice(start, stop), *pairs[start]) for start, stop in pairwise(bounds) if start < stop]

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows (one that is named twice becomes two), without stems that none of them needs."""
        stems, self.stem_R = torch.unique(self.stem_R[rows], return_inverse=True)
        self.visible_R = self.visible_R[rows]
        if len(stems) < self.keys[0].shape[0]:
            self.keys = [keys[stems] for keys in self.keys]
            self.values = [values[stems] for values in self.values]
        self._cut()

    def attend(self, layer: int, query: Tensor) -> tuple[Tensor, Tensor]:
        """Attention of scaled queries [R, H_kv, rep, D] to the stems alone, and its log-sum-exp [R, H_kv, rep]."""
        output = torch.zeros_like(query)
        log_sum = query.new_full(query.shape[:-1], -torch.inf, dtype=torch.promote_types(query.dtype, torch.float32))
        for run in self._runs:
            if run.visible == 0:
                continue
            own = query[run.rows]
            count, heads, many, dim = own.shape
            keys, values = (one[layer][run.stem, None, :, : run.visible] for one in (self.keys, self.values))
            found, sums = attend_whole(own.transpose(0, 1).reshape(1, heads, count * many, dim), keys, values)
            output[run.rows] = found.view(heads, count, many, dim).transpose(0, 1)
            log_sum[run.rows] = sums.view(heads, count, many).transpose(0, 1)
        return output, log_sum


def attend_whole(query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Attention of scaled queries [1, H, M, D] to all of the keys [1, H, T, D], and its log-sum-exp [1, H, M]."""
    if query.device.type != "cpu":
        return attend_by_products(query, keys, values)
    found: tuple[Tensor, Tensor] = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, keys, values, 0.0, False, scale=1.0
    )
    return found


def attend_by_products(query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The same on any device, with all scores at once."""
    scores = query @ keys.transpose(-1, -2)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    log_sum = scores.logsumexp(dim=-1, keepdim=True)
    return scores.sub_(log_sum).exp_().to(values.dtype) @ values, log_sum.squeeze(-1)


@dataclass(slots=True)
class Own:
    """Each row's own keys and values [R, H_kv, S, D] a layer, with capacity to grow; `valid_RS` marks real tokens."""

    keys: list[Tensor]
    values: list[Tensor]
    valid_RS: Tensor
    length: int = 0

    @classmethod
    def empty(
        cls, rows: int, capacity: int, layers: int, heads: int, dim: int, dtype: torch.dtype, device: torch.device
    ) -> Own:
        """Room for `capacity` tokens a row."""
        shape = (rows, heads, capacity, dim)
        return cls(
            [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)],
            [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)],
            torch.zeros(rows, capacity, dtype=torch.bool, device=device),
        )

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows; one that is named twice becomes two."""
        self.keys = [self._chosen(keys, rows) for keys in self.keys]
        self.values = [self._chosen(values, rows) for values in self.values]
        self.valid_RS = self.valid_RS[rows]

    def _chosen(self, stored: Tensor, rows: Tensor) -> Tensor:
        # Zeros behind `length`: a place that another row needs is read with weight 0, and 0 times NaN is NaN.
        chosen = stored.new_zeros(len(rows), *stored.shape[1:])
        chosen[:, :, : self.length] = stored[rows, :, : self.length]
        return chosen

    def append(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Put the keys and values of the newest token at `length` (which the caller moves once per forward)."""
        self.keys[layer][:, :, self.length] = keys[:, :, 0]
        self.values[layer][:, :, self.length] = values[:, :, 0]

    def hidden(self) -> Tensor:
        """What each row must not see [R, 1, S], up to the newest token."""
        return ~self.valid_RS[:, None, : self.length + 1]

    def scores(self, layer: int, query: Tensor) -> Tensor:
        """Scores [R, H_kv, rep, S]."""
        return few_by_many(query, self.keys[layer][:, :, : self.length + 1])

    def mix(self, layer: int, weights: Tensor) -> Tensor:
        """Weighted values [R, H_kv, rep, D]."""
        return weights @ self.values[layer][:, :, : weights.shape[-1]]


def few_by_many(query: Tensor, keys: Tensor) -> Tensor:
    """Products [..., M, S] of few queries [..., M, D] with many keys [..., S, D], which are read as they lie.

    The other way round, with the keys turned, a CPU takes twice as long.
    """
    return (keys @ query.transpose(-1, -2)).transpose(-1, -2)


@dataclass(slots=True)
class Branches:
    """What the attention of one forward pass sees: an optional stem, and what the rows have of their own.

    Each part is attended to by itself, and weighs as much as its sum of exponentiated scores in that of both.
    """

    tail: Own
    stems: Stems | None = None
    _hidden: Tensor | None = field(default=None, init=False)

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        """Attention output [R, 1, H, D] for queries [R, H, 1, D] and the new keys and values [R, H_kv, 1, D]."""
        self.tail.append(layer, keys, values)
        rows, heads, width, dim = query.shape
        grouped = (query * scale).reshape(rows, keys.shape[1], -1, dim)
        scores = self.tail.scores(layer, grouped)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if layer == 0:  # one mask serves all layers of a forward pass
            self._hidden = self.tail.hidden()[:, None]
        assert self._hidden is not None
        scores.masked_fill_(self._hidden, -torch.inf)
        if self.stems is None:
            mixed = self.tail.mix(layer, torch.softmax(scores, dim=-1).to(values.dtype))
        else:
            shared, log_shared = self.stems.attend(layer, grouped)
            log_sum = torch.logaddexp(scores.logsumexp(dim=-1), log_shared)
            mixed = self.tail.mix(layer, scores.sub_(log_sum[..., None]).exp_().to(values.dtype))
            mixed += shared * (log_shared - log_sum).exp_()[..., None]
        return mixed.view(rows, heads, width, dim).transpose(1, 2)

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows, everywhere; one that is named twice becomes two."""
        self.tail.keep(rows)
        if self.stems is not None:
            self.stems.keep(rows)


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
        if width == length and keys.device.type != "cpu":  # a GPU's kernel for this needs no memory for a mask
            return grouped_attention(query, keys, values, scale, causal=True).transpose(1, 2)
        mask = torch.ones(width, length, dtype=torch.bool, device=keys.device).tril(length - width)
        return grouped_attention(query, keys, values, scale, mask).transpose(1, 2)


def _attention(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **kwargs: Any) -> tuple[Tensor, None]:
    """The attention that transformers calls; `branches` travels through the model's keyword arguments."""
    del mask
    branches: Attending = kwargs["branches"]
    return branches.attend(module.layer_idx, query, key, value, kwargs["scaling"]), None


register_attention(ATTENTION, _attention)


def branch_attention(model: Any) -> AbstractContextManager[None]:
    """Let the model attend through branches inside the block."""
    return attention_in_force(model, ATTENTION)

"""Attention over branches: many rows that continue shared states, each state's keys and values stored once.

A row attends to two segments: a *stem* that it shares with other rows (read in place, never expanded), and its *tail*
(the tokens of its own, from those of earlier turns to the one being written). What all stems begin with may be a third,
the *lead*. Each has its part in one softmax, so the result is ordinary causal attention, up to rounding.

Works for transformers models that call the attention interface with full causal attention. Not for sliding windows or
recurrent layers: `sharing.py` tells which models those are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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
    """Rows side by side, from `start` to `stop`, that see one stem: the first `visible` tokens of it at most.

    Where not all of them see as much, `bias` [1, 1, rows * rep, visible] is added to their scores.
    """

    start: int
    stop: int
    stem: int
    visible: int
    bias: Tensor | None


@dataclass(slots=True)
class StemCache:
    """Keys and values [J, H_kv, T, D] a layer, for J states padded to T, behind what all of them begin with.

    That is stored once, as `lead` [1, H_kv, P, D], and read once a step for all rows together. A row sees all of it,
    and the first tokens of one of the states, as many as `assign` was told. Rows side by side that see the same are
    computed together; so rows should stand in the order of their stems.
    """

    keys: list[Tensor]
    values: list[Tensor]
    lead: tuple[list[Tensor], list[Tensor]] | None = None
    _runs: list[_Run] = field(default_factory=list, init=False)
    _views: dict[tuple[int, int, int], tuple[Tensor, Tensor]] = field(default_factory=dict, init=False)

    def assign(self, stems: Sequence[int], visible: Sequence[int], rep: int) -> None:
        """From now on, rows see so many tokens of these stems, those of the lead among them.

        Args:
            stems: of each row, its stem.
            visible: of each row, how many tokens it sees.
            rep: heads of queries to a head of keys.
        """
        lead = 0 if self.lead is None else self.lead[0][0].shape[2]
        own = [count - lead for count in visible]
        bounds = [0, *(row for row in range(1, len(stems)) if stems[row] != stems[row - 1]), len(stems)]
        self._runs = [
            _Run(start, stop, stems[start], max(own[start:stop]), self._bias(own[start:stop], rep))
            for start, stop in pairwise(bounds)
        ]

    def _bias(self, visible: Sequence[int], rep: int) -> Tensor | None:
        if min(visible) == max(visible):
            return None
        like = self.keys[0]
        places_T = torch.arange(max(visible), device=like.device)
        hidden_RT = places_T >= torch.tensor(visible, device=like.device)[:, None]
        # The least number and not -inf: a row may see nothing here, and then weighs nothing beside its other segments.
        bias_RT = like.new_zeros(hidden_RT.shape).masked_fill_(hidden_RT, torch.finfo(like.dtype).min)
        return bias_RT.repeat_interleave(rep, dim=0)[None, None]

    def attend(self, layer: int, query: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Attention of scaled queries [R, H_kv, rep, D] to each segment alone, and its log-sum-exp [R, H_kv, rep]."""
        rows, heads, rep, dim = query.shape
        turned = query.transpose(0, 1).reshape(1, heads, rows * rep, dim)
        found = [self._run(layer, run, turned[:, :, run.start * rep : run.stop * rep]) for run in self._runs]
        segments = [found[0] if len(found) == 1 else tuple(torch.cat(one, dim=2) for one in zip(*found, strict=True))]
        if self.lead is not None:
            segments.append(attend_whole(turned, self.lead[0][layer], self.lead[1][layer]))
        # Sums are laid out as those of the other parts are, so that all are added up by the same code.
        return [
            (
                output.view(heads, rows, rep, dim).transpose(0, 1),
                log_sum.view(heads, rows, rep).transpose(0, 1).contiguous(),
            )
            for output, log_sum in segments
        ]

    def _run(self, layer: int, run: _Run, query: Tensor) -> tuple[Tensor, Tensor]:
        if run.visible == 0:
            dtype = torch.promote_types(query.dtype, torch.float32)
            return torch.zeros_like(query), query.new_full(query.shape[:-1], -torch.inf, dtype=dtype)
        place = (layer, run.stem, run.visible)
        if place not in self._views:
            keys, values = (one[layer][run.stem, None, :, : run.visible] for one in (self.keys, self.values))
            self._views[place] = keys, values
        return attend_whole(query, *self._views[place], run.bias)


def attend_whole(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention of scaled queries [1, H, M, D] to keys [1, H, T, D], and its log-sum-exp [1, H, M].

    `bias` [1, 1, M, T] is added to the scores.
    """
    if query.device.type != "cpu":
        return attend_by_products(query, keys, values, bias)
    found: tuple[Tensor, Tensor] = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, keys, values, 0.0, False, attn_mask=bias, scale=1.0
    )
    return found


def attend_by_products(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same on any device, with all scores at once."""
    scores = query @ keys.transpose(-1, -2)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if bias is not None:
        scores = scores + bias
    log_sum = scores.logsumexp(dim=-1, keepdim=True)
    return scores.sub_(log_sum).exp_().to(values.dtype) @ values, log_sum.squeeze(-1)


@dataclass(slots=True)
class TailCache:
    """Each row's own keys and values [R, H_kv, S, D] a layer, from its left edge; `valid_RS` marks real tokens.

    The newest token stands at `length` in every row, or at `newest_R` where rows have come in later than others.
    """

    keys: list[Tensor]
    values: list[Tensor]
    valid_RS: Tensor
    length: int = 0
    newest_R: Tensor | None = None

    @classmethod
    def empty(
        cls, rows: int, capacity: int, layers: int, heads: int, dim: int, dtype: torch.dtype, device: torch.device
    ) -> TailCache:
        """Room for `capacity` tokens a row."""
        shape = (rows, heads, capacity, dim)
        return cls(
            [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)],
            [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)],
            torch.zeros(rows, capacity, dtype=torch.bool, device=device),
        )

    @classmethod
    def gather(
        cls, parts: Sequence[tuple[TailCache, Tensor, Tensor | slice]], lengths: Sequence[int], room: int
    ) -> TailCache:
        """Rows of several stores in a new one.

        Args:
            parts: stores, which of their rows, and the places of these in the new store.
            lengths: tokens that each of the new rows has.
            room: tokens that a row can have.
        """
        length, (first, _, _) = max(lengths), parts[0]
        keys, values = (
            [one.new_empty(len(lengths), one.shape[1], room, one.shape[3]) for one in stored]
            for stored in (first.keys, first.values)
        )
        valid_RS = first.valid_RS.new_zeros(len(lengths), room)
        for own, rows, places in parts:
            some = min(own.length, length)
            for new, old in ((keys, own.keys), (values, own.values)):
                for layer, stored in enumerate(new):
                    stored[places, :, :some] = old[layer][rows, :, :some]
                    # Zeros behind: a place that another row needs is read with weight 0, and 0 times NaN is NaN.
                    stored[places, :, some:] = 0
            valid_RS[places, :some] = own.valid_RS[rows, :some]
        newest_R = torch.tensor(lengths, device=valid_RS.device) if min(lengths) < length else None
        return cls(keys, values, valid_RS, length, newest_R)

    def open(self, room: int) -> None:
        """Make a place for the newest token of every row, before a forward pass; `room` of them where all are taken."""
        if self.length == self.valid_RS.shape[1]:
            for tensors in (self.keys, self.values):
                for layer, one in enumerate(tensors):  # one after the other, so that but one is there twice
                    tensors[layer] = torch.nn.functional.pad(one, (0, 0, 0, room))
            self.valid_RS = torch.nn.functional.pad(self.valid_RS, (0, room))
        if self.newest_R is None:
            self.valid_RS[:, self.length] = True
        else:
            self.valid_RS.scatter_(1, self.newest_R[:, None], True)

    def close(self) -> None:
        """The newest tokens are there: the next ones stand behind them."""
        self.length += 1
        if self.newest_R is not None:
            self.newest_R = self.newest_R + 1

    def append(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Put the keys and values of the newest token in its place, in every layer of a forward pass."""
        if self.newest_R is None:
            self.keys[layer][:, :, self.length] = keys[:, :, 0]
            self.values[layer][:, :, self.length] = values[:, :, 0]
            return
        row_R = torch.arange(len(keys), device=keys.device)
        self.keys[layer][row_R, :, self.newest_R] = keys[:, :, 0]
        self.values[layer][row_R, :, self.newest_R] = values[:, :, 0]

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

    tail: TailCache
    stems: StemCache | None = None
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
            segments = self.stems.attend(layer, grouped)
            log_sum = scores.logsumexp(dim=-1)
            for _, log_shared in segments:
                log_sum = torch.logaddexp(log_sum, log_shared)
            mixed = self.tail.mix(layer, scores.sub_(log_sum[..., None]).exp_().to(values.dtype))
            for shared, log_shared in segments:
                mixed += shared * (log_shared - log_sum).exp_()[..., None]
        return mixed.view(rows, heads, width, dim).transpose(1, 2)


@dataclass(slots=True)
class StemPrefill:
    """Computes stems: rows [J, w] behind a common prefix whose keys and values [1, H_kv, P, D] are given (or none)."""

    prefix: tuple[list[Tensor], list[Tensor]] | None = None
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        """Ordinary causal attention; the rows' own keys and values are kept."""
        self.keys.append(keys)
        self.values.append(values)
        if self.prefix is not None:
            keys = torch.cat([self.prefix[0][layer].expand(len(keys), -1, -1, -1), keys], dim=2)
            values = torch.cat([self.prefix[1][layer].expand(len(values), -1, -1, -1), values], dim=2)
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


@contextmanager
def plain_writes(device: torch.device) -> Iterator[None]:
    """Let writes by index be plain on a GPU inside the block.

    There torch's deterministic mode makes each of them a sort, and a copy of the whole store beside it. Rows and places
    are distinct here, so that a plain one writes the same.
    """
    if device.type == "cpu" or not torch.are_deterministic_algorithms_enabled():
        yield
        return
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(True, warn_only=warn_only)


def branch_attention(model: Any) -> AbstractContextManager[None]:
    """Let the model attend through branches inside the block."""
    return attention_in_force(model, ATTENTION)

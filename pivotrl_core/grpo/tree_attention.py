"""Attention over a prefix tree: each node sees its own path only.

It comes in tiles that hold all of a query's keys (`tree_tiles.py`), or on a CPU in a cascade of calls (`cascade.py`)
where many nodes see much.

The result is that of one dense mask over the whole row, up to the order of sums, in value and gradient. For models of
transformers that call the attention interface with full causal attention and do not drop attention weights.

What all nodes see may stand before the row, as a lead whose keys and values are given.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from pivotrl_core.attention import attention_in_force, grouped_attention, register_attention
from pivotrl_core.grpo.cascade import Cascade, plan_calls
from pivotrl_core.grpo.tree_tiles import CALL_COST, GPU_CALL_COST, Tile, plan_tiles

ATTENTION = "pivotrl_tree"

KeysValues = tuple[Tensor, Tensor]  # [1, H_kv, P, D] each


class TreeAttention:
    """The attention of one row, for all layers of a forward pass.

    Args:
        parent_L: each node's parent, -1 at a root; nodes in depth-first order.
        dtype: that the model computes in.
        device: of the model.
        lead: by layer, keys and values of the tokens before the row; they are `lead_tokens` many.
        kept: where each layer's own keys and values are put, for rows that this one is the lead of.
        plan: the calls, where they are not to be planned here.
    """

    def __init__(
        self, parent_L: Int[Tensor, " L"], dtype: torch.dtype, device: torch.device, lead_tokens: int = 0,
        lead: Mapping[int, KeysValues] | None = None, kept: MutableMapping[int, KeysValues] | None = None,
        plan: Cascade | Sequence[Tile] | None = None,
    ) -> None:  # fmt: skip
        self.lead = lead
        self.kept = kept
        # On a CPU the backward pass of attention takes three times as long in bf16 as in fp32 (lab log, 2026-11-30).
        self.dtype = torch.float32 if device.type == "cpu" and dtype == torch.bfloat16 else dtype
        self.calls: _Cascaded | _Tiled
        if plan is None and device.type == "cpu" and self.dtype == torch.float32:
            plan = plan_calls(parent_L, lead_tokens)
        if isinstance(plan, Cascade):
            self.calls = _Cascaded(plan, self.dtype, device)
        else:
            cost = CALL_COST if device.type == "cpu" else GPU_CALL_COST
            self.calls = _Tiled(plan or plan_tiles(parent_L, cost, lead=lead_tokens), self.dtype, device)

    def attend(
        self,
        layer: int,
        query: Float[Tensor, "1 H L D"],
        keys: Float[Tensor, "1 H_kv L D"],
        values: Float[Tensor, "1 H_kv L D"],
        scale: float,
    ) -> Float[Tensor, "1 L H D"]:
        """Attention output of every node; differentiable."""
        if self.kept is not None:
            self.kept[layer] = keys, values
        if self.lead is not None:
            keys, values = (torch.cat(pair, dim=2) for pair in zip(self.lead[layer], (keys, values), strict=True))
        return self.calls.attend(query, keys, values, scale)


class _Tiled:
    """Each query in one call, with all that it sees; autograd differentiates."""

    def __init__(self, tiles: Sequence[Tile], dtype: torch.dtype, device: torch.device) -> None:
        self.tiles = tiles
        self.dtype = dtype
        self.biases = [_bias(tile, dtype, device) for tile in tiles]
        self.query_sizes = [len(tile.queries) for tile in tiles]
        # Keys are split once, wherever a range begins or ends: the gradient of a slice is as long as the whole row.
        bounds = sorted({bound for tile in tiles for part in tile.keys for bound in (part.start, part.stop)})
        self.piece_sizes = [stop - start for start, stop in pairwise(bounds)]
        place = {bound: index for index, bound in enumerate(bounds)}
        self.pieces = [
            [index for part in tile.keys for index in range(place[part.start], place[part.stop])] for tile in tiles
        ]

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        queries = torch.split(query.to(self.dtype), self.query_sizes, dim=2)
        key_pieces = torch.split(keys.to(self.dtype), self.piece_sizes, dim=2)
        value_pieces = torch.split(values.to(self.dtype), self.piece_sizes, dim=2)
        outputs = [
            grouped_attention(
                own, _join(key_pieces, pieces), _join(value_pieces, pieces), scale, bias, tile.causal
            ).transpose(1, 2)
            for tile, own, pieces, bias in zip(self.tiles, queries, self.pieces, self.biases, strict=True)
        ]
        return torch.cat(outputs, dim=1).to(query.dtype)


class _Cascaded:
    """The calls of a CPU, by the kernels of scaled_dot_product_attention themselves."""

    def __init__(self, plan: Cascade, dtype: torch.dtype, device: torch.device) -> None:
        self.own = [(tile, _bias(tile, dtype, device)) for tile in plan.own]
        self.shared = plan.shared
        self.dtype = dtype

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        output: Tensor = _ByKernel.apply(query, keys, values, self, scale)  # type: ignore[no-untyped-call]
        return output


class _ByKernel(torch.autograd.Function):
    """Attention of all calls, and its gradient.

    Autograd would keep every call's keys and values, in fp32: most of what a row needs. Here queries, keys and values
    are kept once, as they came. The forward pass stays in their dtype: in bf16 its kernel sums in fp32 too, and takes
    less than half the time. A call's gradient is that of the whole where its kernel is given the whole's output and
    normaliser, since p = exp(s - logsumexp) and ds = p (dp - sum(do o)) need no more of the other calls.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor, calls: _Cascaded, scale: float) -> Tensor:
        forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        parts = [
            forward(*_inputs(tile, query, keys, values), 0.0, tile.causal, attn_mask=bias, scale=scale)
            for tile, bias in calls.own
        ]
        output = torch.cat([part[0].transpose(1, 2) for part in parts], dim=1)
        logsumexp = torch.cat([part[1] for part in parts], dim=2)
        if calls.shared:
            output = output.to(calls.dtype)  # results of several calls are added up in fp32
        for tile in calls.shared:
            part, part_logsumexp = forward(*_inputs(tile, query, keys, values), 0.0, False, scale=scale)
            own = slice(tile.queries.start, tile.queries.stop)
            _merge(output[:, own], logsumexp[:, :, own], part.transpose(1, 2), part_logsumexp)
        output = output.to(query.dtype)
        ctx.save_for_backward(query, keys, values, output, logsumexp)
        ctx.calls, ctx.scale = calls, scale
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, Tensor, None, None]:
        query, keys, values, output, logsumexp = ctx.saved_tensors
        calls: _Cascaded = ctx.calls
        wide = [one.to(calls.dtype) for one in (query, keys, values)]
        output, grad = (one.to(calls.dtype).transpose(1, 2) for one in (output, grads[0]))
        found = [torch.zeros_like(one) for one in wide]
        backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        for tile, bias in (*calls.own, *((tile, None) for tile in calls.shared)):
            own = slice(tile.queries.start, tile.queries.stop)
            grad_query, *grad_seen = backward(
                grad[:, :, own], *_inputs(tile, *wide), output[:, :, own], logsumexp[:, :, own],
                0.0, tile.causal, attn_mask=bias, scale=ctx.scale,
            )  # fmt: skip
            found[0][:, :, own] += grad_query
            for total, part in zip(found[1:], grad_seen, strict=True):
                place = 0
                for seen in tile.keys:
                    total[:, :, seen.start : seen.stop] += part[:, :, place : place + len(seen)]
                    place += len(seen)
        grad_query, grad_keys, grad_values = (one.to(query.dtype) for one in found)
        return grad_query, grad_keys, grad_values, None, None


def _merge(output: Tensor, logsumexp: Tensor, part: Tensor, part_logsumexp: Tensor) -> None:
    """Put the result of another call over the same queries [1, Q, H, D], with its normaliser [1, H, Q], into these."""
    total = torch.logaddexp(logsumexp, part_logsumexp)
    before, here = ((one - total).exp_().transpose(1, 2)[..., None] for one in (logsumexp, part_logsumexp))
    output.mul_(before).addcmul_(part.to(output.dtype), here)
    logsumexp.copy_(total)


def _inputs(tile: Tile, query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries [1, H, Q, D] of a call, and the keys and values [1, H_kv, K, D] that it holds."""
    seen = [[one[:, :, part.start : part.stop] for part in tile.keys] for one in (keys, values)]
    own_keys, own_values = (parts[0] if len(parts) == 1 else torch.cat(parts, dim=2) for parts in seen)
    return query[:, :, tile.queries.start : tile.queries.stop], own_keys, own_values


def _bias(tile: Tile, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "Q K"] | None:
    """A tile's mask as what is added to its scores; a boolean mask would be converted to this in every layer."""
    if tile.allowed_QK is None:
        return None
    hidden_QK = ~tile.allowed_QK.to(device)
    return torch.zeros(hidden_QK.shape, dtype=dtype, device=device).masked_fill(hidden_QK, torch.finfo(dtype).min)


def _join(row: Sequence[Tensor], pieces: Sequence[int]) -> Tensor:
    return row[pieces[0]] if len(pieces) == 1 else torch.cat([row[index] for index in pieces], dim=2)


def _attention(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **kwargs: Any) -> tuple[Tensor, None]:
    """The attention that transformers calls; `tree` travels through the model's keyword arguments."""
    del mask
    tree: TreeAttention = kwargs["tree"]
    return tree.attend(module.layer_idx, query, key, value, kwargs["scaling"]), None


register_attention(ATTENTION, _attention)


def tree_attention(model: Any) -> AbstractContextManager[None]:
    """Let the model attend over a prefix tree inside the block, where its forward takes a TreeAttention as `tree`."""
    return attention_in_force(model, ATTENTION)

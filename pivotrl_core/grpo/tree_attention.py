"""Attention over a prefix tree: each node sees its own path only, computed tile by tile (`tree_tiles.py`).

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
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from pivotrl_core.attention import attention_in_force, grouped_attention, register_attention
from pivotrl_core.grpo.tree_tiles import Tile

ATTENTION = "pivotrl_tree"

KeysValues = tuple[Tensor, Tensor]  # [1, H_kv, P, D] each


class TreeAttention:
    """The attention of one row, for all layers of a forward pass.

    Args:
        tiles: of `plan_tiles`.
        dtype: that the model computes in.
        device: of the model.
        lead: by layer, keys and values of the tokens before the row.
        kept: where each layer's own keys and values are put, for rows that this one is the lead of.
    """

    def __init__(
        self, tiles: Sequence[Tile], dtype: torch.dtype, device: torch.device,
        lead: Mapping[int, KeysValues] | None = None, kept: MutableMapping[int, KeysValues] | None = None,
    ) -> None:  # fmt: skip
        self.tiles = tiles
        self.lead = lead
        self.kept = kept
        # On a CPU the backward pass of attention takes three times as long in bf16 as in fp32 (lab log, 2026-11-30).
        self.compute_dtype = torch.float32 if device.type == "cpu" and dtype == torch.bfloat16 else dtype
        self.biases = [_bias(tile, self.compute_dtype, device) for tile in tiles]
        self.query_sizes = [len(tile.queries) for tile in tiles]
        self.by_kernel = device.type == "cpu" and self.compute_dtype == torch.float32
        # Keys are split once, wherever a range begins or ends: the gradient of a slice is as long as the whole row.
        bounds = sorted({bound for tile in tiles for part in tile.keys for bound in (part.start, part.stop)})
        self.piece_sizes = [stop - start for start, stop in pairwise(bounds)]
        place = {bound: index for index, bound in enumerate(bounds)}
        self.pieces = [
            [index for part in tile.keys for index in range(place[part.start], place[part.stop])] for tile in tiles
        ]

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
        if self.by_kernel:
            output: Tensor = _ByKernel.apply(query, keys, values, self, scale)  # type: ignore[no-untyped-call]
            return output
        queries = torch.split(query.to(self.compute_dtype), self.query_sizes, dim=2)
        key_pieces = torch.split(keys.to(self.compute_dtype), self.piece_sizes, dim=2)
        value_pieces = torch.split(values.to(self.compute_dtype), self.piece_sizes, dim=2)
        outputs = [
            grouped_attention(
                own, _join(key_pieces, pieces), _join(value_pieces, pieces), scale, bias, tile.causal
            ).transpose(1, 2)
            for tile, own, pieces, bias in zip(self.tiles, queries, self.pieces, self.biases, strict=True)
        ]
        return torch.cat(outputs, dim=1).to(query.dtype)


class _ByKernel(torch.autograd.Function):
    """The same on a CPU, by the kernels of scaled_dot_product_attention themselves.

    Autograd would keep every tile's copy of its keys and values, in fp32: most of what a row needs. Here queries, keys
    and values are kept once, as they came, and the backward pass copies them again. The forward pass stays in their
    dtype: in bf16 its kernel sums in fp32 too, and takes less than half the time.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor, tree: TreeAttention, scale: float) -> Tensor:
        forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        parts = [
            forward(*_tile_inputs(tile, query, keys, values), 0.0, tile.causal, attn_mask=bias, scale=scale)
            for tile, bias in zip(tree.tiles, tree.biases, strict=True)
        ]
        output = torch.cat([part[0].transpose(1, 2) for part in parts], dim=1)
        logsumexp = torch.cat([part[1] for part in parts], dim=2)
        ctx.save_for_backward(query, keys, values, output, logsumexp)
        ctx.tree, ctx.scale = tree, scale
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, Tensor, None, None]:
        query, keys, values, output, logsumexp = ctx.saved_tensors
        tree: TreeAttention = ctx.tree
        wide = [one.to(tree.compute_dtype) for one in (query, keys, values)]
        output, grad = (one.to(tree.compute_dtype).transpose(1, 2) for one in (output, grads[0]))
        found = [torch.empty_like(wide[0]), torch.zeros_like(wide[1]), torch.zeros_like(wide[2])]
        backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        for tile, bias in zip(tree.tiles, tree.biases, strict=True):
            own = slice(tile.queries.start, tile.queries.stop)
            grad_query, *grad_seen = backward(
                grad[:, :, own], *_tile_inputs(tile, *wide), output[:, :, own], logsumexp[:, :, own],
                0.0, tile.causal, attn_mask=bias, scale=ctx.scale,
            )  # fmt: skip
            found[0][:, :, own] = grad_query
            for total, part in zip(found[1:], grad_seen, strict=True):
                place = 0
                for seen in tile.keys:
                    total[:, :, seen.start : seen.stop] += part[:, :, place : place + len(seen)]
                    place += len(seen)
        grad_query, grad_keys, grad_values = (one.to(query.dtype) for one in found)
        return grad_query, grad_keys, grad_values, None, None


def _tile_inputs(tile: Tile, query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries [1, H, Q, D] of a tile, and the keys and values [1, H_kv, K, D] that they see."""
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

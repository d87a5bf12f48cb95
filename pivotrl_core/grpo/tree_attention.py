"""Attention over a prefix tree: each node sees its own path only, computed tile by tile (`tree_tiles.py`).

The result is that of one dense mask over the whole row, up to the order of sums, in value and gradient. For models of
transformers that call the attention interface with full causal attention and do not drop attention weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from pivotrl_core.attention import attention_in_force, register_attention
from pivotrl_core.grpo.tree_tiles import Tile

ATTENTION = "pivotrl_tree"


class TreeAttention:
    """The attention of one row, for all layers of a forward pass.

    Args:
        tiles: of `plan_tiles`.
        dtype: that the model computes in.
        device: of the model.
    """

    def __init__(self, tiles: Sequence[Tile], dtype: torch.dtype, device: torch.device) -> None:
        self.tiles = tiles
        # On a CPU the backward pass of attention takes three times as long in bf16 as in fp32 (lab log, 2026-11-30).
        self.compute_dtype = torch.float32 if device.type == "cpu" and dtype == torch.bfloat16 else dtype
        self.biases = [_bias(tile, self.compute_dtype, device) for tile in tiles]
        self.query_sizes = [len(tile.queries) for tile in tiles]
        # Keys are split once, wherever a range begins or ends: the gradient of a slice is as long as the whole row.
        bounds = sorted({bound for tile in tiles for part in tile.keys for bound in (part.start, part.stop)})
        self.piece_sizes = [stop - start for start, stop in pairwise(bounds)]
        place = {bound: index for index, bound in enumerate(bounds)}
        self.pieces = [
            [index for part in tile.keys for index in range(place[part.start], place[part.stop])] for tile in tiles
        ]

    def attend(
        self,
        query: Float[Tensor, "1 H L D"],
        keys: Float[Tensor, "1 H_kv L D"],
        values: Float[Tensor, "1 H_kv L D"],
        scale: float,
    ) -> Float[Tensor, "1 L H D"]:
        """Attention output of every node; differentiable."""
        queries = torch.split(query.to(self.compute_dtype), self.query_sizes, dim=2)
        key_pieces = torch.split(keys.to(self.compute_dtype), self.piece_sizes, dim=2)
        value_pieces = torch.split(values.to(self.compute_dtype), self.piece_sizes, dim=2)
        outputs = [
            scaled_dot_product_attention(
                own, _join(key_pieces, pieces), _join(value_pieces, pieces), attn_mask=bias, is_causal=tile.causal,
                scale=scale, enable_gqa=True,
            ).transpose(1, 2)
            for tile, own, pieces, bias in zip(self.tiles, queries, self.pieces, self.biases, strict=True)
        ]  # fmt: skip
        return torch.cat(outputs, dim=1).to(query.dtype)


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
    del module, mask
    tree: TreeAttention = kwargs["tree"]
    return tree.attend(query, key, value, kwargs["scaling"]), None


register_attention(ATTENTION, _attention)


def tree_attention(model: Any) -> AbstractContextManager[None]:
    """Let the model attend over a prefix tree inside the block, where its forward takes a TreeAttention as `tree`."""
    return attention_in_force(model, ATTENTION)

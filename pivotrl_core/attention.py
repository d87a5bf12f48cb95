"""Attention of our own inside the models of transformers: registered under a name, in force inside a block.

What it needs travels from the model's forward to every layer as a keyword argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

Attend = Callable[..., tuple[Tensor, None]]


def register_attention(name: str, attend: Attend) -> None:
    """Make `attend(module, query, key, value, mask, **kwargs)` known; its mask is None, for it knows what is hidden."""
    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, _no_mask)


def grouped_attention(
    query: Tensor, keys: Tensor, values: Tensor, scale: float, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Attention [R, H, Q, D] of queries to keys and values [R, H_kv, K, D], which serve H / H_kv heads each.

    Of the kernels that a GPU has left here (`prepare_torch`) none but the one that writes all scores to memory takes
    grouped heads with a mask or in fp32. So there each head gets keys and values of its own.
    """
    group = query.shape[1] // keys.shape[1]
    alone = mask is not None or query.dtype == torch.float32
    if alone and group > 1 and query.device.type != "cpu":
        keys, values = (one.repeat_interleave(group, dim=1) for one in (keys, values))
        group = 1
    return scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=group > 1
    )


@contextmanager
def attention_in_force(model: Any, name: str) -> Iterator[None]:
    """Let the model attend by this name inside the block, and as before after it."""
    before = model.config._attn_implementation
    if before == name:  # set by a block around this one, which other threads may be in
        yield
        return
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _no_mask(*_args: Any, **_kwargs: Any) -> None:
    """No mask is built."""

"""Attention of our own inside the models of transformers: registered under a name, in force inside a block.

What it needs travels from the model's forward to every layer as a keyword argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

Attend = Callable[..., tuple[Tensor, None]]


def register_attention(name: str, attend: Attend) -> None:
    """Make `attend(module, query, key, value, mask, **kwargs)` known; its mask is None, for it knows what is hidden."""
    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, _no_mask)


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

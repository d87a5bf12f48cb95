"""Sampling through LoRA adapters at the price of the plain model.

Two thin products beside each of hundreds of layers double the time of a decoding step on a CPU. In fp32 a sum of
weights is the same policy up to rounding, so adapters are added in while sampling lasts. In lower precision the sum
would be rounded to another policy than the one that trains: there they stay beside the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def inner_model(model: Any) -> Any:
    """The causal language model itself, with any adapters inside its layers."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


@contextmanager
def merged_adapters(model: Any) -> Iterator[None]:
    """Compute with W + s B A in place of W and an adapter, inside the block; W itself is put back, bit for bit."""
    layers = [layer for layer in model.modules() if _is_mergeable(layer)]
    before = []
    try:
        for layer in layers:
            weight = layer.base_layer.weight
            with torch.no_grad():
                merged = weight + sum(layer.get_delta_weight(name) for name in layer.active_adapters)
            before.append(weight.data)
            weight.data = merged
            layer.merged_adapters.extend(layer.active_adapters)
        yield
    finally:
        for layer, weight in zip(layers, before, strict=False):
            layer.base_layer.weight.data = weight
            layer.merged_adapters.clear()


def _is_mergeable(layer: Any) -> bool:
    if not hasattr(layer, "get_delta_weight") or layer.disable_adapters or layer.merged:
        return False
    return bool(layer.base_layer.weight.dtype == torch.float32)

"""Sampling through LoRA adapters at the price of the plain model.

Two thin products beside each of hundreds of layers double the time of a decoding step on a CPU. In fp32 a sum of
weights is the same policy up to rounding, so adapters are added in while sampling lasts. In lower precision the sum
would be rounded to another policy than the one that trains: there they stay beside the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from warnings import catch_warnings, filterwarnings

import torch

from pivotrl_core.lanes import Lanes


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
            weight = _weight(layer)
            with torch.no_grad():
                merged = weight + sum(layer.get_delta_weight(name) for name in layer.active_adapters)
            before.append(weight.data)
            weight.data = merged
            layer.merged_adapters.extend(layer.active_adapters)
        yield
    finally:
        for layer, weight in zip(layers, before, strict=False):
            _weight(layer).data = weight
            layer.merged_adapters.clear()


def _is_mergeable(layer: Any) -> bool:
    if not hasattr(layer, "get_delta_weight") or layer.disable_adapters or layer.merged:
        return False
    return bool(_weight(layer).dtype == torch.float32)


def _weight(layer: Any) -> Any:
    """What an adapter is beside: a layer's weight, or the parameter that it names (those of all experts are one)."""
    return layer.get_param() if _adapts_a_parameter(layer) else layer.base_layer.weight


def _adapts_a_parameter(layer: Any) -> bool:
    return hasattr(layer, "get_delta_weight") and hasattr(layer, "parameter_name")


@contextmanager
def no_false_alarms() -> Iterator[None]:
    """Around PEFT's making of adapters: it warns of ranks of experts' parameters as ignored, and then heeds them."""
    with catch_warnings():
        filterwarnings("ignore", "The following (rank|alpha)_pattern keys did not match", RuntimeWarning)
        yield


def lanes_for(model: Any, lanes: Lanes) -> Lanes:
    """The same parts, one at a time where the model has adapters of parameters, as those of experts are.

    PEFT adds such an adapter to the model itself at each forward pass, and takes it away again: another thread in the
    same layer would compute with what is half there.
    """
    return Lanes(lanes.parts, 1) if any(_adapts_a_parameter(layer) for layer in model.modules()) else lanes

"""Weights in the order that a CPU's kernels read them in, while a model samples.

In bf16 oneDNN reorders a weight at every product. A decoding step has products of a few rows with every weight of the
model, and there the reordering is a third of the time. Inside the block each weight is reordered once. The products are
the same to the bit, for the kernel is the same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

ROWS = 64  # of a product that the order is chosen for; others are computed in it too


@contextmanager
def packed_weights(model: Any) -> Iterator[None]:
    """Compute with reordered copies of all linear layers' weights inside the block, where no weight may change.

    Nothing is done where it does not pay (another dtype, another device), and in a block inside of such a block, which
    other threads may be in.
    """
    layers = [layer for layer in model.modules() if _is_packable(layer)]
    try:
        for layer in layers:
            packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), ROWS)
            layer.forward = partial(_multiply, packed, layer.bias)
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


def _is_packable(layer: Any) -> bool:
    if type(layer) is not torch.nn.Linear or "forward" in layer.__dict__:
        return False
    weight = layer.weight
    plain = type(weight) in (Tensor, torch.nn.Parameter) and weight.device.type == "cpu"
    return plain and weight.dtype == torch.bfloat16 and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _multiply(packed: Tensor, bias: Tensor | None, rows: Tensor) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
    return product

"""Activation checkpointing: what a layer computed is not kept for the backward pass, but computed again there.

Not transformers' own switch: that one works in training mode, where a model may drop out what it computes, and it
would compute a layer of a prefix tree again by whatever attention is in force when the gradient is asked for. Here a
layer is computed again by the attention that it was computed by. On a CPU gradients are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from pivotrl_core.attention import attention_in_force
from pivotrl_core.errors import ConfigError


def layers_of(model: Any) -> list[Any]:
    """The layers of a model that may be computed again one by one, as transformers names them."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def recompute_layers(model: Any) -> int:
    """Let each layer keep its input only, wherever a gradient will be asked for; returns how many layers do.

    Raises:
        ConfigError: transformers names no layer of this model that may be computed again.
    """
    layers = layers_of(model)
    if not layers:
        raise ConfigError(
            f"compute.activation_checkpointing: {model.config.model_type} has no layers that can be computed again; "
            "set it to false"
        )
    for layer in layers:
        layer.forward = partial(_recomputed, model, layer.forward)
    return len(layers)


def _recomputed(model: Any, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(
        forward,
        *args,
        use_reentrant=False,
        preserve_rng_state=False,  # nothing here is drawn at random
        context_fn=partial(_contexts, model, model.config._attn_implementation),
        **kwargs,
    )


def _contexts(model: Any, attention: str) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Around a layer's first computation, and around its second."""
    return nullcontext(), attention_in_force(model, attention)

"""Whether tokens that sequences share may be computed once: what branches and prefix trees need of a model.

Both lay many sequences side by side and let each token see its own path only. That is the model itself where tokens
meet in full causal attention through transformers' attention interface, at positions that are given from outside, and
nowhere else: not with sliding windows, recurrent or convolutional layers, attention sinks or soft-capped scores.

A window may be longer than anything that can be tried out, so the configuration is asked; all else is tried, on a few
tokens: those of a sequence whose beginning was computed before, against the sequence as a whole.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from pivotrl_core.engines.branches import StemPrefill, branch_attention
from pivotrl_core.errors import ConfigError
from pivotrl_core.grpo.choices import BatchLayout

log = logging.getLogger(__name__)

# What some models do to the scores of attention, and to logits, by its key in their configuration.
CHANGES_ATTENTION = ("attn_logit_softcapping",)
CHANGES_LOGITS = ("final_logit_softcapping", "logit_scale", "logits_scaling")
# Rotary embeddings that stretch with the longest sequence of a batch, short ones beside it too.
STRETCHING = ("dynamic", "longrope")
TRIED = 8  # tokens of the beginning that is tried, and of what follows it
# Relative distances between two ways to compute the same: rounding stays far below, and another computation far above.
FP32_DISTANCE, HALF_DISTANCE = 1e-3, 0.05

_obstacles: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_plain_logits: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def backbone(model: Any) -> Any:
    """A causal language model without its output head: ids in, hidden states after the final norm out."""
    return model.base_model


def head_weight(model: Any) -> Tensor:
    """The output embedding [V, D]."""
    weight: Tensor = model.get_output_embeddings().weight
    return weight


def key_shape(config: Any) -> tuple[int, int, int]:
    """Layers, heads of keys, and numbers of a key, as a model's configuration of its text part has them."""
    heads = getattr(config, "num_key_value_heads", None) or 0
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(config.num_hidden_layers), int(heads), int(dim)


def sharing_obstacle(model: Any) -> str:
    """Why shared tokens cannot be computed once, exactly; empty where they can. A model is tried once."""
    config = model.config.get_text_config()  # a model of text and images has the language model's apart
    kinds: Sequence[str] = getattr(config, "layer_types", None) or ()
    window = getattr(config, "sliding_window", None) if not kinds else None
    if window or any(kind != "full_attention" for kind in kinds):
        return f"{config.model_type} has layers other than full attention"
    changes = [name for name in CHANGES_ATTENTION if getattr(config, name, None) is not None]
    if changes:
        return f"{config.model_type} changes its scores ({', '.join(changes)})"
    if _rope_kinds(config).intersection(STRETCHING):
        return f"{config.model_type} has a rotary embedding that depends on the length of the batch"
    if model not in _obstacles:
        _obstacles[model] = _try_sharing(model)
    return _obstacles[model]


def _rope_kinds(config: Any) -> set[str]:
    """Kinds of rotary embedding; some models name one for each kind of layer."""
    settings = getattr(config, "rope_parameters", None) or {}
    each = [settings, *(one for one in settings.values() if isinstance(one, dict))]
    return {str(one["rope_type"]) for one in each if "rope_type" in one}


def choose_layout(model: Any, asked: BatchLayout) -> BatchLayout:
    """The layout of training and scoring: trees where they are exact, padded lines elsewhere, with a line in the log.

    Raises:
        ConfigError: trees are asked for where they are not exact.
    """
    if asked is BatchLayout.PADDED:
        return asked
    obstacle = sharing_obstacle(model)
    if not obstacle:
        return BatchLayout.TREE
    if asked is BatchLayout.TREE:
        raise ConfigError(f"compute.layout: a prefix tree would not be exact: {obstacle}; set it to auto or padded")
    log.warning("sequences are padded, and none shares what it computes with another (slower): %s", obstacle)
    return BatchLayout.PADDED


def check_shared(model: Any) -> None:
    """Raise ConfigError where sampling through branches would not be exact."""
    obstacle = sharing_obstacle(model)
    if obstacle:
        raise ConfigError(f"model: {obstacle}; branches are not for it, sample by `embedded_engine`")
    check_logits(model)


def check_logits(model: Any) -> None:
    """Raise ConfigError where log-probabilities from hidden states and the output head alone would not be exact."""
    obstacle = logits_obstacle(model)
    if obstacle:
        raise ConfigError(f"model: {obstacle}; take one that does not")


def logits_obstacle(model: Any) -> str:
    """Why logits are not the product of hidden states and output head; empty where they are. A model is tried once."""
    config = model.config.get_text_config()
    changes = [name for name in CHANGES_LOGITS if getattr(config, name, None) not in (None, 1.0)]
    if getattr(model.get_output_embeddings(), "bias", None) is not None:
        changes.append("a bias of the output head")
    if model not in _plain_logits:
        _plain_logits[model] = _logits_are_the_head_s(model)
    if not changes and not _plain_logits[model]:
        changes.append("something behind the output head")
    return f"{model.config.model_type} changes its scores ({', '.join(changes)})" if changes else ""


def _try_sharing(model: Any) -> str:
    name = model.config.model_type
    other = f"{name} computes something other than full causal attention through transformers' attention interface"
    ids_1T = _some_ids(model)
    with torch.no_grad():
        whole_TD = backbone(model)(input_ids=ids_1T, use_cache=False).last_hidden_state[0, TRIED:]
        try:
            stem = StemPrefill()
            with branch_attention(model):
                _follow(model, stem, ids_1T[:, :TRIED], 0)
                rest_TD = _follow(model, StemPrefill((stem.keys, stem.values)), ids_1T[:, TRIED:], TRIED)
        except (TypeError, ValueError, AttributeError, LookupError, RuntimeError) as error:
            return f"{other} ({type(error).__name__}: {error})"
    if not _near(rest_TD, whole_TD):
        return other
    layers, *size = key_shape(model.config.get_text_config())
    if len(stem.keys) != layers or any(list(one.shape[1::2]) != size for one in (*stem.keys, *stem.values)):
        return f"{name} does not have keys and values of one size in every layer"
    return ""


def _follow(model: Any, writer: StemPrefill, ids_1T: Tensor, start: int) -> Tensor:
    """Hidden states [T, D] of ids that stand at the positions from `start` on."""
    positions_1T = torch.arange(start, start + ids_1T.shape[1], device=ids_1T.device)[None]
    output = backbone(model)(input_ids=ids_1T, position_ids=positions_1T, use_cache=False, branches=writer)
    hidden_TD: Tensor = output.last_hidden_state[0]
    return hidden_TD


def _logits_are_the_head_s(model: Any) -> bool:
    ids_1T = _some_ids(model)
    with torch.no_grad():
        hidden_TD = backbone(model)(input_ids=ids_1T, use_cache=False).last_hidden_state[0]
        logits_TV = model(input_ids=ids_1T, use_cache=False).logits[0]
        head_VD = head_weight(model)
        return _near(hidden_TD.to(head_VD.dtype) @ head_VD.T, logits_TV)


def _some_ids(model: Any) -> Tensor:
    vocabulary = head_weight(model).shape[0]
    return (torch.arange(1, 2 * TRIED + 1, device=model.device) * 7919 % vocabulary)[None]


def _near(found_TD: Tensor, expected_TD: Tensor) -> bool:
    """Whether vectors are equal up to rounding, at most places: a mixture of experts may choose otherwise at a few."""
    limit = FP32_DISTANCE if expected_TD.dtype == torch.float32 else HALF_DISTANCE
    found_TD, expected_TD = found_TD.float(), expected_TD.float()
    distance_T = (found_TD - expected_TD).norm(dim=-1) / expected_TD.norm(dim=-1)
    return bool(distance_T.median() <= limit)

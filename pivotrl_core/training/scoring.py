"""Log-probabilities of a row's targets under a model: one forward pass, the output head on target positions only."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from torch import Tensor

from pivotrl_core.engines.sharing import backbone, head_weight
from pivotrl_core.grpo.layouts import Row
from pivotrl_core.grpo.logprobs import token_logprobs_and_entropy
from pivotrl_core.grpo.padded_rows import PaddedRow
from pivotrl_core.grpo.prefix_tree import TreeRow, unpack
from pivotrl_core.grpo.tree_attention import KeysValues, TreeAttention, tree_attention

Seen = Mapping[int, KeysValues]  # of what stands before a row, by layer


def row_hidden(model: Any, row: Row, lead: Seen | None = None) -> Tensor:
    """Hidden states [S, D], after the final norm, at the places that predict the row's targets."""
    if isinstance(row, PaddedRow):
        hidden_NLD: Tensor = backbone(model)(input_ids=row.input_ids_NL, use_cache=False).last_hidden_state
        # Some recurrent models keep what they add up in fp32, and round it before their head.
        return hidden_NLD.flatten(0, 1)[row.predict_from_S].to(head_weight(model).dtype)
    return forward_tree(model, row, lead)[row.predict_from_S]


def forward_tree(
    model: Any, row: TreeRow, lead: Seen | None = None, kept: MutableMapping[int, KeysValues] | None = None
) -> Tensor:
    """Hidden states [L, D] of a row's nodes, after the final norm; `kept` takes each layer's keys and values."""
    tree = TreeAttention(row.parent_L, model.dtype, row.parent_L.device, row.lead, lead, kept)
    with tree_attention(model):
        output = backbone(model)(
            input_ids=row.input_ids_L[None], position_ids=row.position_ids_L[None], tree=tree, use_cache=False
        )
    hidden_LD: Tensor = output.last_hidden_state[0]
    return hidden_LD


def score_row(model: Any, row: Row, temperature: float = 1.0, lead: Seen | None = None) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy [N, T] of every target, at the temperature of sampling."""
    hidden_SD = row_hidden(model, row, lead)
    scores = token_logprobs_and_entropy(hidden_SD, head_weight(model), row.targets_S, temperature)
    return unpack(scores.logprobs_S, row), unpack(scores.entropy_S, row)

"""Log-probabilities of a row's targets under a model: one forward pass, the output head on target positions only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pivotrl_core.engines.sharing import backbone, head_weight
from pivotrl_core.grpo.choices import BatchLayout
from pivotrl_core.grpo.layouts import Row, row_attention
from pivotrl_core.grpo.logprobs import token_logprobs_and_entropy
from pivotrl_core.grpo.padded_rows import PaddedRow
from pivotrl_core.grpo.prefix_tree import unpack
from pivotrl_core.grpo.tree_attention import TreeAttention, tree_attention
from pivotrl_core.grpo.tree_tiles import CALL_COST, GPU_CALL_COST, plan_tiles
from pivotrl_core.lanes import Lanes


def row_hidden(model: Any, row: Row) -> Tensor:
    """Hidden states [S, D], after the final norm, at the places that predict the row's targets."""
    if isinstance(row, PaddedRow):
        hidden_NLD: Tensor = backbone(model)(input_ids=row.input_ids_NL, use_cache=False).last_hidden_state
        # Some recurrent models keep what they add up in fp32, and round it before their head.
        return hidden_NLD.flatten(0, 1)[row.predict_from_S].to(head_weight(model).dtype)
    device = row.parent_L.device
    tiles = plan_tiles(row.parent_L, CALL_COST if device.type == "cpu" else GPU_CALL_COST)
    tree = TreeAttention(tiles, model.dtype, device)
    with tree_attention(model):
        output = backbone(model)(
            input_ids=row.input_ids_L[None], position_ids=row.position_ids_L[None], tree=tree, use_cache=False
        )
    hidden: Tensor = output.last_hidden_state[0][row.predict_from_S]
    return hidden


def score_row(model: Any, row: Row, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy [N, T] of every target, at the temperature of sampling."""
    scores = token_logprobs_and_entropy(row_hidden(model, row), head_weight(model), row.targets_S, temperature)
    return unpack(scores.logprobs_S, row), unpack(scores.entropy_S, row)


def logprobs_of_rows(
    model: Any, rows: Sequence[Row], temperature: float, lanes: Lanes, layout: BatchLayout
) -> list[Tensor]:
    """Log-probabilities [N, T] of the targets of each row, all of this layout, without gradient."""

    @torch.no_grad()
    def logprobs(row: Row) -> Tensor:
        return score_row(model, row, temperature)[0]

    with row_attention(model, layout):
        return list(lanes.map(logprobs, rows))

"""Log-probabilities of a row's targets under a model: one forward pass, the output head on target positions only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pivotrl_core.grpo.logprobs import token_logprobs_and_entropy
from pivotrl_core.grpo.prefix_tree import TreeRow, unpack
from pivotrl_core.grpo.tree_attention import TreeAttention, tree_attention
from pivotrl_core.grpo.tree_tiles import plan_tiles
from pivotrl_core.lanes import Lanes


def row_hidden(model: Any, row: TreeRow) -> Tensor:
    """Hidden states [S, D], after the final norm, at the nodes that predict the row's targets."""
    tree = TreeAttention(plan_tiles(row.parent_L), model.dtype, row.parent_L.device)
    with tree_attention(model):
        output = model.model(
            input_ids=row.input_ids_L[None], position_ids=row.position_ids_L[None], tree=tree, use_cache=False
        )
    hidden: Tensor = output.last_hidden_state[0][row.predict_from_S]
    return hidden


def score_row(model: Any, row: TreeRow, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy [N, T] of every target, at the temperature of sampling."""
    scores = token_logprobs_and_entropy(row_hidden(model, row), model.lm_head.weight, row.targets_S, temperature)
    return unpack(scores.logprobs_S, row), unpack(scores.entropy_S, row)


def logprobs_of_rows(model: Any, rows: Sequence[TreeRow], temperature: float, lanes: Lanes) -> list[Tensor]:
    """Log-probabilities [N, T] of the targets of each row, without gradient."""

    @torch.no_grad()
    def logprobs(row: TreeRow) -> Tensor:
        return score_row(model, row, temperature)[0]

    with tree_attention(model):
        return list(lanes.map(logprobs, rows))

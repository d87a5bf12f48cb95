"""The oracle for attention over prefix trees: transformers' own attention with one dense mask over the whole row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pivotrl_core.grpo.prefix_tree import TreeRow


def allowed_pairs(parent_L: Tensor) -> Tensor:
    """allowed[query, key] as [L, L]: the key is the query itself or one of its ancestors."""
    allowed_LL = torch.eye(len(parent_L), dtype=torch.bool)
    for node, parent in enumerate(parent_L.tolist()):
        if parent >= 0:
            allowed_LL[node] |= allowed_LL[parent]
    return allowed_LL


def dense_hidden(model: Any, row: TreeRow) -> Tensor:
    """What `row_hidden` must give."""
    allowed_LL = allowed_pairs(row.parent_L)
    bias_LL = torch.zeros(allowed_LL.shape, dtype=model.dtype).masked_fill(~allowed_LL, torch.finfo(model.dtype).min)
    assert model.config._attn_implementation == "sdpa"
    output = model.model(
        input_ids=row.input_ids_L[None], position_ids=row.position_ids_L[None], attention_mask=bias_LL[None, None],
        use_cache=False,
    )  # fmt: skip
    hidden: Tensor = output.last_hidden_state[0][row.predict_from_S]
    return hidden

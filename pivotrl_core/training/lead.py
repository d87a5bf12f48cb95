"""The lead: what all rows of a batch begin with (a system prompt, the tools), computed once for all of them.

Where a batch has more rows than lanes, each row would compute the lead again. Here it is a row of its own, whose keys
and values the others read; their gradients at these are added up, and go on through the lead once. Loss and gradient
are those of rows that hold the lead themselves, up to the order of sums, which are in fp32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pivotrl_core.grpo.prefix_tree import TargetSequence, build_tree_row
from pivotrl_core.grpo.tree_attention import KeysValues
from pivotrl_core.training.scoring import forward_tree


class Lead:
    """Keys and values of a lead, by layer, and what is collected of the gradient at them.

    Args:
        model: computes them, with the graph of their gradient where gradients are being kept.
        ids: of the lead.

    Attributes:
        seen: what rows read: by layer, keys and values that no gradient goes through.
        leaves: all of these, which rows are differentiated by besides the model's parameters.
    """

    def __init__(self, model: Any, ids: Sequence[int]) -> None:
        written: dict[int, KeysValues] = {}
        row = build_tree_row([TargetSequence((*ids, 0), (len(ids),))])  # the last one's only a target, and no input
        forward_tree(model, row.to(model.device), kept=written)
        self._written = [one for pair in written.values() for one in pair]
        self.leaves = [one.detach().requires_grad_(one.requires_grad) for one in self._written]
        self.seen = dict(zip(written, zip(self.leaves[::2], self.leaves[1::2], strict=True), strict=True))
        self._sums: list[Tensor | None] = [None] * len(self.leaves)

    def add(self, gradients: Sequence[Tensor | None]) -> None:
        """Add a row's gradients at the leaves. The order of calls decides the last bits."""
        for place, gradient in enumerate(gradients):
            if gradient is not None:
                known, grown = self._sums[place], gradient.to(torch.promote_types(gradient.dtype, torch.float32))
                self._sums[place] = grown if known is None else known.add_(grown)

    def gradients(self, parameters: Sequence[Tensor]) -> list[Tensor | None]:
        """Of the rows' losses, through the lead, at each parameter; the lead ends with it."""
        reached = [(one, total) for one, total in zip(self._written, self._sums, strict=True) if total is not None]
        outputs = [one for one, _ in reached]
        totals = [total.to(one.dtype) for one, total in reached]
        self._written, self._sums = [], []
        return list(torch.autograd.grad(outputs, parameters, totals, allow_unused=True))

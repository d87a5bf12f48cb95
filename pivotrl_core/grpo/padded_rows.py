"""Padded lines: each sequence for itself, as any causal language model takes it; for models that share no tokens.

Padding stands on the right, where no token of a causal model can see it: neither its attention, whatever its window,
nor its recurrent states. So nothing is masked, and hidden states are those of each sequence alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from pivotrl_core.grpo.prefix_tree import TargetRow, TargetSequence, check_targets, target_columns

PADDING = 0  # any id will do: what is computed at padding is never read


@dataclass(frozen=True, slots=True)
class PaddedRow(TargetRow):
    """N sequences as lines of L ids; targets are predicted from places in all lines, one line after another."""

    input_ids_NL: Int[Tensor, "N L"]

    @property
    def computed(self) -> int:
        """Tokens that a forward pass computes, padding among them."""
        return self.input_ids_NL.numel()


def build_padded_row(sequences: Sequence[TargetSequence]) -> PaddedRow:
    """Pad sequences to the longest. What follows a sequence's last place but one is no input.

    Raises:
        ValueError: no sequence, or one without a target, or a target at place 0.
    """
    check_targets(sequences)
    paths = [sequence.ids[: max(sequence.places)] for sequence in sequences]
    width = max(map(len, paths))
    input_ids_NL = torch.tensor([[*path, *[PADDING] * (width - len(path))] for path in paths])
    predict_from = [line * width + place - 1 for line, one in enumerate(sequences) for place in one.places]
    return PaddedRow(torch.tensor(predict_from), *target_columns(sequences), input_ids_NL)


def fill_padded_rows(sequences: Sequence[TargetSequence], max_tokens: int) -> list[list[int]]:
    """Indices of the sequences of each row: in order, up to `max_tokens` with padding (a longer one goes alone)."""
    rows: list[list[int]] = []
    width = 0
    for index, sequence in enumerate(sequences):
        length = max(sequence.places)
        if not rows or max(width, length) * (len(rows[-1]) + 1) > max_tokens:
            rows.append([])
            width = 0
        rows[-1].append(index)
        width = max(width, length)
    return rows

"""Batches of sequences as rows: which sequence stands in which row, and what stands before all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pivotrl_core.engines.stems import common_prefix
from pivotrl_core.grpo.choices import BatchLayout
from pivotrl_core.grpo.layouts import Row, build_row, fill_of, row_attention
from pivotrl_core.grpo.prefix_tree import TargetSequence, plan_rows
from pivotrl_core.lanes import Lanes
from pivotrl_core.training.lead import Lead
from pivotrl_core.training.scoring import score_row

LEAST_LEAD = 64  # tokens; a shorter one is not worth a pass of its own


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences in rows of one layout, on the device of a model.

    Attributes:
        rows: what is computed, and `members`, the indices of each row's sequences, in their order.
        lead: the ids before all rows, which are computed once; empty where each row holds all of its sequences.
    """

    rows: list[Row]
    members: list[list[int]]
    lead: tuple[int, ...]
    layout: BatchLayout

    def compute_lead(self, model: Any) -> Lead | None:
        """What the rows read of the lead under this model; None where there is none."""
        if not self.lead:
            return None
        with row_attention(model, self.layout):
            return Lead(model, self.lead)


def build_batch(
    sequences: Sequence[TargetSequence], row_tokens: int, parts: int, layout: BatchLayout, device: torch.device,
    *, may_lead: bool = True,
) -> Batch:  # fmt: skip
    """Rows of up to `row_tokens` tokens, in `parts` rows or more where there are sequences enough.

    There is a lead only where there are more rows than `parts`: so many are computed side by side, and would wait for
    it. It is shorter than what any sequence has before its first target.
    """
    members = plan_rows(sequences, row_tokens, parts, fill_of(layout))
    lead = 0
    if may_lead and layout is not BatchLayout.PADDED and len(members) > parts:
        lead = min(common_prefix([one.ids for one in sequences]), *(min(one.places) - 1 for one in sequences))
    if lead < LEAST_LEAD:
        lead = 0
    ids = sequences[0].ids[:lead] if lead else ()
    if lead:
        sequences = [one.behind(lead) for one in sequences]
        # What is kept of the lead for its gradient is there beside every row.
        members = plan_rows(sequences, max(row_tokens - lead, row_tokens // 2), parts)
    rows = [build_row([sequences[index] for index in row], layout, lead).to(device) for row in members]
    return Batch(rows, members, ids, layout)


def batch_logprobs(model: Any, batch: Batch, temperature: float, lanes: Lanes) -> list[Tensor]:
    """Log-probabilities [N, T] of the targets of each row, without gradient."""
    with torch.no_grad():
        lead = batch.compute_lead(model)
    with row_attention(model, batch.layout):
        return list(lanes.map(partial(_logprobs, model, temperature, lead), batch.rows))


@torch.no_grad()
def _logprobs(model: Any, temperature: float, lead: Lead | None, row: Row) -> Tensor:
    return score_row(model, row, temperature, None if lead is None else lead.seen)[0]

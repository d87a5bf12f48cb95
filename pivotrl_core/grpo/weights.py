"""Weights of sequences in the loss, computed over the whole batch of an optimiser step before it is split.

The loss of a batch is sum_n w_n sum_t m_nt l_nt, with l_nt the loss of token t of sequence n and m the mask. All
normalisations differ only in w_n. Because w_n is a function of the whole batch and is passed to every micro-batch,
the sum of the micro-batches' losses (and gradients) is the batch's, however the batch is split.

With N sequences of lengths |o_n|, in B groups, and L the largest length that sampling allows:

    grpo     w_n = 1 / (N |o_n|)                   mean over sequences of the token mean; arXiv 2402.03300, equation 3
    dr_grpo  w_n = 1 / (N L)                       a constant, no length bias; arXiv 2503.20783, section 3.2
    dapo     w_n = 1 / sum_m |o_m|                 mean over all tokens of the batch; arXiv 2503.14476, equation 8, with
                                                   the sum over the batch as in TRL's and verl's implementations
    bnpo     w_n = 1 / (B sum_{m in group} |o_m|)  mean over local batches of the token mean in each

Differs from TRL: its `bnpo` takes the micro-batch as the local batch, so that its loss depends on the split. Here the
local batch is the group of one pivot; it is TRL's number where a micro-batch is one group. It is also equation 8 of the
DAPO paper read literally, an expectation over prompts of a token mean within the group.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotrl_core.errors import TrainingError
from pivotrl_core.grpo.choices import LossNormalisation


def sequence_weights(
    lengths_N: Int[Tensor, " N"],
    group_N: Int[Tensor, " N"],
    normalisation: LossNormalisation,
    max_length: int,
    counted_N: Bool[Tensor, " N"] | None = None,
) -> Float[Tensor, " N"]:
    """The weight w_n of every sequence of one optimiser step.

    Args:
        lengths_N: trained tokens of each sequence.
        group_N: index of each sequence's pivot. Explicit: groups are never recovered by comparing prompts.
        normalisation: which of the equations above.
        max_length: L in tokens, the limit of sampling; only `dr_grpo` uses it.
        counted_N: sequences that take part; the others get weight 0 and are in no denominator. None counts all of
            them: groups of equal rewards then dilute the mean and still pull through a KL term.

    Returns:
        Weights in float64.

    Raises:
        TrainingError: no sequence counts, or none of those that count has a token.
    """
    counted = torch.ones_like(lengths_N, dtype=torch.bool) if counted_N is None else counted_N
    lengths = lengths_N.double() * counted
    sequences = int(counted.sum())
    if sequences == 0 or float(lengths.sum()) == 0.0:
        raise TrainingError("no sequence of this batch counts, so there is nothing to train on; choose other pivots")
    if normalisation == LossNormalisation.GRPO:
        weights = 1.0 / (sequences * lengths.clamp(min=1.0))
    elif normalisation == LossNormalisation.DR_GRPO:
        weights = torch.full_like(lengths, 1.0 / (sequences * max_length))
    elif normalisation == LossNormalisation.DAPO:
        weights = torch.full_like(lengths, 1.0 / float(lengths.sum()))
    else:
        weights = _group_token_weights(lengths, group_N, counted)
    return weights * counted


def _group_token_weights(
    lengths: Float[Tensor, " N"], group_N: Int[Tensor, " N"], counted: Bool[Tensor, " N"]
) -> Float[Tensor, " N"]:
    groups = len(set(group_N[counted].tolist()))
    tokens_of_group = torch.zeros(int(group_N.max()) + 1, dtype=lengths.dtype, device=lengths.device)
    tokens_of_group.index_add_(0, group_N, lengths)
    return 1.0 / (groups * tokens_of_group[group_N].clamp(min=1.0))

"""One policy update: the gradient of the loss over a batch of groups, row by row, and what is recorded of it.

A batch is laid out in rows (`batches.py`); the weights of a row's loss are fixed over the whole batch; gradients are
added in the order of their rows, which decides the last bits. Bookkeeping (rewards, advantages, weights) stays on the
CPU, each row goes to the model's device.

Shapes: B groups of G samples; N sequences of a row, padded to T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from pivotrl_core.config.arms import PolicyGradient
from pivotrl_core.grpo.choices import KLEstimator
from pivotrl_core.grpo.kl import kl_estimate, kl_term
from pivotrl_core.grpo.layouts import Row, row_attention
from pivotrl_core.grpo.loss import ClipConfig, RatioRecord, policy_loss, weighted_sum
from pivotrl_core.grpo.mismatch import MismatchRecord, measure_mismatch
from pivotrl_core.grpo.weights import sequence_weights
from pivotrl_core.training.batches import Batch, batch_logprobs, build_batch
from pivotrl_core.training.groups import Group, Member, padded_lines
from pivotrl_core.training.lead import Lead
from pivotrl_core.training.policy import TrainablePolicy


@dataclass(slots=True)
class _BatchRow:
    """One row of a batch, with log-probabilities [N, T] of the reference and of the weights that sampled, if needed."""

    members: Sequence[Member]
    targets: Row
    reference_NT: Tensor | None = None
    old_NT: Tensor | None = None


@dataclass(slots=True)
class _RowGradient:
    """What one row adds to an update."""

    gradients: list[Tensor | None]
    logprobs_NT: Tensor
    ratios: RatioRecord
    mismatch: MismatchRecord
    entropy: float
    kl: float
    tokens: float
    loss: float
    computed: int


@dataclass(slots=True)
class UpdateTotals:
    """Sums over the rows of one update."""

    ratios: RatioRecord = field(default_factory=RatioRecord)
    mismatch: MismatchRecord = field(default_factory=MismatchRecord)
    entropy: float = 0.0
    kl: float = 0.0
    tokens: float = 0.0
    loss: float = 0.0
    computed: int = 0

    def add(self, row: _RowGradient | UpdateTotals) -> None:
        """Add one row's, or another rank's; in their order, which decides the last bits."""
        self.ratios = self.ratios + row.ratios
        self.mismatch = self.mismatch + row.mismatch
        self.entropy += row.entropy
        self.kl += row.kl
        self.tokens += row.tokens
        self.loss += row.loss
        self.computed += row.computed


def has_kl_term(config: PolicyGradient) -> bool:
    """Whether the loss has a KL term. k1 has no gradient of its own as one: it acts through the advantages instead."""
    return config.kl.weight > 0 and config.kl.estimator is not KLEstimator.K1


def is_regularised(config: PolicyGradient) -> bool:
    """Whether groups of equal rewards move the policy too: by KL or entropy, which ask no reward."""
    return config.kl.weight > 0 or config.entropy_weight > 0


def has_kl_reward(config: PolicyGradient) -> bool:
    """Whether k1 is subtracted from what a sample is worth."""
    return config.kl.weight > 0 and config.kl.estimator is KLEstimator.K1


def sample_divergence(
    policy: TrainablePolicy, groups: Sequence[Group], config: PolicyGradient, row_tokens: int
) -> Tensor:
    """k1 of every sample [B, G], in nats: log pi(sample) - log pi_0(sample), summed over its tokens.

    Both are the trainer's: beside the engine's log-probabilities, rounding would pull where the policies are equal.
    """
    result_BG = torch.zeros(len(groups), len(groups[0].rewards), dtype=torch.float64)
    ones_G = torch.ones(result_BG.shape[1])
    members = [one for index in policy.ranks.share(len(groups)) for one in groups[index].members(index, ones_G)]
    batch = _batch(policy, members, row_tokens)
    with policy.reference() as reference:
        references = batch_logprobs(reference, batch, config.temperature, policy.lanes)
    with policy.gathered():
        own = batch_logprobs(policy.inner, batch, config.temperature, policy.lanes)
    for part, own_NT, reference_NT in zip(batch.members, own, references, strict=True):
        k1_N = kl_estimate(own_NT, reference_NT, KLEstimator.K1).double().sum(dim=1)
        for member, value in zip((members[place] for place in part), k1_N.tolist(), strict=True):
            for index in member.equal:
                result_BG[member.group, index] = value
    first_BG, *others = policy.ranks.gather(result_BG)  # 0 where another rank has the group
    for other_BG in others:
        first_BG = first_BG + other_BG
    return first_BG


def _batch(policy: TrainablePolicy, members: Sequence[Member], row_tokens: int) -> Batch:
    sequences = [member.sequence for member in members]
    parts = policy.lanes.parts
    return build_batch(sequences, row_tokens, parts, policy.layout, policy.device, may_lead=policy.may_lead)


def accumulate_gradient(
    policy: TrainablePolicy,
    groups: Sequence[Group],
    advantages_BG: Tensor,
    teaches_B: Tensor,
    config: PolicyGradient,
    row_tokens: int,
    old: list[Tensor],
) -> UpdateTotals:
    """Gradient of the batch's loss, row by row, with weights that are fixed over the whole batch, on all ranks.

    A rank computes its share of the groups that count, each as a whole; the sums are those of all.

    `old` keeps each row's log-probabilities at the weights that sampled: the first update of a step fills it.
    """
    size = advantages_BG.shape[1]
    lengths_N = torch.tensor([length for group in groups for length in group.lengths])
    group_N = torch.arange(len(groups)).repeat_interleave(size)
    # Without KL or entropy a group of equal rewards moves nothing: left out of the mean, it costs nothing.
    regularised = is_regularised(config)
    counted_B = torch.ones_like(teaches_B) if regularised else teaches_B
    weights_BG = sequence_weights(
        lengths_N, group_N, config.loss, config.longest, counted_B.repeat_interleave(size)
    ).view(-1, size)
    totals = UpdateTotals()
    members = [
        member
        for index in _own_groups(policy, counted_B)
        for member in groups[index].members(index, advantages_BG[index])
        if regularised or member.advantage != 0.0
    ]
    batch = _batch(policy, members, row_tokens)
    rows = _batch_rows(policy, batch, members, config, old)
    lead = batch.compute_lead(policy.inner)
    totals.computed = len(batch.lead)
    with row_attention(policy.inner, policy.layout), policy.in_step(len(rows)):
        for result in policy.lanes.map(partial(_gradient, policy, weights_BG, config, lead), rows):
            policy.add_gradients(result.gradients, lead)
            totals.add(result)
            if len(old) < len(rows):
                old.append(result.logprobs_NT)
        policy.add_lead(lead)
    first, *others = policy.ranks.gather(totals)
    for other in others:
        first.add(other)
    return first


def _batch_rows(
    policy: TrainablePolicy, batch: Batch, members: Sequence[Member], config: PolicyGradient, old: Sequence[Tensor]
) -> list[_BatchRow]:
    parts = [[members[place] for place in part] for part in batch.members]
    rows = [_BatchRow(part, row) for part, row in zip(parts, batch.rows, strict=True)]
    if has_kl_term(config):
        with policy.reference() as reference:
            references = batch_logprobs(reference, batch, config.temperature, policy.lanes)
        for row, reference_NT in zip(rows, references, strict=True):
            row.reference_NT = reference_NT
    for row, old_NT in zip(rows, old, strict=False):
        row.old_NT = old_NT
    return rows


def _own_groups(policy: TrainablePolicy, counted_B: Tensor) -> list[int]:
    """Which of the groups that count are this rank's."""
    counted: list[int] = counted_B.nonzero().flatten().tolist()
    return [counted[place] for place in policy.ranks.share(len(counted))]


def _gradient(
    policy: TrainablePolicy, weights_BG: Tensor, config: PolicyGradient, lead: Lead | None, row: _BatchRow
) -> _RowGradient:
    """One row's gradient, and what is recorded of it."""
    device = policy.device
    mask_NT = row.targets.mask_NT
    multiplicity_N = torch.tensor([member.multiplicity for member in row.members], device=device)
    advantages_N = torch.tensor([member.advantage for member in row.members], device=device)
    weights_N = torch.stack([weights_BG[member.group, member.first] for member in row.members]).to(device)
    logprobs_NT, entropy_NT = policy.score(row.targets, config.temperature, lead)
    sampled_NT = padded_lines([member.logprobs for member in row.members], mask_NT)
    unsampled_N = torch.tensor([not member.logprobs for member in row.members], device=device)
    before_NT = (logprobs_NT if row.old_NT is None else row.old_NT).detach()
    result = policy_loss(
        logprobs_NT, advantages_N, mask_NT, weights_N,
        ClipConfig(config.clip.low, config.clip.high, config.ratio, config.truncation_cap, config.truncation),
        sampled_logprobs_NT=torch.where(unsampled_N[:, None], before_NT, sampled_NT),
        old_logprobs_NT=row.old_NT if config.truncation_cap is not None else None, multiplicity_N=multiplicity_N,
    )  # fmt: skip
    loss, kl = result.loss, 0.0
    if config.entropy_weight > 0:
        loss = loss - config.entropy_weight * weighted_sum(entropy_NT, mask_NT, weights_N * multiplicity_N)
    if row.reference_NT is not None:
        term = kl_term(logprobs_NT, row.reference_NT, mask_NT, weights_N * multiplicity_N, config.kl.estimator)
        loss = loss + config.kl.weight * term
        kl_NT = kl_estimate(logprobs_NT.detach(), row.reference_NT, config.kl.estimator)
        kl = float(weighted_sum(kl_NT, mask_NT, multiplicity_N))
    return _RowGradient(
        gradients=policy.gradients(loss, lead),
        logprobs_NT=logprobs_NT.detach(),
        ratios=result.ratios,
        mismatch=measure_mismatch(before_NT, sampled_NT, mask_NT & ~unsampled_N[:, None], multiplicity_N),
        entropy=float(weighted_sum(entropy_NT.detach(), mask_NT, multiplicity_N)),
        kl=kl,
        tokens=float((mask_NT.sum(dim=1) * multiplicity_N).sum()),
        loss=float(loss.detach()),
        computed=row.targets.computed,
    )

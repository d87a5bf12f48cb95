"""GRPO: the loop. Sample G actions at each of B pivots, verify, normalise in the group, one clipped step.

Groups of whole episodes (the end-to-end baseline) go through the same loop. The mathematics is in `grpo/`; this file
decides which samples train, in which rows, and what is recorded. Source: PivotRL, arXiv 2603.21383.

Invariants: samples derive from (seed, step, place in the batch, index), so a resumed run draws what the uninterrupted
one would; groups are known by their place in the batch, never by comparing prompts; ids that were sampled are the ids
trained on.
Bookkeeping (rewards, advantages, weights) stays on the CPU; each row goes to the model's device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from pivotrl_core.config.arms import PolicyGradient
from pivotrl_core.engines.protocol import TokenCount
from pivotrl_core.errors import TrainingError
from pivotrl_core.grpo.advantages import group_advantages, zero_variance_B
from pivotrl_core.grpo.choices import AdvantageNormalisation, KLEstimator
from pivotrl_core.grpo.kl import kl_estimate, kl_term
from pivotrl_core.grpo.layouts import Row, row_attention
from pivotrl_core.grpo.loss import ClipConfig, RatioRecord, policy_loss, weighted_sum
from pivotrl_core.grpo.metrics import group_metrics, ratio_metrics, token_metrics
from pivotrl_core.grpo.mismatch import MismatchRecord, check_mismatch, measure_mismatch, mismatch_metrics
from pivotrl_core.grpo.weights import sequence_weights
from pivotrl_core.training.batches import Batch, batch_logprobs, build_batch
from pivotrl_core.training.checkpoint import Checkpoints, Progress
from pivotrl_core.training.groups import Group, Member, padded_lines
from pivotrl_core.training.lead import Lead
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.rounds import Rounds
from pivotrl_core.verifiers.rewards import DEFAULT_RULE, RewardRule

IDLE_LIMIT = 10  # steps in a row without one group that teaches anything


class GroupSource(Protocol):
    """Where groups come from: pivots of a pool, or episodes of tasks."""

    def groups(self, step: int) -> Sequence[Group]:
        """The groups of one step, sampled from the policy as it is now. Steps are asked for in their order."""
        ...

    def state(self) -> dict[str, Any]:
        """What has been given so far, as far as it decides what comes next; plain JSON."""
        ...

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from such a state; an empty one is the beginning."""
        ...

    @property
    def count(self) -> TokenCount:
        """Tokens sampled so far by this object."""
        ...

    @property
    def rule(self) -> RewardRule:
        """What full reward is, and what is none."""
        ...


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
class _Totals:
    """Sums over the rows of one update."""

    ratios: RatioRecord = field(default_factory=RatioRecord)
    mismatch: MismatchRecord = field(default_factory=MismatchRecord)
    entropy: float = 0.0
    kl: float = 0.0
    tokens: float = 0.0
    loss: float = 0.0
    computed: int = 0

    def add(self, row: _RowGradient | _Totals) -> None:
        """Add one row's, or another rank's; in their order, which decides the last bits."""
        self.ratios = self.ratios + row.ratios
        self.mismatch = self.mismatch + row.mismatch
        self.entropy += row.entropy
        self.kl += row.kl
        self.tokens += row.tokens
        self.loss += row.loss
        self.computed += row.computed


def train_policy_gradient(
    policy: TrainablePolicy,
    optimiser: Optimiser,
    source: GroupSource,
    config: PolicyGradient,
    row_tokens: int,
    checkpoints: Checkpoints,
    on_step: Callable[[Progress, dict[str, float]], None],
    rounds: Rounds | None = None,
) -> Progress:
    """Train to `config.steps`, from the newest checkpoint on; shorter where nothing more would change the policy.

    With `rounds`, the policy profiles again where training saturates. A checkpoint is taken before that, as it is long.

    Raises:
        TrainingError: the pool never taught this policy anything, a number is not finite, or what samples is not the
            policy that trains.
    """
    progress = checkpoints.restore(optimiser, rounds.check if rounds is not None else None)
    if rounds is not None:
        rounds.resume(progress)
    source.resume(progress.source)
    while progress.step < config.steps and (rounds is None or rounds.go_on(progress)):
        before = replace(source.count)
        groups = source.groups(progress.step)
        metrics = train_step(policy, optimiser, groups, config, row_tokens, progress, source.rule)
        progress.add_cost(source.count.since(before))
        on_step(progress, metrics if rounds is None else metrics | rounds.metrics(progress))
        progress.source = source.state()
        progress.step += 1
        saturated = rounds is not None and rounds.due(progress) is not None
        idle = progress.counters.get("idle_steps", 0) >= IDLE_LIMIT
        if idle and not saturated and not _is_regularised(config):
            break  # the policy has mastered this pool: what it learned stands, and more steps would change nothing
        if (saturated or checkpoints.due(progress.step, config.checkpoint_every)) and progress.step < config.steps:
            checkpoints.save(optimiser, progress)
    return progress


def train_step(
    policy: TrainablePolicy,
    optimiser: Optimiser,
    groups: Sequence[Group],
    config: PolicyGradient,
    row_tokens: int,
    progress: Progress,
    rule: RewardRule = DEFAULT_RULE,
) -> dict[str, float]:
    """One batch of groups: advantages, `updates_per_step` clipped updates, metrics."""
    rewards_BG = torch.tensor([group.rewards for group in groups], dtype=torch.float64)
    advantages_BG = group_advantages(rewards_BG, config.advantage, config.baseline)
    lengths_BG = torch.tensor([group.lengths for group in groups])
    k1_BG = _divergence(policy, groups, config, row_tokens) if _has_kl_reward(config) else None
    if k1_BG is not None:
        # Not divided by a deviation: near the reference it would be that of rounding, and the noise would count as 1.
        pull_BG = group_advantages(-config.kl.weight * k1_BG, AdvantageNormalisation.NONE, config.baseline)
        advantages_BG = advantages_BG + pull_BG
    own_BG = rewards_BG.clone()
    replayed_B = torch.tensor([group.replayed for group in groups])
    demonstrated_B = torch.tensor([group.demonstrated for group in groups])
    own_BG[replayed_B | demonstrated_B, -1] = rule.failure  # only a group without any reward is given one
    given = {"replayed": int(replayed_B.sum()), "demonstrated": int(demonstrated_B.sum())}
    metrics = group_metrics(own_BG, advantages_BG, lengths_BG, **given, full_reward=rule.success)
    teaches_B = ~zero_variance_B(rewards_BG)
    if bool(teaches_B.any()):
        progress.counters["idle_steps"] = 0
        progress.counters["taught_steps"] = progress.counters.get("taught_steps", 0) + 1
    else:
        _note_idle(progress)
        if not _is_regularised(config):
            return metrics
    totals = _Totals()
    computed = 0
    old: list[Tensor] = []
    for update in range(config.updates_per_step):
        # One update on fresh samples: the ratio is 1 by construction, up to the engine's rounding.
        totals = _accumulate(policy, groups, advantages_BG, teaches_B, config, row_tokens, old)
        check_mismatch(totals.mismatch, config.mismatch_limit)
        computed += totals.computed
        norm = optimiser.update(progress.step * config.updates_per_step + update)
        metrics["train/grad_norm"] = norm
    metrics |= ratio_metrics(totals.ratios) | mismatch_metrics(totals.mismatch)
    metrics |= token_metrics(totals.entropy, totals.kl if _has_kl_term(config) else None, totals.tokens)
    if k1_BG is not None:
        metrics["train/kl"] = float(k1_BG.sum() / lengths_BG.sum())
    metrics["train/loss"] = totals.loss
    progress.counters["trained_tokens"] = progress.counters.get("trained_tokens", 0) + computed
    return metrics


def _has_kl_term(config: PolicyGradient) -> bool:
    """Whether the loss has a KL term. k1 has no gradient of its own as one: it acts through the advantages instead."""
    return config.kl.weight > 0 and config.kl.estimator is not KLEstimator.K1


def _is_regularised(config: PolicyGradient) -> bool:
    """Whether groups of equal rewards move the policy too: by KL or entropy, which ask no reward."""
    return config.kl.weight > 0 or config.entropy_weight > 0


def _has_kl_reward(config: PolicyGradient) -> bool:
    """Whether k1 is subtracted from what a sample is worth."""
    return config.kl.weight > 0 and config.kl.estimator is KLEstimator.K1


def _divergence(policy: TrainablePolicy, groups: Sequence[Group], config: PolicyGradient, row_tokens: int) -> Tensor:
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


def _note_idle(progress: Progress) -> None:
    idle = progress.counters.get("idle_steps", 0) + 1
    progress.counters["idle_steps"] = idle
    if idle >= IDLE_LIMIT and not progress.counters.get("taught_steps"):
        raise TrainingError(
            f"the first {idle:.0f} steps had no group with unequal rewards: this pool teaches the policy nothing; "
            "profile again with the policy that training starts from, or widen the selection"
        )


def _accumulate(
    policy: TrainablePolicy,
    groups: Sequence[Group],
    advantages_BG: Tensor,
    teaches_B: Tensor,
    config: PolicyGradient,
    row_tokens: int,
    old: list[Tensor],
) -> _Totals:
    """Gradient of the batch's loss, row by row, with weights that are fixed over the whole batch, on all ranks.

    A rank computes its share of the groups that count, each as a whole; the sums are those of all.

    `old` keeps each row's log-probabilities at the weights that sampled: the first update of a step fills it.
    """
    size = advantages_BG.shape[1]
    lengths_N = torch.tensor([length for group in groups for length in group.lengths])
    group_N = torch.arange(len(groups)).repeat_interleave(size)
    # Without KL or entropy a group of equal rewards moves nothing: left out of the mean, it costs nothing.
    regularised = _is_regularised(config)
    counted_B = torch.ones_like(teaches_B) if regularised else teaches_B
    weights_BG = sequence_weights(
        lengths_N, group_N, config.loss, config.longest, counted_B.repeat_interleave(size)
    ).view(-1, size)
    totals = _Totals()
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
    if _has_kl_term(config):
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
    many_N = torch.tensor([member.multiplicity for member in row.members], device=device)
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
        old_logprobs_NT=row.old_NT if config.truncation_cap is not None else None, multiplicity_N=many_N,
    )  # fmt: skip
    loss, kl = result.loss, 0.0
    if config.entropy_weight > 0:
        loss = loss - config.entropy_weight * weighted_sum(entropy_NT, mask_NT, weights_N * many_N)
    if row.reference_NT is not None:
        term = kl_term(logprobs_NT, row.reference_NT, mask_NT, weights_N * many_N, config.kl.estimator)
        loss = loss + config.kl.weight * term
        kl_NT = kl_estimate(logprobs_NT.detach(), row.reference_NT, config.kl.estimator)
        kl = float(weighted_sum(kl_NT, mask_NT, many_N))
    return _RowGradient(
        gradients=policy.gradients(loss, lead),
        logprobs_NT=logprobs_NT.detach(),
        ratios=result.ratios,
        mismatch=measure_mismatch(before_NT, sampled_NT, mask_NT & ~unsampled_N[:, None], many_N),
        entropy=float(weighted_sum(entropy_NT.detach(), mask_NT, many_N)),
        kl=kl,
        tokens=float((mask_NT.sum(dim=1) * many_N).sum()),
        loss=float(loss.detach()),
        computed=row.targets.computed,
    )

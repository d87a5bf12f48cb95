"""GRPO: the loop. Sample G actions at each of B pivots, verify, normalise in the group, one clipped step.

Groups of whole episodes (the end-to-end baseline) go through the same loop. The mathematics is in `grpo/`, the gradient
of one update in `policy_update.py`; this file decides when there is one. Source: PivotRL, arXiv 2603.21383.

Invariants: samples derive from (seed, step, place in the batch, index), so a resumed run draws what the uninterrupted
one would; groups are known by their place in the batch, never by comparing prompts; ids that were sampled are the ids
trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from pivotrl_core.config.arms import PolicyGradient
from pivotrl_core.engines.protocol import TokenCount
from pivotrl_core.errors import TrainingError
from pivotrl_core.grpo.advantages import group_advantages, zero_variance_B
from pivotrl_core.grpo.choices import AdvantageNormalisation
from pivotrl_core.grpo.metrics import group_metrics, ratio_metrics, token_metrics
from pivotrl_core.grpo.mismatch import check_mismatch, mismatch_metrics
from pivotrl_core.training.checkpoint import Checkpoints, Progress
from pivotrl_core.training.groups import Group
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.policy_update import (
    UpdateTotals,
    accumulate_gradient,
    has_kl_reward,
    has_kl_term,
    is_regularised,
    sample_divergence,
)
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
    def resting(self) -> int:
        """How many pivots sit out because they are mastered."""
        ...

    @property
    def count(self) -> TokenCount:
        """Tokens sampled so far by this object."""
        ...

    @property
    def rule(self) -> RewardRule:
        """What full reward is, and what is none."""
        ...


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

    `Progress.ended` says why it was.

    With `rounds`, the policy profiles again where training saturates. A checkpoint is taken before that, as it is long.

    Raises:
        TrainingError: the pool never taught this policy anything, it came to fail everywhere, a number is not finite,
            or what samples is not the policy that trains.
    """
    progress = checkpoints.restore(optimiser, rounds.check if rounds is not None else None)
    if rounds is not None:
        rounds.resume(progress)
    source.resume(progress.source)
    while progress.step < config.steps:
        if rounds is not None and not rounds.go_on(progress):
            progress.ended = "profiling again left no pivot"
            break
        before = replace(source.count)
        groups = source.groups(progress.step)
        metrics = train_step(policy, optimiser, groups, config.at(progress.step), row_tokens, progress, source.rule)
        progress.add_cost(source.count.since(before))
        metrics |= {"train/temperature": config.at(progress.step).temperature} if config.temperatures else {}
        on_step(progress, metrics if rounds is None else metrics | rounds.metrics(progress))
        progress.source = source.state()
        progress.step += 1
        saturated = rounds is not None and rounds.due(progress) is not None
        idle = progress.counters.get("idle_steps", 0) >= IDLE_LIMIT
        if idle and not saturated and not is_regularised(config):
            progress.ended = _idle_reason(progress, source)  # what it learned stands; more steps would change nothing
            break
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
    k1_BG = sample_divergence(policy, groups, config, row_tokens) if has_kl_reward(config) else None
    if k1_BG is not None:
        # Not divided by a deviation: near the reference it would be that of rounding, and the noise would count as 1.
        pull_BG = group_advantages(-config.kl.weight * k1_BG, AdvantageNormalisation.NONE, config.baseline)
        advantages_BG = advantages_BG + pull_BG
    metrics = _metrics_of_samples(groups, rewards_BG, advantages_BG, rule)
    teaches_B = ~zero_variance_B(rewards_BG)
    _note_teaching(progress, bool(teaches_B.any()))
    if not teaches_B.any() and not is_regularised(config):
        return metrics
    totals, computed = UpdateTotals(), 0
    old: list[Tensor] = []  # each row's log-probabilities [N, T] at the weights that sampled, from the first update on
    for update in range(config.updates_per_step):
        # One update on fresh samples: the ratio is 1 by construction, up to the engine's rounding.
        totals = accumulate_gradient(policy, groups, advantages_BG, teaches_B, config, row_tokens, old)
        check_mismatch(totals.mismatch, config.mismatch_limit)
        computed += totals.computed
        metrics["train/grad_norm"] = optimiser.update(progress.step * config.updates_per_step + update)
    metrics |= ratio_metrics(totals.ratios) | mismatch_metrics(totals.mismatch)
    metrics |= token_metrics(totals.entropy, totals.kl if has_kl_term(config) else None, totals.tokens)
    if k1_BG is not None:
        metrics["train/kl"] = float(k1_BG.sum()) / sum(sum(group.lengths) for group in groups)
    metrics["train/loss"] = totals.loss
    progress.counters["trained_tokens"] = progress.counters.get("trained_tokens", 0) + computed
    return metrics


def _idle_reason(progress: Progress, source: GroupSource) -> str:
    """Why an idle training is over. Raises TrainingError where the policy fails everywhere: it has mastered nothing."""
    last = progress.lines[-IDLE_LIMIT:]
    if not source.resting and all(line["metrics"]["train/reward_mean"] <= source.rule.failure for line in last):
        raise TrainingError(
            f"step {progress.step}: no sample of the last {len(last)} steps had a reward, and earlier ones had: the "
            "policy has collapsed; lower the learning rate, or give the KL term a weight"
        )
    return f"no group of the last {len(last)} steps had unequal rewards"


def _metrics_of_samples(
    groups: Sequence[Group], rewards_BG: Tensor, advantages_BG: Tensor, rule: RewardRule
) -> dict[str, float]:
    """What the policy earned by itself: a sample that was given to a group counts as the one that it replaced."""
    replayed_B = torch.tensor([group.replayed for group in groups])
    demonstrated_B = torch.tensor([group.demonstrated for group in groups])
    own_BG = rewards_BG.clone()
    for index, group in enumerate(groups):
        if group.replaced is not None:
            own_BG[index, -1] = group.replaced
    return group_metrics(
        own_BG, advantages_BG, torch.tensor([group.lengths for group in groups]),
        replayed=int(replayed_B.sum()), demonstrated=int(demonstrated_B.sum()), full_reward=rule.success,
    )  # fmt: skip


def _note_teaching(progress: Progress, teaches: bool) -> None:
    """Count steps that teach, and those in a row that do not. Raises TrainingError where none ever did."""
    if teaches:
        progress.counters["idle_steps"] = 0
        progress.counters["taught_steps"] = progress.counters.get("taught_steps", 0) + 1
        return
    idle = progress.counters.get("idle_steps", 0) + 1
    progress.counters["idle_steps"] = idle
    if idle >= IDLE_LIMIT and not progress.counters.get("taught_steps"):
        raise TrainingError(
            f"the first {idle:.0f} steps had no group with unequal rewards: this pool teaches the policy nothing; "
            "profile again with the policy that training starts from, or widen the selection"
        )

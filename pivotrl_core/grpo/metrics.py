"""Names and formulas of the `train/*` metrics of one optimiser step.

`METRICS` is the list that documentation and figures are made from. A batch has B groups of G rewards r_bg, advantages
A_bg and action lengths; shares are in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from pivotrl_core.grpo.advantages import zero_variance_B
from pivotrl_core.grpo.loss import RatioRecord


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric: its formula, and the range in which nothing is wrong."""

    name: str
    formula: str
    healthy: str


METRICS = (
    MetricDefinition("train/reward_mean", "mean of r_bg", "rises, then flattens"),
    MetricDefinition("train/group_reward_std", "mean over groups of the population std of r_b", "above 0.1"),
    MetricDefinition("train/zero_variance_share", "share of groups with max r_b = min r_b", "below 0.8"),
    MetricDefinition(
        "train/replayed_share", "share of groups without a reward that got a success of the profile", "falls"
    ),
    MetricDefinition("train/mixed_share", "share of groups with a success and a failure", "above 0.2"),
    MetricDefinition("train/advantage_abs_mean", "mean of |A_bg|", "0.2 to 1 with group std"),
    MetricDefinition("train/action_length_mean", "mean tokens per action", "no steady growth"),
    MetricDefinition("train/ratio_mean", "mean importance ratio over trained tokens", "0.98 to 1.02"),
    MetricDefinition("train/ratio_max", "largest importance ratio", "below 10"),
    MetricDefinition("train/clip_low_share", "share of tokens with A < 0 and ratio < 1 - clip_low", "below 0.2"),
    MetricDefinition("train/clip_high_share", "share of tokens with A > 0 and ratio > 1 + clip_high", "below 0.2"),
    MetricDefinition("train/capped_share", "share of tokens whose engine weight met its cap", "below 0.01"),
    MetricDefinition("train/mismatch_abs_mean", "mean |d| over sampled tokens, nats: see `mismatch.py`", "below 0.05"),
    MetricDefinition("train/mismatch_abs_max", "largest |d|, nats", "below 1"),
    MetricDefinition("train/mismatch_ratio_mean", "mean exp(d) over sampled tokens", "0.98 to 1.02"),
    MetricDefinition("train/mismatch_kl", "mean of exp(d) - 1 - d over sampled tokens, nats", "below 0.01"),
    MetricDefinition("train/kept_share", "1 - clip_low_share - clip_high_share", "above 0.8"),
    MetricDefinition("train/entropy", "mean over trained tokens of the policy's entropy, nats", "no collapse to 0"),
    MetricDefinition("train/kl", "mean over trained tokens of the KL estimate to the reference, nats", "below 0.5"),
)


def group_metrics(
    rewards_BG: Float[Tensor, "B G"],
    advantages_BG: Float[Tensor, "B G"],
    lengths_BG: Int[Tensor, "B G"],
    success_threshold: float = 1.0,
    replayed: int = 0,
) -> dict[str, float]:
    """What the samples of a step say, before any update.

    Args:
        rewards_BG: raw rewards of what the policy sampled.
        advantages_BG: as they enter the loss.
        lengths_BG: tokens per action.
        success_threshold: reward from which an action counts as a success.
        replayed: groups that got a success of the profile.
    """
    success_BG = rewards_BG >= success_threshold
    mixed_B = success_BG.any(dim=1) & ~success_BG.all(dim=1)
    return {
        "train/reward_mean": rewards_BG.mean().item(),
        "train/group_reward_std": rewards_BG.std(dim=1, correction=0).mean().item(),
        "train/zero_variance_share": zero_variance_B(rewards_BG).double().mean().item(),
        "train/replayed_share": replayed / len(rewards_BG),
        "train/mixed_share": mixed_B.double().mean().item(),
        "train/advantage_abs_mean": advantages_BG.abs().mean().item(),
        "train/action_length_mean": lengths_BG.double().mean().item(),
    }


def ratio_metrics(ratios: RatioRecord) -> dict[str, float]:
    """What the clip did, from the sum of the micro-batches' records."""
    return {
        "train/ratio_mean": ratios.ratio_mean,
        "train/ratio_max": ratios.ratio_max,
        "train/clip_low_share": ratios.share(ratios.clipped_low),
        "train/clip_high_share": ratios.share(ratios.clipped_high),
        "train/capped_share": ratios.share(ratios.capped),
        "train/kept_share": ratios.kept_share,
    }


def token_metrics(entropy_sum: float, kl_sum: float, tokens: float) -> dict[str, float]:
    """Means over trained tokens, from sums collected over micro-batches.

    Args:
        entropy_sum: sum of entropies in nats.
        kl_sum: sum of KL estimates in nats; 0 where no reference is asked.
        tokens: number of trained tokens, above 0.
    """
    return {"train/entropy": entropy_sum / tokens, "train/kl": kl_sum / tokens}

"""The `train/*` metrics of one optimiser step; what each means is in docs/metrics.md.

A batch has B groups of G rewards r_bg, advantages A_bg and action lengths; shares are in [0, 1].
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from pivotrl_core.grpo.advantages import zero_variance_B
from pivotrl_core.grpo.loss import RatioRecord


def group_metrics(
    rewards_BG: Float[Tensor, "B G"],
    advantages_BG: Float[Tensor, "B G"],
    lengths_BG: Int[Tensor, "B G"],
    replayed: int = 0,
    demonstrated: int = 0,
    full_reward: float = 1.0,
) -> dict[str, float]:
    """What the samples of a step say, before any update.

    Args:
        rewards_BG: raw rewards of what the policy sampled.
        advantages_BG: as they enter the loss.
        lengths_BG: tokens per action.
        replayed: groups that got a success of the profile.
        demonstrated: groups that got the expert's action.
        full_reward: of an action that is as good as the expert's.
    """
    success_BG = rewards_BG >= full_reward
    mixed_B = success_BG.any(dim=1) & ~success_BG.all(dim=1)
    return {
        "train/reward_mean": rewards_BG.mean().item(),
        "train/group_reward_std": rewards_BG.std(dim=1, correction=0).mean().item(),
        "train/zero_variance_share": zero_variance_B(rewards_BG).double().mean().item(),
        "train/replayed_share": replayed / len(rewards_BG),
        "train/demonstrated_share": demonstrated / len(rewards_BG),
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


def token_metrics(entropy_sum: float, kl_sum: float | None, tokens: float) -> dict[str, float]:
    """Means over trained tokens, from sums collected over micro-batches.

    Args:
        entropy_sum: sum of entropies in nats.
        kl_sum: sum of KL estimates in nats; None where no reference is asked, and nothing is told.
        tokens: number of trained tokens, above 0.
    """
    return {"train/entropy": entropy_sum / tokens} | ({} if kl_sum is None else {"train/kl": kl_sum / tokens})

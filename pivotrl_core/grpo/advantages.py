"""Advantages of a group of G actions sampled at one pivot, from their rewards alone.

Source: DeepSeekMath, arXiv 2402.03300, section 4.1 (group-normalised rewards); leave-one-out baseline: arXiv
2402.14740; without the standard deviation: arXiv 2503.20783 (Dr. GRPO). Proposition 3.1 of PivotRL (arXiv
2603.21383) is an invariant here: a group of equal rewards gets advantages of exactly 0, decided on the raw rewards, so
that a constant such as 0.1, whose mean is not 0.1 to the bit, gets no noise divided by eps.

Invariants: advantages of a group sum to zero (both baselines); with the standard deviation |A| <= sqrt(G - 1) for the
mean baseline and <= G / sqrt(G - 1) for leave-one-out.

Differs from common implementations:
1. The standard deviation is the population's (divide by G), as in the paper's sigma^2. TRL divides by G - 1, which
   makes its advantages smaller by sqrt((G - 1) / G).
2. Leave-one-out uses the standard deviation of the whole group, not that of the other rewards: the latter is 0 for the
   only success of a group, whose advantage would be 1 / eps.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotrl_core.errors import TrainingError
from pivotrl_core.grpo.choices import AdvantageNormalisation, Baseline


def zero_variance_B(rewards_BG: Float[Tensor, "B G"]) -> Bool[Tensor, " B"]:
    """Groups whose raw rewards are all equal: they carry no signal, whatever the common value is."""
    return rewards_BG.amax(dim=1) == rewards_BG.amin(dim=1)


def group_advantages(
    rewards_BG: Float[Tensor, "B G"],
    normalisation: AdvantageNormalisation = AdvantageNormalisation.GROUP_STD,
    baseline: Baseline = Baseline.MEAN,
    eps: float = 1e-6,
) -> Float[Tensor, "B G"]:
    """A = (r - baseline) / (sigma + eps), or A = r - baseline without normalisation.

    Args:
        rewards_BG: rewards of G actions at each of B pivots, finite.
        normalisation: divide by the group's population standard deviation sigma, or not.
        baseline: mean of the group, or mean of the other G - 1 rewards: r - (S - r) / (G - 1) = (r - mean) G / (G - 1).
        eps: added to sigma, in units of reward.

    Returns:
        Advantages in the dtype of the rewards; exactly 0 in groups of equal rewards.

    Raises:
        TrainingError: a reward is NaN or infinite; it is never turned into a number.
        ValueError: leave-one-out with a group of one.
    """
    bad_B = ~torch.isfinite(rewards_BG).all(dim=1)
    if bool(bad_B.any()):
        rows = bad_B.nonzero().flatten().tolist()
        raise TrainingError(f"rewards of groups {rows} are not finite; look at the verdicts of these groups")
    size = rewards_BG.shape[1]
    centred_BG = rewards_BG - rewards_BG.mean(dim=1, keepdim=True)
    if normalisation == AdvantageNormalisation.GROUP_STD:
        scale_B1 = centred_BG.square().mean(dim=1, keepdim=True).sqrt() + eps
    else:
        scale_B1 = torch.ones_like(centred_BG[:, :1])
    if baseline == Baseline.LEAVE_ONE_OUT:
        if size < 2:
            raise ValueError("the leave-one-out baseline needs groups of at least 2 actions")
        centred_BG = centred_BG * (size / (size - 1))
    # Not a product with 0: torch.where also removes the rounding left over by a mean of equal fractions.
    return torch.where(zero_variance_B(rewards_BG)[:, None], torch.zeros_like(centred_BG), centred_BG / scale_B1)

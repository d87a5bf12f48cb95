"""The clipped policy-gradient objective of GRPO, as a loss to minimise.

Source: DeepSeekMath, arXiv 2402.03300, equation 3 (token ratio, clip); separate upper clip: DAPO, arXiv 2503.14476;
one ratio per sequence: GSPO, arXiv 2507.18071, equation 7; truncated importance weight for the mismatch between the
sampling engine and the trainer: as in NeMo-RL and TRL; PivotRL's public recipe caps it at 5.

With rho_nt = exp(logprob_nt - old_nt), or rho_n = exp(mean_t of the same) at sequence level:

    l_nt = -min(rho A_n, clip(rho, 1 - clip_low, 1 + clip_high) A_n) * c_nt
    loss = sum_n w_n sum_t m_nt l_nt

w_n comes from `weights.py` and is fixed before the batch is split; c_nt is 1 unless a truncation cap is set. Then,
with d_nt = old_nt - sampled_nt, it is min(exp(d_nt), cap) for each token, or min(exp(sum_t d_nt), cap) for a sequence.

Invariants: the losses of micro-batches add up to the batch's; zero advantages give a gradient of exactly zero; masked
positions may hold anything, NaN included; a NaN at a trained position comes out as NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotrl_core.grpo.choices import RatioLevel

LARGEST_LOG_RATIO = 20.0
"""Far above any clip. exp of what is much larger is infinite, and its gradient no number: so the ratio is bounded, and
its gradient too, but is not cut off as by a clamp."""


@dataclass(frozen=True, slots=True)
class ClipConfig:
    """Bounds of the ratio; the cap of the engine-mismatch weight (None: no such weight), of each token or sequence."""

    clip_low: float = 0.2
    clip_high: float = 0.2
    level: RatioLevel = RatioLevel.TOKEN
    truncation_cap: float | None = None
    truncation_level: RatioLevel = RatioLevel.TOKEN


@dataclass(frozen=True, slots=True)
class RatioRecord:
    """Sums over trained tokens, so that the records of micro-batches add up to the batch's (`+`).

    `clipped_low` counts tokens with A < 0 and a ratio below the lower bound, `clipped_high` those with A > 0 and a
    ratio above the upper one: exactly the tokens whose gradient the clip removes. `capped` counts truncated weights.
    """

    tokens: float = 0.0
    ratio_sum: float = 0.0
    ratio_max: float = 0.0
    clipped_low: float = 0.0
    clipped_high: float = 0.0
    capped: float = 0.0

    def __add__(self, other: RatioRecord) -> RatioRecord:
        """The record of both batches together."""
        return RatioRecord(
            self.tokens + other.tokens,
            self.ratio_sum + other.ratio_sum,
            max(self.ratio_max, other.ratio_max),
            self.clipped_low + other.clipped_low,
            self.clipped_high + other.clipped_high,
            self.capped + other.capped,
        )

    def share(self, count: float) -> float:
        """`count` as a share of the trained tokens; 0 for a batch without tokens."""
        return count / self.tokens if self.tokens else 0.0

    @property
    def ratio_mean(self) -> float:
        """Mean importance ratio over tokens; 1 for an unchanged policy."""
        return self.share(self.ratio_sum)

    @property
    def kept_share(self) -> float:
        """Share of the trained tokens whose gradient the clip leaves alone."""
        return 1.0 - self.share(self.clipped_low + self.clipped_high) if self.tokens else 0.0


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """The loss of one micro-batch (already divided: just add them up) and what the clip did."""

    loss: Float[Tensor, ""]
    ratios: RatioRecord


def weighted_sum(
    values_NT: Float[Tensor, "N T"], mask_NT: Bool[Tensor, "N T"], weights_N: Float[Tensor, " N"]
) -> Float[Tensor, ""]:
    """sum_n w_n sum_t m_nt v_nt: how the policy loss, a KL term and an entropy bonus are all averaged."""
    kept_NT = torch.where(mask_NT, values_NT, torch.zeros_like(values_NT))
    return (kept_NT.sum(dim=1) * weights_N.to(values_NT.dtype)).sum()


def policy_loss(
    logprobs_NT: Float[Tensor, "N T"],
    advantages_N: Float[Tensor, " N"],
    mask_NT: Bool[Tensor, "N T"],
    weights_N: Float[Tensor, " N"],
    config: ClipConfig,
    *,
    sampled_logprobs_NT: Float[Tensor, "N T"] | None = None,
    old_logprobs_NT: Float[Tensor, "N T"] | None = None,
    multiplicity_N: Float[Tensor, " N"] | None = None,
) -> PolicyLoss:
    """The clipped loss of N sequences.

    Args:
        logprobs_NT: log-probability of each sampled token under the policy that is trained, with gradient.
        advantages_N: one per sequence; for merged equal actions their sum (`duplicates.py`).
        mask_NT: true where a token is trained.
        weights_N: this micro-batch's part of `sequence_weights` of the whole batch.
        config: clip bounds, ratio level, truncation cap.
        sampled_logprobs_NT: as the engine gave them, after temperature. Without a cap they are the ratio's denominator;
            None means that the ratio is 1 by construction (one update on fresh samples).
        old_logprobs_NT: the trainer's own, at the weights that sampled. Used with a cap only: the ratio is then taken
            to these (None: to the current ones) and c, from old - sampled, corrects for the engine.
        multiplicity_N: how many equal actions each row stands for; counts in the record only.

    Raises:
        ValueError: a cap without sampled log-probabilities, or old ones without a cap.
    """
    old_NT, log_correction_NT = _behaviour(logprobs_NT, sampled_logprobs_NT, old_logprobs_NT, config)
    zero_NT = torch.zeros_like(logprobs_NT)
    log_ratio_NT = torch.where(mask_NT, logprobs_NT - old_NT, zero_NT)
    if config.level == RatioLevel.SEQUENCE:
        length_N = mask_NT.sum(dim=1).clamp(min=1)
        log_ratio_NT = (log_ratio_NT.sum(dim=1) / length_N)[:, None].expand_as(mask_NT)
    above_NT = (log_ratio_NT - LARGEST_LOG_RATIO).clamp(min=0.0).detach()
    ratio_NT = (log_ratio_NT - above_NT).exp()
    advantages_N1 = advantages_N.to(logprobs_NT.dtype)[:, None]
    clipped_NT = ratio_NT.clamp(1.0 - config.clip_low, 1.0 + config.clip_high)
    loss_NT = -torch.minimum(ratio_NT * advantages_N1, clipped_NT * advantages_N1)
    capped_NT = torch.zeros_like(mask_NT)
    if log_correction_NT is not None and config.truncation_cap is not None:
        log_correction_NT = torch.where(mask_NT, log_correction_NT, zero_NT)
        if config.truncation_level == RatioLevel.SEQUENCE:
            log_correction_NT = log_correction_NT.sum(dim=1)[:, None].expand_as(mask_NT)
        correction_NT = log_correction_NT.exp()
        capped_NT = correction_NT > config.truncation_cap
        loss_NT = loss_NT * correction_NT.clamp(max=config.truncation_cap)
    with torch.no_grad():
        record = _record(ratio_NT, advantages_N1, capped_NT, mask_NT, config, multiplicity_N)
    return PolicyLoss(weighted_sum(loss_NT, mask_NT, weights_N), record)


def _behaviour(
    logprobs_NT: Float[Tensor, "N T"],
    sampled_NT: Float[Tensor, "N T"] | None,
    old_NT: Float[Tensor, "N T"] | None,
    config: ClipConfig,
) -> tuple[Float[Tensor, "N T"], Float[Tensor, "N T"] | None]:
    """The ratio's denominator, and the logarithm of the engine-mismatch weight before its cap."""
    if config.truncation_cap is None:
        if old_NT is not None:
            raise ValueError("old_logprobs_NT is used with a truncation cap only; set one or leave it out")
        return (logprobs_NT if sampled_NT is None else sampled_NT).detach(), None
    if sampled_NT is None:
        raise ValueError("a truncation cap needs sampled_logprobs_NT, the engine's own log-probabilities")
    proximal_NT = (logprobs_NT if old_NT is None else old_NT).detach()
    return proximal_NT, proximal_NT - sampled_NT.detach()


def _record(
    ratio_NT: Float[Tensor, "N T"],
    advantages_N1: Float[Tensor, "N 1"],
    capped_NT: Bool[Tensor, "N T"],
    mask_NT: Bool[Tensor, "N T"],
    config: ClipConfig,
    multiplicity_N: Float[Tensor, " N"] | None,
) -> RatioRecord:
    count_NT = mask_NT.double()
    if multiplicity_N is not None:
        count_NT = count_NT * multiplicity_N.double()[:, None]
    kept_NT = torch.where(mask_NT, ratio_NT, torch.zeros_like(ratio_NT)).double()
    low_NT = (ratio_NT < 1.0 - config.clip_low) & (advantages_N1 < 0)
    high_NT = (ratio_NT > 1.0 + config.clip_high) & (advantages_N1 > 0)
    largest = kept_NT.max() if kept_NT.numel() else kept_NT.new_zeros(())
    sums = [count_NT.sum(), (kept_NT * count_NT).sum(), largest]
    sums += [(flag_NT * count_NT).sum() for flag_NT in (low_NT, high_NT, capped_NT)]
    return RatioRecord(*torch.stack(sums).tolist())

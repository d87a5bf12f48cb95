"""The gap between the engine that samples and the trainer: two programs' log-probabilities of the same tokens.

With d = log pi_trainer(token) - log pi_engine(token), both at the weights that sampled: 0 but for rounding where the
two agree. Stale weights, a forgotten temperature or a cache of old keys and values show here first. The KL divergence
from the engine's distribution to the trainer's is estimated by exp(d) - 1 - d (k3), whose every term is at least 0.

Invariant: the records of micro-batches add up to the batch's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotrl_core.errors import TrainingError


@dataclass(frozen=True, slots=True)
class MismatchRecord:
    """Sums over sampled tokens: of |d|, exp(d) and exp(d) - 1 - d; and the largest |d|."""

    tokens: float = 0.0
    abs_sum: float = 0.0
    abs_max: float = 0.0
    ratio_sum: float = 0.0
    kl_sum: float = 0.0

    def __add__(self, other: MismatchRecord) -> MismatchRecord:
        """The record of both batches together."""
        return MismatchRecord(
            self.tokens + other.tokens,
            self.abs_sum + other.abs_sum,
            max(self.abs_max, other.abs_max),
            self.ratio_sum + other.ratio_sum,
            self.kl_sum + other.kl_sum,
        )

    @property
    def abs_mean(self) -> float:
        """Mean |d| in nats; 0 for a batch without sampled tokens."""
        return self.abs_sum / self.tokens if self.tokens else 0.0


def measure_mismatch(
    trainer_NT: Float[Tensor, "N T"],
    sampled_NT: Float[Tensor, "N T"],
    mask_NT: Bool[Tensor, "N T"],
    multiplicity_N: Float[Tensor, " N"],
) -> MismatchRecord:
    """The record of N sequences.

    Args:
        trainer_NT: the trainer's log-probabilities at the weights that sampled.
        sampled_NT: the engine's, after temperature.
        mask_NT: true where a token was sampled.
        multiplicity_N: how many equal samples each row stands for.
    """
    if not bool(mask_NT.any()):
        return MismatchRecord()
    count = (mask_NT.double() * multiplicity_N.double()[:, None])[mask_NT]
    gap = (trainer_NT.detach().double() - sampled_NT.double())[mask_NT]
    sums = [count.sum(), (gap.abs() * count).sum(), gap.abs().max()]
    sums += [(gap.exp() * count).sum(), ((torch.expm1(gap) - gap) * count).sum()]
    return MismatchRecord(*torch.stack(sums).tolist())


def mismatch_metrics(record: MismatchRecord) -> dict[str, float]:
    """What is recorded of a step; nothing where no token was sampled now."""
    if not record.tokens:
        return {}
    return {
        "train/mismatch_abs_mean": record.abs_mean,
        "train/mismatch_abs_max": record.abs_max,
        "train/mismatch_ratio_mean": record.ratio_sum / record.tokens,
        "train/mismatch_kl": record.kl_sum / record.tokens,
    }


def check_mismatch(record: MismatchRecord, limit: float | None) -> None:
    """Raise TrainingError where the mean gap is above the limit, or no number."""
    if limit is None or record.abs_mean <= limit:
        return
    raise TrainingError(
        f"engine and trainer differ by {record.abs_mean:.3f} nats a token (mean of {record.tokens:.0f}; the largest is "
        f"{record.abs_max:.3f}), above arms.NAME.train.mismatch_limit = {limit}: the engine samples from other weights "
        "or at another temperature than the trainer's. Mend that; where it is rounding (low precision, a mixture of "
        "experts), raise the limit and set arms.NAME.train.truncation_cap"
    )

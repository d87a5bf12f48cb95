"""Which policy a training has: whole on one rank, or divided over several."""

from __future__ import annotations

from pathlib import Path

from pivotrl_core.config.arms import Parameters
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.ranks import Ranks


def policy_on(
    ranks: Ranks, start: Path, base: Path, parameters: Parameters, compute: ComputeConfig, seed: int,
    reference: Path | None = None,
) -> TrainablePolicy:  # fmt: skip
    """The policy of a training on these ranks: divided over them where there are several."""
    if ranks.count == 1:
        return TrainablePolicy(start, base, parameters=parameters, compute=compute, seed=seed, reference=reference)
    from pivotrl_core.training.sharded import ShardedPolicy  # seconds to import

    return ShardedPolicy(
        ranks, start, base=base, parameters=parameters, compute=compute, seed=seed, reference=reference
    )

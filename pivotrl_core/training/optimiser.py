"""AdamW on the fp32 masters, with a linear warm-up and a constant, cosine or linear rate after it."""

from __future__ import annotations

import math

import torch

from pivotrl_core.config.arms import OptimiserConfig
from pivotrl_core.errors import TrainingError
from pivotrl_core.training.policy import TrainablePolicy


def rate_factor(step: int, total: int, config: OptimiserConfig) -> float:
    """Factor on the learning rate at `step` (from 0) of `total`."""
    if step < config.warmup_steps:
        return (step + 1) / (config.warmup_steps + 1)
    if config.schedule == "constant":
        return 1.0
    done = (step - config.warmup_steps) / max(1, total - config.warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * done)) if config.schedule == "cosine" else 1 - done


class Optimiser:
    """One update a step: clip the gradient's norm, move the masters, publish them to the model."""

    def __init__(self, policy: TrainablePolicy, config: OptimiserConfig, total_steps: int) -> None:
        self.policy = policy
        self.config = config
        self.total = total_steps
        # Fused: on a CPU, all parameters of a 135M model are moved in a quarter of the time.
        self.adam = torch.optim.AdamW(
            policy.masters, lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay, fused=True
        )

    def update(self, step: int) -> float:
        """Apply the gradients collected so far; returns their norm before clipping.

        Raises:
            TrainingError: the gradient is not finite. Nothing is updated then.
        """
        norm = float(self.policy.whole(torch.nn.utils.clip_grad_norm_(self.policy.masters, self.config.max_grad_norm)))
        if not math.isfinite(norm):
            raise TrainingError(
                f"the gradient is not finite at step {step}; lower the learning rate, or look at the data"
            )
        for group in self.adam.param_groups:
            group["lr"] = self.config.learning_rate * rate_factor(step, self.total, self.config)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        self.policy.publish()
        return norm

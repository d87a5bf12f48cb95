"""The learning rate over the steps, fp32 masters, and what a gradient that is no number does."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from pivotrl_core.config.arms import LoRA, OptimiserConfig
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.errors import TrainingError
from pivotrl_core.training.optimiser import Optimiser, rate_factor
from pivotrl_core.training.policy import TrainablePolicy

BF16 = ComputeConfig(threads=1, dtype="bfloat16")


def rates(total: int, **settings: object) -> list[float]:
    config = OptimiserConfig.model_validate(settings)
    return [round(rate_factor(step, total, config), 6) for step in range(total)]


def test_the_rate_warms_up_and_then_follows_its_schedule() -> None:
    assert rates(5, warmup_steps=0, schedule="constant") == [1.0] * 5
    assert rates(5, warmup_steps=3, schedule="constant") == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates(5, warmup_steps=1, schedule="linear") == [0.5, 1.0, 0.75, 0.5, 0.25]
    half = round(0.5 * (1 + math.cos(math.pi / 4)), 6)
    assert rates(5, warmup_steps=1, schedule="cosine") == [0.5, 1.0, half, 0.5, round(1 - half, 6)]
    assert rates(2, warmup_steps=5, schedule="cosine") == [round(1 / 6, 6), round(2 / 6, 6)]


def policy_with_gradient(folder: Path, value: float) -> TrainablePolicy:
    """A bf16 policy whose every master has the same gradient."""
    policy = TrainablePolicy(folder, folder, LoRA(rank=2, alpha=4.0), BF16, seed=0)
    policy.add_gradients([torch.full_like(parameter, value) for parameter in policy.trained])
    return policy


def test_low_precision_parameters_have_masters_that_keep_small_updates(tiny_llama: Path) -> None:
    policy = policy_with_gradient(tiny_llama, 1.0)
    assert all(parameter.grad is None for parameter in policy.trained)
    before = [master.clone() for master in policy.masters]
    optimiser = Optimiser(policy, OptimiserConfig(learning_rate=1e-6, warmup_steps=0), 1)
    size = sum(master.numel() for master in policy.masters)
    assert optimiser.update(0) == pytest.approx(math.sqrt(size))
    # Adam's first step is the rate itself: far below what bf16 can add to a weight of 0.1, and not lost.
    for master, old in zip(policy.masters, before, strict=True):
        torch.testing.assert_close(old - master, torch.full_like(master, 1e-6), rtol=0.02, atol=1e-8)
    for parameter, master in zip(policy.trained, policy.masters, strict=True):
        assert parameter.dtype == torch.bfloat16
        assert torch.equal(parameter, master.bfloat16())
    assert all(master.grad is None for master in policy.masters)


def test_gradients_of_several_rows_add_up_in_fp32(tiny_llama: Path) -> None:
    policy = policy_with_gradient(tiny_llama, 1.0)
    small: list[torch.Tensor | None] = [torch.full_like(parameter, 2.0**-9) for parameter in policy.trained]
    policy.add_gradients(small)  # bf16 would drop it beside 1
    assert all(bool((master.grad == 1.0 + 2.0**-9).all()) for master in policy.masters if master.grad is not None)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_stops_and_moves_nothing(value: float, tiny_llama: Path) -> None:
    policy = policy_with_gradient(tiny_llama, value)
    before = [master.clone() for master in policy.masters]
    with pytest.raises(TrainingError, match="not finite at step 7; lower the learning rate"):
        Optimiser(policy, OptimiserConfig(), 1).update(7)
    assert all(torch.equal(a, b) for a, b in zip(before, policy.masters, strict=True))

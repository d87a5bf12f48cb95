"""Loss and gradient equal TRL's GRPOTrainer, number for number (TRL is a dependency of the tests only)."""

from __future__ import annotations

import warnings
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from pivotrl_core.grpo.advantages import group_advantages
from pivotrl_core.grpo.choices import Baseline, KLEstimator, LossNormalisation, RatioLevel
from pivotrl_core.grpo.kl import kl_term
from pivotrl_core.grpo.loss import ClipConfig, policy_loss
from pivotrl_core.grpo.weights import sequence_weights

MAX_LENGTH = 6


@pytest.fixture(scope="module")
def trainer_class() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trl = pytest.importorskip("trl")
        return trl.GRPOTrainer


class Batch:
    """Four sequences of unequal length, moved away from the policy that sampled them."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(3)
        self.logprobs = -3.0 * torch.rand(4, MAX_LENGTH - 1, dtype=torch.float64, generator=draw) - 0.1
        self.sampled = self.logprobs + 0.3 * torch.randn(self.logprobs.shape, dtype=torch.float64, generator=draw)
        self.reference = self.logprobs + 0.3 * torch.randn(self.logprobs.shape, dtype=torch.float64, generator=draw)
        lengths = torch.tensor([5, 2, 3, 1])
        self.mask = torch.arange(MAX_LENGTH - 1)[None, :] < lengths[:, None]
        self.advantages = torch.tensor([1.2, -0.7, 0.4, -0.9], dtype=torch.float64)


def trl_loss(trainer_class: Any, batch: Batch, logprobs: Tensor, **settings: Any) -> tuple[Tensor, Any]:
    """`_compute_loss` of the real class on a stand-in for the trainer that hands out our log-probabilities."""
    arguments = SimpleNamespace(
        delta=None, use_bias_correction_kl=False, steps_per_generation=1, entropy_coef_min=0.0, entropy_coef_max=0.0
    )
    trainer = SimpleNamespace(
        args=arguments,
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x),
        _get_per_token_logps_and_entropies=lambda *a, **k: (logprobs, torch.zeros_like(logprobs), None),
        _metrics=defaultdict(lambda: defaultdict(list)),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=False,
        vllm_importance_sampling_correction=False,
        _entropy_bonus_enabled=False,
        current_gradient_accumulation_steps=1,
        max_completion_length=MAX_LENGTH,
        epsilon_low=0.2,
        epsilon_high=0.28,
        **{"beta": 0.0, "importance_sampling_level": "token", **settings},
    )
    inputs = {
        "prompt_ids": torch.zeros(4, 1, dtype=torch.long),
        "prompt_mask": torch.ones(4, 1, dtype=torch.long),
        "completion_ids": torch.zeros(4, MAX_LENGTH - 1, dtype=torch.long),
        "completion_mask": batch.mask.long(),
        "advantages": batch.advantages,
        "old_per_token_logps": batch.sampled,
        "ref_per_token_logps": batch.reference,
        "num_items_in_batch": batch.mask.sum(),
    }
    loss: Tensor = trainer_class._compute_loss(trainer, None, inputs)
    return loss, trainer._metrics["train"]


@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize("level", list(RatioLevel))
@pytest.mark.parametrize("normalisation", list(LossNormalisation))
def test_loss_and_gradient_equal_trl(
    trainer_class: Any, normalisation: LossNormalisation, level: RatioLevel, beta: float
) -> None:
    batch = Batch()
    theirs_at = batch.logprobs.clone().requires_grad_()
    settings = {"loss_type": str(normalisation), "importance_sampling_level": str(level), "beta": beta}
    theirs, _ = trl_loss(trainer_class, batch, theirs_at, **settings)
    theirs.backward()

    ours_at = batch.logprobs.clone().requires_grad_()
    one_group = torch.zeros(4, dtype=torch.long)
    weights = sequence_weights(batch.mask.sum(1), one_group, normalisation, MAX_LENGTH)
    config = ClipConfig(clip_low=0.2, clip_high=0.28, level=level)
    ours = policy_loss(ours_at, batch.advantages, batch.mask, weights, config, sampled_logprobs_NT=batch.sampled).loss
    ours = ours + beta * kl_term(ours_at, batch.reference, batch.mask, weights, KLEstimator.K3)
    ours.backward()
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours_at.grad, theirs_at.grad, rtol=1e-12, atol=1e-12)


def test_clip_shares_equal_trl_s(trainer_class: Any) -> None:
    batch = Batch()
    _, metrics = trl_loss(trainer_class, batch, batch.logprobs, loss_type="dapo")
    weights = torch.ones(4, dtype=torch.float64)
    config = ClipConfig(clip_low=0.2, clip_high=0.28)
    ratios = policy_loss(
        batch.logprobs, batch.advantages, batch.mask, weights, config, sampled_logprobs_NT=batch.sampled
    ).ratios
    assert ratios.clipped_low > 0
    assert ratios.clipped_high > 0
    assert ratios.share(ratios.clipped_low) == pytest.approx(metrics["clip_ratio/low_mean"][0])
    assert ratios.share(ratios.clipped_high) == pytest.approx(metrics["clip_ratio/high_mean"][0])


def test_our_advantages_are_trl_s_up_to_the_choice_of_the_standard_deviation() -> None:
    # TRL: torch.std, which divides by G - 1; ours divides by G: a factor sqrt(G / (G - 1)) = sqrt(4/3)
    rewards = torch.tensor([[1.0, 0.0, 0.25, 1.0]], dtype=torch.float64)
    theirs = (rewards - rewards.mean()) / rewards.std()
    ours = group_advantages(rewards, baseline=Baseline.MEAN, eps=0.0)
    torch.testing.assert_close(ours, theirs * (4 / 3) ** 0.5)

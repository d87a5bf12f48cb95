"""The capped weight for the mismatch of engine and trainer, in a real update of a tiny model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.config.arms import GRPOTrain, LoRA, OptimiserConfig
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.training.checkpoint import Progress
from pivotrl_core.training.groups import PivotGroup
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.pivot_groups import PivotGroups
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.policy_gradient import train_step
from tests.tiny_models import COMPUTE
from tests.toy_training import LetterVerifier, toy_candidates


def settings(**changes: Any) -> GRPOTrain:
    plain = {"method": "grpo", "prompts_per_step": 4, "group_size": 6, "max_tokens": 5, "parameters": LoRA(rank=4),
             "mismatch_limit": None,
             "optimiser": OptimiserConfig(learning_rate=0.02, warmup_steps=0)}  # fmt: skip
    return GRPOTrain.model_validate(plain | changes)


def step(folder: Path, shift: float, **changes: Any) -> dict[str, float]:
    """One step on samples whose recorded log-probabilities are those of the trainer, less `shift` nats."""
    config = settings(**changes)
    policy = TrainablePolicy(folder, folder, config.parameters, COMPUTE, seed=3)
    renderer = ChatRenderer(policy.tokenizer, "compact")
    engine = TransformersEngine(policy.model, [renderer.eos_id])
    groups = PivotGroups(engine, renderer, LetterVerifier("aeiou"), toy_candidates(), config, seed=5).groups(0)
    shifted: list[PivotGroup] = [
        replace(group, logprobs=tuple(tuple(value - shift for value in line) for line in group.logprobs))
        for group in groups
    ]
    optimiser = Optimiser(policy, config.optimiser, config.updates_per_step)
    return train_step(policy, optimiser, shifted, config, 150, Progress())


def test_without_a_mismatch_the_weight_changes_nothing(tiny_llama: Path) -> None:
    plain, capped = step(tiny_llama, 0.0), step(tiny_llama, 0.0, truncation_cap=5.0)
    assert capped["train/grad_norm"] == pytest.approx(plain["train/grad_norm"], rel=1e-3)
    assert capped["train/capped_share"] == 0.0


def test_a_mismatch_is_weighted_up_to_the_cap_and_is_no_ratio(tiny_llama: Path) -> None:
    plain = step(tiny_llama, 0.0)
    half = step(tiny_llama, 0.5, truncation_cap=5.0)  # exp(0.5) = 1.65 is below the cap
    cut = step(tiny_llama, 2.0, truncation_cap=5.0)  # exp(2) = 7.39 is above it
    assert half["train/grad_norm"] == pytest.approx(1.6487 * plain["train/grad_norm"], rel=1e-3)
    assert cut["train/grad_norm"] == pytest.approx(5.0 * plain["train/grad_norm"], rel=1e-3)
    assert (half["train/capped_share"], cut["train/capped_share"]) == (0.0, 1.0)
    assert cut["train/ratio_mean"] == pytest.approx(1.0, abs=1e-6)
    assert cut["train/kept_share"] == 1.0


def test_over_several_updates_the_ratio_is_to_the_weights_that_sampled(tiny_llama: Path) -> None:
    plain = step(tiny_llama, 0.0, updates_per_step=4)
    capped = step(tiny_llama, 0.0, updates_per_step=4, truncation_cap=5.0)
    assert capped["train/ratio_max"] > 1.2
    assert capped["train/ratio_max"] == pytest.approx(plain["train/ratio_max"], rel=0.02)
    assert capped["train/clip_low_share"] > 0.0


def test_a_cap_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="truncation_cap"):
        settings(truncation_cap=0.5)

"""One optimiser step on real samples: rows, the KL anchor, the entropy bonus, several updates, the cost account."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pivotrl_core.config.arms import FullParameters, GRPOTrain, KLConfig, LoRA, OptimiserConfig
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.errors import ConfigError
from pivotrl_core.evaluation.drift import continuation, score_texts
from pivotrl_core.training.checkpoint import Progress
from pivotrl_core.training.groups import PivotGroup
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.pivot_groups import PivotGroups
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.policy_gradient import train_step
from tests.tiny_models import COMPUTE
from tests.toy_training import LetterVerifier, toy_candidates

LOW_RANK, FULL = LoRA(rank=4, alpha=8.0), FullParameters(kind="full")
KINDS = pytest.mark.parametrize("parameters", [LOW_RANK, FULL], ids=["lora", "full"])


def config(rate: float = 1e-3, **changes: Any) -> GRPOTrain:
    plain = {
        "method": "grpo", "prompts_per_step": 8, "group_size": 6, "max_tokens": 5,
        "optimiser": OptimiserConfig(learning_rate=rate, warmup_steps=0),
    }  # fmt: skip
    return GRPOTrain.model_validate(plain | changes)


def new_policy(folder: Path, parameters: LoRA | FullParameters, moved: float = 0.0) -> TrainablePolicy:
    """The reference policy, or one that has moved away from it."""
    policy = TrainablePolicy(folder, folder, parameters, COMPUTE, seed=3)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.trained:
            parameter.add_(moved * torch.randn(parameter.shape, generator=draw))
    return policy


def sample(policy: TrainablePolicy, settings: GRPOTrain, step: int = 0) -> list[PivotGroup]:
    renderer = ChatRenderer(policy.tokenizer, "compact")
    engine = TransformersEngine(policy.model, [renderer.eos_id])
    return PivotGroups(engine, renderer, LetterVerifier("aeiou"), toy_candidates(), settings, seed=5).groups(step)


def without_lesson(groups: list[PivotGroup]) -> list[PivotGroup]:
    """Rewards so nearly equal that, unnormalised, they move nothing: what is left is the regulariser."""
    return [replace(group, rewards=(1e-12, *[0.0] * (len(group.rewards) - 1))) for group in groups]


def equal_rewards(groups: list[PivotGroup]) -> list[PivotGroup]:
    """No group teaches anything."""
    return [replace(group, rewards=(1.0,) * len(group.rewards)) for group in groups]


def update(policy: TrainablePolicy, groups: list[PivotGroup], settings: GRPOTrain, rows: int = 400) -> dict[str, float]:
    optimiser = Optimiser(policy, settings.optimiser, 1)
    return train_step(policy, optimiser, groups, settings, rows, Progress())


def divergence(policy: TrainablePolicy, groups: list[PivotGroup]) -> float:
    """Exact KL(pi || pi_0) at the tokens of some groups."""

    @contextmanager
    def inner() -> Iterator[Any]:
        yield policy.inner

    sequences = [continuation(group.state_ids, ids) for group in groups for ids in group.action_ids]
    return score_texts(inner, policy.reference, sequences, 2000).kl


@KINDS
def test_the_step_does_not_depend_on_how_rows_are_packed(parameters: LoRA | FullParameters, tiny_llama: Path) -> None:
    settings = config(kl=KLConfig(weight=0.1), entropy_weight=0.01)
    results = []
    for rows in (1, 150, 100_000):
        policy = new_policy(tiny_llama, parameters, moved=0.02)
        metrics = update(policy, sample(policy, settings), settings, rows)
        results.append((metrics, [master.detach().clone() for master in policy.masters]))
    start = [master.detach() for master in new_policy(tiny_llama, parameters, moved=0.02).masters]
    for metrics, masters in results[1:]:
        assert metrics == pytest.approx(results[0][0], rel=1e-3, abs=1e-5)
        # Adam moves a parameter by about the rate, whatever its gradient: compare where the moves are of one mind.
        moves = torch.cat([(a - b).flatten() for a, b in zip(masters, start, strict=True)])
        expected = torch.cat([(a - b).flatten() for a, b in zip(results[0][1], start, strict=True)])
        assert float(torch.nn.functional.cosine_similarity(moves, expected, dim=0)) > 0.999


@KINDS
def test_the_kl_to_the_reference_is_zero_at_the_start(parameters: LoRA | FullParameters, tiny_llama: Path) -> None:
    settings = config(kl=KLConfig(weight=1.0))
    policy = new_policy(tiny_llama, parameters)
    groups = sample(policy, settings)
    assert divergence(policy, groups) == pytest.approx(0.0, abs=1e-7)
    assert update(policy, groups, settings)["train/kl"] == pytest.approx(0.0, abs=1e-7)
    assert divergence(policy, groups) > 1e-5  # the rewards moved it


@KINDS
@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_the_kl_term_pulls_a_policy_back(estimator: str, parameters: LoRA | FullParameters, tiny_llama: Path) -> None:
    settings = config(kl=KLConfig.model_validate({"weight": 1.0, "estimator": estimator}), advantage="none")
    policy = new_policy(tiny_llama, parameters, moved=0.05)
    groups = without_lesson(sample(policy, settings))
    before = divergence(policy, groups)
    assert update(policy, groups, settings)["train/kl"] > 0.01
    assert divergence(policy, groups) < 0.95 * before


@KINDS
def test_a_policy_that_starts_from_an_adapter_is_anchored_there(
    parameters: LoRA | FullParameters, tiny_llama: Path, tmp_path: Path
) -> None:
    # pi_0 is the policy that was profiled and that training starts from, not the model below its adapter.
    new_policy(tiny_llama, LOW_RANK, moved=0.05).save(tmp_path)
    policy = TrainablePolicy(tmp_path, tiny_llama, parameters, COMPUTE, seed=3)
    settings = config(kl=KLConfig(weight=1.0))
    groups = sample(policy, settings)
    assert divergence(policy, groups) == pytest.approx(0.0, abs=1e-6)
    assert update(policy, groups, settings)["train/kl"] == pytest.approx(0.0, abs=1e-6)
    assert divergence(policy, groups) > 1e-5


@KINDS
def test_a_policy_that_starts_from_a_descendant_is_anchored_at_the_profiled_one(
    parameters: LoRA | FullParameters, tiny_llama: Path, tmp_path: Path
) -> None:
    # A nightly run trains on from last night's model; pi_0 stays the base policy, which profiled.
    new_policy(tiny_llama, parameters, moved=0.05).save(tmp_path)
    policy = TrainablePolicy(tmp_path, tiny_llama, parameters, COMPUTE, seed=3, reference=tiny_llama)
    base = new_policy(tiny_llama, parameters)
    groups = sample(base, config())
    with base.reference() as expected, policy.reference() as found:
        ids = torch.tensor([groups[0].state_ids])
        assert torch.equal(found(ids).logits, expected(ids).logits)
    assert divergence(policy, groups) > 1e-4


def test_a_fresh_adapter_on_anything_but_the_base_policy_is_refused(tiny_llama: Path, tmp_path: Path) -> None:
    new_policy(tiny_llama, FULL, moved=0.05).save(tmp_path)
    with pytest.raises(ConfigError, match="relative to the base policy"):
        TrainablePolicy(tmp_path, tiny_llama, LOW_RANK, COMPUTE, seed=3)


def test_k1_in_the_reward_pulls_a_policy_back(tiny_llama: Path) -> None:
    # k1 has no gradient as a loss term; subtracted from the rewards it works through the samples, so it takes a few.
    settings = config(rate=3e-3, kl=KLConfig.model_validate({"weight": 1.0, "estimator": "k1"}), advantage="none")
    policy = new_policy(tiny_llama, LOW_RANK, moved=0.1)
    text = sample(policy, settings)
    before = divergence(policy, text)
    for step in range(8):
        metrics = update(policy, without_lesson(sample(policy, settings, step)), settings)
        assert metrics["train/kl"] > 0.0
    assert divergence(policy, text) < 0.8 * before


@pytest.mark.parametrize("advantage", ["none", "group_std"])
def test_k1_at_the_reference_itself_adds_no_noise(advantage: str, tiny_llama: Path) -> None:
    # The engine's rounding is all there is between policy and reference: dividing by its deviation would blow it up.
    kl = KLConfig.model_validate({"weight": 1.0, "estimator": "k1"})
    settings = config(kl=kl, advantage=advantage)
    bf16 = ComputeConfig(threads=1, dtype="bfloat16")
    policy = TrainablePolicy(tiny_llama, tiny_llama, LOW_RANK, bf16, seed=3)
    groups = without_lesson(sample(policy, settings))
    assert update(policy, groups, settings)["train/advantage_abs_mean"] < 0.1


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_a_step_of_equal_rewards_pulls_a_policy_back_all_the_same(estimator: str, tiny_llama: Path) -> None:
    # k1 works through the samples, so it takes a few; the others have their gradient at every token.
    kl = KLConfig.model_validate({"weight": 1.0, "estimator": estimator})
    settings = config(rate=3e-3, kl=kl, advantage="none")
    policy = new_policy(tiny_llama, LOW_RANK, moved=0.1)
    text = sample(policy, settings)
    before = divergence(policy, text)
    for step in range(8):
        metrics = update(policy, equal_rewards(sample(policy, settings, step)), settings)
        assert metrics["train/kl"] > 0.0
    assert divergence(policy, text) < 0.8 * before


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_a_step_of_equal_rewards_at_the_reference_moves_nothing(estimator: str, tiny_llama: Path) -> None:
    # Adam would blow any rounding up to the full rate.
    settings = config(kl=KLConfig.model_validate({"weight": 1.0, "estimator": estimator}))
    policy = TrainablePolicy(tiny_llama, tiny_llama, LOW_RANK, ComputeConfig(threads=1, dtype="bfloat16"), seed=3)
    before = [master.detach().clone() for master in policy.masters]
    update(policy, equal_rewards(sample(policy, settings)), settings)
    assert all(torch.equal(a, b) for a, b in zip(before, policy.masters, strict=True))


def test_without_a_kl_weight_there_is_no_reference_pass_and_no_pull(tiny_llama: Path) -> None:
    policy = new_policy(tiny_llama, FULL, moved=0.05)
    settings = config(advantage="none")
    groups = without_lesson(sample(policy, settings))
    assert update(policy, groups, settings)["train/grad_norm"] < 1e-6


def test_the_entropy_bonus_raises_entropy(tiny_llama: Path) -> None:
    settings = config(entropy_weight=1.0, advantage="none")
    policy = new_policy(tiny_llama, LOW_RANK)
    groups = without_lesson(sample(policy, settings))
    entropies = [update(policy, groups, settings)["train/entropy"] for _ in range(4)]
    assert entropies == sorted(entropies)
    assert entropies[-1] > entropies[0] + 0.01


def test_one_update_on_fresh_samples_has_ratio_one_and_clips_nothing(tiny_qwen3: Path) -> None:
    for temperature in (1.0, 0.7):
        settings = config(temperature=temperature)
        policy = new_policy(tiny_qwen3, LOW_RANK, moved=0.02)
        metrics = update(policy, sample(policy, settings), settings)
        assert metrics["train/ratio_mean"] == pytest.approx(1.0, abs=1e-4)
        assert metrics["train/ratio_max"] == pytest.approx(1.0, abs=1e-3)
        assert metrics["train/kept_share"] == 1.0


def test_several_updates_leave_the_samples_behind_and_the_clip_holds(tiny_llama: Path) -> None:
    settings = config(rate=0.02, updates_per_step=4)
    policy = new_policy(tiny_llama, LOW_RANK)
    metrics = update(policy, sample(policy, settings), settings)
    assert metrics["train/clip_low_share"] > 0.0
    assert metrics["train/clip_high_share"] > 0.0
    assert metrics["train/ratio_max"] > 1.2


def test_every_update_is_paid_for(tiny_llama: Path) -> None:
    computed = []
    for updates in (1, 3):
        policy = new_policy(tiny_llama, LOW_RANK)
        settings = config(updates_per_step=updates)
        progress = Progress()
        groups = sample(policy, settings)
        train_step(policy, Optimiser(policy, settings.optimiser, 3), groups, settings, 400, progress)
        computed.append(progress.counters["trained_tokens"])
    assert computed[1] == 3 * computed[0]


@KINDS
def test_groups_of_equal_rewards_move_nothing(parameters: LoRA | FullParameters, tiny_llama: Path) -> None:
    settings = config()
    mixed = sample(new_policy(tiny_llama, parameters), settings)
    equal = [replace(group, rewards=tuple(1.0 for _ in group.rewards)) for group in sample(
        new_policy(tiny_llama, parameters), settings, step=1)]  # fmt: skip
    moved = []
    for groups in (mixed, [*mixed, *equal]):
        policy = new_policy(tiny_llama, parameters)
        update(policy, groups, settings)
        moved.append([master.detach().clone() for master in policy.masters])
    for first, second in zip(*moved, strict=True):
        assert torch.equal(first, second)
    policy = new_policy(tiny_llama, parameters)
    before = [master.detach().clone() for master in policy.masters]
    progress = Progress()
    train_step(policy, Optimiser(policy, settings.optimiser, 1), equal, settings, 400, progress)
    assert progress.counters["idle_steps"] == 1
    assert all(torch.equal(a, b) for a, b in zip(before, policy.masters, strict=True))

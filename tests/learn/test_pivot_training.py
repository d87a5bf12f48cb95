"""GRPO on pivots, with the real engine and the real loop, teaches a tiny model a rewarded letter within seconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.config.arms import FullParameters, GRPOTrain, LoRA, OptimiserConfig
from pivotrl_core.engines.protocol import TokenCount
from pivotrl_core.errors import TrainingError
from pivotrl_core.files import read_jsonl
from pivotrl_core.training.checkpoint import Checkpoints, Progress
from pivotrl_core.training.groups import PivotGroup
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.policy_gradient import IDLE_LIMIT, train_policy_gradient
from pivotrl_core.verifiers.rewards import DEFAULT_RULE
from tests.toy_training import LetterVerifier, Run

LETTER = LetterVerifier("e")


def config(**changes: object) -> GRPOTrain:
    plain = {
        "method": "grpo", "steps": 25, "prompts_per_step": 4, "group_size": 8, "max_tokens": 4, "checkpoint_every": 50,
        "optimiser": OptimiserConfig(learning_rate=0.01),
    }  # fmt: skip
    return GRPOTrain.model_validate(plain | changes)


def rewards(out: Path) -> list[float]:
    return [line["metrics"]["train/reward_mean"] for line in read_jsonl(out / "metrics.jsonl")]


@pytest.mark.parametrize(
    ("parameters", "rate"), [(LoRA(rank=8, alpha=16.0), 0.01), (FullParameters(kind="full"), 0.004)]
)
def test_a_rewarded_letter_is_learnt(
    parameters: LoRA | FullParameters, rate: float, tiny_llama: Path, tmp_path: Path
) -> None:
    run = Run(tiny_llama, tmp_path / "out", tmp_path / "scratch", parameters)
    counters = run.policy_gradient(config(optimiser=OptimiserConfig(learning_rate=rate)), LETTER)
    curve = rewards(tmp_path / "out")
    assert sum(curve[:5]) / 5 < 0.3
    assert sum(curve[-5:]) / 5 > 0.9
    assert counters["rollout_turns"] == 25 * 4 * 8


def test_steps_take_temperatures_in_turn_and_are_trained_at_their_own(tiny_llama: Path, tmp_path: Path) -> None:
    run = Run(tiny_llama, tmp_path / "out", tmp_path / "scratch", FullParameters(kind="full"))
    run.policy_gradient(config(steps=4, temperatures=[1.0, 0.25], optimiser={"learning_rate": 1e-6}), LETTER)
    metrics = [line["metrics"] for line in read_jsonl(tmp_path / "out" / "metrics.jsonl")]
    assert [one["train/temperature"] for one in metrics] == [1.0, 0.25, 1.0, 0.25]
    warm, cool, warm_again, cool_again = (one["train/entropy"] for one in metrics)
    assert max(cool, cool_again) < 0.9 * min(warm, warm_again)
    assert all(one["train/mismatch_abs_max"] < 1e-3 for one in metrics)


def test_leave_one_out_without_a_standard_deviation_learns_too(tiny_qwen3: Path, tmp_path: Path) -> None:
    run = Run(tiny_qwen3, tmp_path / "out", tmp_path / "scratch", LoRA(rank=8, alpha=16.0))
    settings = config(steps=20, baseline="leave_one_out", advantage="none", loss="dr_grpo", ratio="sequence")
    run.policy_gradient(settings, LETTER)
    curve = rewards(tmp_path / "out")
    assert sum(curve[-5:]) / 5 > sum(curve[:5]) / 5 + 0.3


def test_ten_steps_without_a_lesson_end_the_training_and_say_what_to_do(tiny_llama: Path, tmp_path: Path) -> None:
    run = Run(tiny_llama, tmp_path / "out", tmp_path / "scratch")
    with pytest.raises(TrainingError, match=r"first 10 steps had no group with unequal rewards: .*profile again"):
        run.policy_gradient(config(), LetterVerifier(letters=""))  # nothing is ever rewarded
    assert len(rewards(tmp_path / "out")) == 9


@dataclass(frozen=True)
class OneLesson:
    """Groups that teach something at the first step only; later ones have this reward."""

    reward: float = 1.0
    resting: int = 0
    count = TokenCount()
    rule = DEFAULT_RULE

    def state(self) -> dict[str, Any]:
        return {}

    def resume(self, state: dict[str, Any]) -> None:
        pass

    def groups(self, step: int) -> list[PivotGroup]:
        rewards = (1.0, 0.0) if step == 0 else (self.reward, self.reward)
        return [PivotGroup((5, 6, 7), ((8, 9), (9, 8)), ((-1.0, -1.0), (-1.0, -1.0)), rewards)]


def test_a_mastered_pool_ends_the_training_early_and_keeps_what_was_learned(tiny_llama: Path, tmp_path: Path) -> None:
    run = Run(tiny_llama, tmp_path / "out", tmp_path / "scratch")
    policy = run.policy()
    optimiser = Optimiser(policy, OptimiserConfig(learning_rate=0.01), 50)
    settings = config(steps=50, group_size=2, mismatch_limit=None)  # its log-probabilities are made up
    progress = train_policy_gradient(
        policy, optimiser, OneLesson(), settings, 400, Checkpoints(run.scratch), run.recorder()
    )
    assert progress.step == 1 + IDLE_LIMIT
    assert progress.counters["taught_steps"] == 1
    assert progress.ended == "no group of the last 10 steps had unequal rewards"
    anchored = config(steps=1 + IDLE_LIMIT + 2, group_size=2, kl={"weight": 0.1}, mismatch_limit=None)
    progress = train_policy_gradient(
        policy, optimiser, OneLesson(), anchored, 400, Checkpoints(tmp_path / "anchored"), run.recorder()
    )
    assert (progress.step, progress.ended) == (anchored.steps, None)  # the anchor goes on pulling


def test_a_policy_that_comes_to_fail_everywhere_has_mastered_nothing(tiny_llama: Path, tmp_path: Path) -> None:
    run = Run(tiny_llama, tmp_path / "out", tmp_path / "scratch")
    settings = config(steps=50, group_size=2, mismatch_limit=None)

    def train(source: OneLesson, name: str) -> Progress:
        optimiser = Optimiser(run.policy(), settings.optimiser, 50)
        policy, recorder = optimiser.policy, Run(tiny_llama, tmp_path / name, run.scratch).recorder()
        return train_policy_gradient(policy, optimiser, source, settings, 400, Checkpoints(tmp_path / name), recorder)

    with pytest.raises(TrainingError, match=r"step 11: no sample of the last 10 steps had a reward, .*lower the learn"):
        train(OneLesson(reward=0.0), "collapsed")
    # Where what is mastered rests, the steps have what is too hard alone.
    assert train(OneLesson(reward=0.0, resting=3), "rested").step == 1 + IDLE_LIMIT

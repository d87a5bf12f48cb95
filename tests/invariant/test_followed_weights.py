"""A training that samples over HTTP: the server has the weights that train at every step, and where not, it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.config.arms import FullParameters, GRPOTrain, LoRA, OptimiserConfig
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.completions import Completions
from pivotrl_core.engines.model import load_policy
from pivotrl_core.engines.openai_engine import OpenAIEngine
from pivotrl_core.engines.servers import RetryPolicy, Servers
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.engines.vllm_engine import FollowedWeights
from pivotrl_core.engines.vllm_server import VLLMServer
from pivotrl_core.errors import TrainingError
from pivotrl_core.training.checkpoint import Progress
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.pivot_groups import PivotGroups
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.policy_gradient import train_step
from tests.completions_server import CompletionsServer
from tests.tiny_models import COMPUTE
from tests.toy_training import LetterVerifier, toy_candidates

pytestmark = pytest.mark.usefixtures("deterministic")

LOW_RANK, FULL = LoRA(rank=4, alpha=8.0), FullParameters(kind="full")
STEPS = 3


@dataclass
class Training:
    """A policy in training, and what samples from it."""

    policy: TrainablePolicy
    engine: Any
    settings: GRPOTrain

    def steps(self, count: int = STEPS) -> list[dict[str, float]]:
        renderer = ChatRenderer(self.policy.tokenizer, "compact")
        source = PivotGroups(self.engine, renderer, LetterVerifier("aeiou"), toy_candidates(), self.settings, seed=5)
        optimiser = Optimiser(self.policy, self.settings.optimiser, count)
        return [
            train_step(self.policy, optimiser, source.groups(step), self.settings, 150, Progress())
            for step in range(count)
        ]


def settings(parameters: LoRA | FullParameters, **changes: Any) -> GRPOTrain:
    plain = {"method": "grpo", "prompts_per_step": 4, "group_size": 6, "max_tokens": 5, "parameters": parameters,
             "optimiser": OptimiserConfig(learning_rate=0.01, warmup_steps=0)}  # fmt: skip
    return GRPOTrain.model_validate(plain | changes)


@contextmanager
def training_over_http(
    folder: Path, scratch: Path, config: GRPOTrain, follow: bool = True
) -> Iterator[tuple[Training, CompletionsServer]]:
    policy = TrainablePolicy(folder, folder, config.parameters, COMPUTE, seed=3)
    with CompletionsServer(load_policy(folder, folder, COMPUTE)) as server:
        root, retry_policy = server.url.removesuffix("/v1"), RetryPolicy(seconds=60.0, retries=0)
        control = Servers([root], retry_policy, 2)
        process: Any = None  # it is this one
        up = VLLMServer(root, server.name, "", scratch / "log", process)
        weights = FollowedWeights(up, control, policy, scratch / "weights")
        eos = int(policy.tokenizer.eos_token_id)
        engine = OpenAIEngine(
            Completions(Servers([server.url], retry_policy, 4), eos), server.name, 4096, "1", 4,
            weights.bring_up_to_date if follow else None,
        )  # fmt: skip
        try:
            yield Training(policy, engine, config), server
        finally:
            engine.close()
            control.close()


@pytest.mark.parametrize("parameters", [LOW_RANK, FULL], ids=["lora", "full"])
def test_the_server_has_the_weights_that_train_at_every_step(
    parameters: LoRA | FullParameters, tiny_llama: Path, tmp_path: Path
) -> None:
    config = settings(parameters)
    with training_over_http(tiny_llama, tmp_path, config) as (training, server):
        remote = training.steps()
        calls = [path for path, _ in server.calls]
        left = [path.name for path in (tmp_path / "weights").iterdir()]
    assert all(line["train/mismatch_abs_max"] < 1e-3 for line in remote)
    if parameters is FULL:
        assert calls == ["/collective_rpc", "/reset_prefix_cache"] * STEPS
        assert left == []
    else:
        load, clear = ["/v1/load_lora_adapter", "/reset_prefix_cache"], ["/v1/unload_lora_adapter"]
        assert calls == load + (clear + load) * (STEPS - 1)
        assert left == [f"weights-{STEPS - 1}"]
    # The same training in one process: equal but for rounding, where no sample lies at a near-tie.
    policy = TrainablePolicy(tiny_llama, tiny_llama, config.parameters, COMPUTE, seed=3)
    engine = TransformersEngine(policy.model, [int(policy.tokenizer.eos_token_id)])
    for ours, theirs in zip(remote, Training(policy, engine, config).steps(), strict=True):
        assert ours["train/reward_mean"] == theirs["train/reward_mean"]
        assert ours["train/grad_norm"] == pytest.approx(theirs["train/grad_norm"], rel=1e-2)


def test_weights_are_sent_once_a_version(tiny_llama: Path, tmp_path: Path) -> None:
    with training_over_http(tiny_llama, tmp_path, settings(FULL)) as (training, server):
        training.steps(1)
        before = len(server.calls)
        beside = training.engine.beside()
        beside.session((5,))
        assert len(server.calls) == before + 2  # the step that was made
        beside.session((5,))
        training.engine.session((5,))
        assert len(server.calls) == before + 2
        assert beside.model == training.engine.model


def test_a_server_left_with_old_weights_shows_and_stops_the_run(tiny_llama: Path, tmp_path: Path) -> None:
    fast = OptimiserConfig(learning_rate=0.05, warmup_steps=0)
    with training_over_http(tiny_llama, tmp_path, settings(FULL, optimiser=fast), follow=False) as (training, _):
        with pytest.raises(TrainingError, match=r"train\.mismatch_limit = 0\.2") as caught:
            training.steps()
        assert "nats a token" in str(caught.value)
    unlimited = settings(FULL, optimiser=fast, mismatch_limit=None)
    with training_over_http(tiny_llama, tmp_path, unlimited, follow=False) as (training, _):
        lines = training.steps()
    assert lines[0]["train/mismatch_abs_mean"] < 1e-3
    assert lines[2]["train/mismatch_abs_mean"] > 0.2
    assert lines[2]["train/mismatch_kl"] > 0.0

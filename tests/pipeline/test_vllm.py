"""Real vLLM, in fp32, beside the embedded engine: the same distribution, and weights that follow training.

Runs where there is an environment with vLLM (`make vllm`, or PIVOTRL_VLLM); on a CPU it takes some minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import torch

from pivotrl_core.config.arms import FullParameters, LoRA
from pivotrl_core.config.engine import VLLMEngineConfig
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.bundled import bundled_model
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.openai_engine import OpenAIEngine
from pivotrl_core.engines.protocol import Engine, Request, Sample, SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.engines.vllm_engine import Placement, vllm_engine
from pivotrl_core.engines.vllm_server import Serving, vllm_python
from pivotrl_core.errors import ConfigError
from pivotrl_core.pivots.profiling import Profiler, Rollout
from pivotrl_core.training.policy import TrainablePolicy
from tests.toy_training import LetterVerifier, toy_candidates

ROOT = Path(__file__).resolve().parents[2]
COMPUTE = ComputeConfig(threads=1, dtype="float32")
SETTINGS = VLLMEngineConfig(kind="vllm", context_tokens=512, start_seconds=7200.0, request_seconds=3600.0)
K, TOKENS = 8, 8
CLOSE = 2e-3  # nats: rounding of fp32 in two programs
NEAR_TIE = 1e-2  # nats between two tokens, under which either may be the greedy one
ERRORS = 4.0  # standard errors between two means of one distribution


def _environment() -> str | None:
    try:
        vllm_python("", ROOT)
    except ConfigError as error:
        return str(error)
    return None


MISSING = _environment()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(MISSING is not None, reason=f"no vLLM here: {MISSING}")]


class Pair:
    """One policy behind vLLM and in this process."""

    def __init__(self, policy: TrainablePolicy, remote: OpenAIEngine) -> None:
        self.policy, self.remote = policy, remote
        self.renderer = ChatRenderer(policy.tokenizer, "compact")
        self.local = TransformersEngine(policy.model, [self.renderer.eos_id])
        self.candidates = toy_candidates(2)

    def requests(self, seeds: int) -> list[Request]:
        states = [self.renderer.state_ids(one.state, one.tools) for one in self.candidates]
        return [Request(f"r{i}", ids, tuple(range(seeds))) for i, ids in enumerate(states)]

    def profile(self, engine: Engine, store: Path) -> list[Rollout]:
        sampling = SamplingConfig(1.0, TOKENS)
        profiler = Profiler(engine, self.renderer, LetterVerifier("t"), sampling, K, 0, "pi-0", store, 4)
        groups, _ = profiler.profile(self.candidates, lambda *_: None)
        return [rollout for group in groups for rollout in group]

    def scored(self, prompt: Sequence[int], ids: Sequence[int], temperature: float) -> torch.Tensor:
        """Log-probabilities [T, V] of the trainer's own model at the places of a sample."""
        with torch.no_grad():
            logits = self.policy.inner(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
        return torch.log_softmax(logits.float() / (temperature or 1.0), dim=-1)

    def gap(self, samples: list[list[Sample]], temperature: float) -> float:
        """Largest difference between the log-probabilities that came and the trainer's."""
        return max(
            float((self.scored(request.prompt_ids, one.ids, temperature).gather(1, torch.tensor(one.ids)[:, None])[:, 0]
                   - torch.tensor(one.logprobs)).abs().max())
            for request, group in zip(self.requests(1), samples, strict=True) for one in group
        )  # fmt: skip

    def greedy_differences(self) -> tuple[int, int]:
        """Greedy samples that differ, and how many of them part at a near-tie."""
        asked, greedy = self.requests(1), SamplingConfig(0.0, 16)
        differ = ties = 0
        for request, (ours,), (theirs,) in zip(
            asked, self.local.sample(asked, greedy), self.remote.sample(asked, greedy), strict=True
        ):
            if ours.ids == theirs.ids:
                continue
            differ += 1
            at = next(i for i, (a, b) in enumerate(zip(ours.ids, theirs.ids, strict=False)) if a != b)
            line = self.scored(request.prompt_ids, ours.ids, 0.0)[at]
            ties += abs(float(line[ours.ids[at]] - line[theirs.ids[at]])) < NEAR_TIE
        return differ, ties

    def move(self, scale: float) -> None:
        """Change the weights as an optimiser's step would."""
        draw = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for master in self.policy.masters:
                master.add_(scale * torch.randn(master.shape, generator=draw))
        self.policy.publish()


def pair_on(parameters: LoRA | FullParameters, model: Path, scratch: Path) -> Iterator[Pair]:
    policy = TrainablePolicy(model, model, parameters, COMPUTE, seed=0)
    serving = Serving(model, "float32", 1, gpu=False, lora_rank=policy.lora_rank)
    eos = int(policy.tokenizer.eos_token_id)
    with vllm_engine(SETTINGS, serving, Placement(ROOT, scratch), eos, policy) as engine:
        yield Pair(policy, engine)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundled_model(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def full(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    yield from pair_on(FullParameters(kind="full"), model, tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def lora(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    yield from pair_on(LoRA(rank=4, alpha=8.0), model, tmp_path_factory.mktemp("lora"))


def within_sampling_error(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    error = (stdev(ours) ** 2 / len(ours) + stdev(theirs) ** 2 / len(theirs)) ** 0.5
    return abs(fmean(ours) - fmean(theirs)) <= ERRORS * error


def test_a_profile_has_the_statistics_of_the_embedded_engine(full: Pair, tmp_path: Path, capsys: Any) -> None:
    theirs = full.profile(full.remote, tmp_path / "remote")
    ours = full.profile(full.local, tmp_path / "local")
    read = {
        "reward": [[one.verdict.reward for one in rollouts] for rollouts in (ours, theirs)],
        "log-probability a token": [[one.logprob / len(one.ids) for one in rollouts] for rollouts in (ours, theirs)],
        "tokens": [[float(len(one.ids)) for one in rollouts] for rollouts in (ours, theirs)],
    }
    with capsys.disabled():
        for name, (a, b) in read.items():
            print(f"\n{name}: embedded {fmean(a):.4f}, vLLM {fmean(b):.4f} ({len(a)} samples each)", end="")
    assert 0.0 < fmean(read["reward"][0]) < 1.0
    for a, b in read.values():
        assert len(a) == len(b) == K * len(full.candidates)
        assert a == b or within_sampling_error(a, b)


def test_greedy_samples_are_equal_but_for_near_ties(full: Pair, capsys: Any) -> None:
    differ, ties = full.greedy_differences()
    with capsys.disabled():
        print(f"\ngreedy: {differ} of {len(full.candidates)} differ, {ties} of them at a near-tie", end="")
    assert differ == ties


def test_log_probabilities_are_the_trainers_after_temperature(full: Pair) -> None:
    for temperature in (1.0, 0.6):
        sampling = SamplingConfig(temperature, TOKENS)
        assert full.gap(full.remote.sample(full.requests(2), sampling), temperature) < CLOSE


def test_a_seed_draws_the_same_sample_again_alone_and_in_waves(full: Pair) -> None:
    sampling = SamplingConfig(1.0, TOKENS)
    at_once = full.remote.sample(full.requests(4), sampling)
    waves = full.remote.sample(full.requests(4), sampling, lambda _, samples: 4 - len(samples) and 1)
    differ = sum(a.ids != b.ids for x, y in zip(at_once, waves, strict=True) for a, b in zip(x, y, strict=True))
    assert differ <= 1  # a near-tie
    assert len({one.ids for group in at_once for one in group}) > len(at_once)


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_the_server_follows_the_weights(kind: str, request: pytest.FixtureRequest) -> None:
    pair: Pair = request.getfixturevalue(kind)
    sampling = SamplingConfig(1.0, TOKENS)
    before = pair.remote.sample(pair.requests(2), sampling)
    assert pair.gap(before, 1.0) < CLOSE
    pair.move(0.02 if kind == "lora" else 0.003)
    assert pair.gap(before, 1.0) > 10 * CLOSE  # the weights are others
    assert pair.gap(pair.remote.sample(pair.requests(2), sampling), 1.0) < CLOSE

"""Sampling by transformers' generate: the samples of the engine on branches, for models that have none too."""

from __future__ import annotations

import logging
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

from pivotrl_core.engines.plain_engine import PlainEngine, PlainSession, embedded_engine
from pivotrl_core.engines.protocol import FinishReason, Request, Sample, SamplingConfig
from pivotrl_core.engines.session import EpisodeSession
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.files import read_json
from pivotrl_core.seeding import generator
from tests.invariant.test_stages import GRPO, configuration, run_chain
from tests.tiny_models import PADDED_KINDS, save_tiny, tiny_model
from tests.toy_training import pull_toys, toy_trajectories

ENDS = list(range(0, 320, 9))
PROMPTS = [(5, 17, 40, 8, 200, 31, 77, 12), (5, 17), (99,)]
CONFIG = SamplingConfig(0.8, 7)


def requests(seeds: int) -> list[Request]:
    return [Request(str(at), prompt, tuple(range(10 * at, 10 * at + seeds))) for at, prompt in enumerate(PROMPTS)]


def alone(model: Any, prompt: tuple[int, ...], sample: Sample, temperature: float) -> torch.Tensor:
    """Log-probabilities [T, V] at the tokens of a sample, by one ordinary forward pass."""
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *sample.ids]]), use_cache=False).logits[0].double()
    return torch.log_softmax(logits[len(prompt) - 1 : -1] / temperature, dim=-1)


@pytest.mark.parametrize("kind", ["llama", "qwen3_moe"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_both_engines_give_the_same_samples(kind: str, temperature: float) -> None:
    model = tiny_model(kind)
    sampling = SamplingConfig(temperature, 7)
    branched, plain = (made(model, ENDS).sample(requests(4), sampling) for made in (TransformersEngine, PlainEngine))
    assert [[one.ids for one in group] for group in plain] == [[one.ids for one in group] for group in branched]
    assert [[one.finish for one in group] for group in plain] == [[one.finish for one in group] for group in branched]
    for one, other in zip(chain.from_iterable(plain), chain.from_iterable(branched), strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=2e-4)
    assert {one.finish for one in chain.from_iterable(plain)} == {FinishReason.STOP, FinishReason.LENGTH}


@pytest.mark.parametrize("kind", PADDED_KINDS)
def test_a_model_without_branches_is_sampled_exactly(kind: str) -> None:
    model = tiny_model(kind)
    engine = PlainEngine(model, ENDS)
    for request, group in zip(requests(3), engine.sample(requests(3), CONFIG), strict=True):
        for seed, sample in zip(request.seeds, group, strict=True):
            log_p = alone(model, request.prompt_ids, sample, CONFIG.temperature)
            chosen = log_p[torch.arange(len(sample.ids)), torch.tensor(sample.ids)]
            assert sample.logprobs == pytest.approx(chosen.tolist(), abs=2e-4)
            uniform = torch.tensor(generator("engine", seed).random(CONFIG.max_tokens)[: len(sample.ids)])
            passed = log_p.exp().cumsum(dim=-1)
            for step, token in enumerate(sample.ids):  # the id at which the cumulative probability passes the number
                low = float(passed[step, token - 1]) if token else 0.0
                assert low - 1e-5 <= float(uniform[step]) <= float(passed[step, token]) + 1e-5
    for request, (sample,) in zip(requests(1), engine.sample(requests(1), SamplingConfig(0.0, 7)), strict=True):
        best = alone(model, request.prompt_ids, sample, 1.0).argmax(dim=-1)
        assert list(sample.ids) == best.tolist()


def test_samples_are_drawn_as_they_are_asked_for_and_counted() -> None:
    engine = PlainEngine(tiny_model("gemma3"), ENDS)
    whole = engine.sample(requests(4), CONFIG)
    count = engine.count
    assert count.turns == 12
    assert count.generated == sum(len(sample.ids) for group in whole for sample in group)
    assert count.prefilled == 4 * sum(len(prompt) - 1 for prompt in PROMPTS)
    # Two at first, then one more for the first request alone.
    waves = engine.sample(requests(4), CONFIG, lambda at, seen: 2 if not seen else int(at == 0 and len(seen) == 2))
    assert [len(group) for group in waves] == [3, 2, 2]
    for group, full in zip(waves, whole, strict=True):
        assert [one.ids for one in group] == [one.ids for one in full[: len(group)]]


def test_a_model_s_own_habits_in_generating_are_left_out_and_given_back() -> None:
    model = tiny_model("mistral")
    expected = PlainEngine(model, ENDS).sample(requests(2), SamplingConfig(0.0, 7))
    model.generation_config = GenerationConfig(repetition_penalty=5.0, do_sample=True, top_k=1, max_length=3)
    assert PlainEngine(model, ENDS).sample(requests(2), SamplingConfig(0.0, 7)) == expected
    assert model.generation_config.repetition_penalty == 5.0


@pytest.mark.parametrize("kind", ["gemma3", "qwen3_next"])
def test_a_session_samples_each_turn_from_its_whole_context(kind: str) -> None:
    engine = PlainEngine(tiny_model(kind), ENDS)
    opening = (3, 50, 7)
    session = engine.session(opening)
    assert isinstance(session, PlainSession)
    draw = np.random.default_rng(0)
    contexts: dict[int, tuple[int, ...]] = {}
    played = 0
    for turn in range(3):
        for name in (4, 1):
            new = tuple(draw.integers(2, 320, 5).tolist())
            contexts[name] = (*contexts.get(name, opening), *new)
            session.say(name, new, CONFIG, 7 * turn + name)
        while turns := session.advance():
            for name, sample in turns:
                ((other,),) = engine.sample([Request("", contexts[name], (7 * turn + name,))], CONFIG)
                assert sample == other
                contexts[name] = (*contexts[name], *sample.ids)
                played += 1
    assert played == 6
    session.end(4)
    session.end(1)


def test_the_embedded_engine_is_plain_where_it_has_to_be_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert type(embedded_engine(tiny_model("qwen3"), ENDS)) is TransformersEngine
        assert caplog.records == []
        assert type(embedded_engine(tiny_model("gemma3"), ENDS)) is PlainEngine
        scaled = tiny_model("llama")
        scaled.config.logits_scaling = 8.0
        assert type(embedded_engine(scaled, ENDS)) is PlainEngine
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("pivotrl_core")]
    assert ["gemma3_text" in lines[0], "logits_scaling" in lines[1], len(lines)] == [True, True, 2]
    assert isinstance(TransformersEngine(tiny_model("llama"), ENDS).session((3, 4)), EpisodeSession)


@pytest.mark.usefixtures("deterministic")
def test_a_model_with_sliding_windows_goes_through_all_stages(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    anchored = GRPO | {"kl": {"weight": 0.1}}  # no group of this policy has a lesson of its own
    sft = {"method": "sft", "epochs": 1, "batch_trajectories": 2}
    arms = {"base": {}} | {
        name: {"select": {"rule": "all"}, "train": train} for name, train in (("sft", sft), ("all-turns", anchored))
    }
    pull_toys(tmp_path, toy_trajectories(20))
    with caplog.at_level(logging.WARNING):
        run_chain(tmp_path, configuration(save_tiny("gemma3", tmp_path / "gemma3"), arms=arms))
    said = {record.getMessage().partition(" (slower)")[0] for record in caplog.records}
    assert any("padded" in line for line in said)
    assert any("generate" in line for line in said)
    report = read_json(tmp_path / "reports/train/all-turns-0/report.json")
    assert report["layout"] == "padded"
    assert report["metrics"]["train/ratio_mean"] == pytest.approx(1.0, abs=1e-3)  # the trainer is the sampler's model

"""Sampling over HTTP: what a server draws is what the embedded engine draws, whatever fails on the way.

The server is a real one around the embedded engine (tests/completions_server.py): equal seeds are equal samples.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.config.engine import OpenAIEngineConfig
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.completions import TextReading
from pivotrl_core.engines.model import Policy, load_policy
from pivotrl_core.engines.openai_engine import OpenAIEngine
from pivotrl_core.engines.openai_servers import ENDPOINTS_VARIABLE, openai_engine_of
from pivotrl_core.engines.protocol import FinishReason, Request, Sample, SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.environments.episodes import EpisodePlayer
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.errors import ConfigError, EngineError, TemporaryError
from pivotrl_core.types import Split
from tests.completions_server import CompletionsServer
from tests.tiny_models import COMPUTE

pytestmark = pytest.mark.usefixtures("deterministic")

KEY = "sk-not-for-logs"
TURNS = SamplingConfig(1.0, 6)
# Two trajectories: turns of each are prefixes of one another.
FIRST = [tuple(range(60, 60 + n)) for n in (5, 9, 14)]
SECOND = [tuple(range(90, 90 + n)) for n in (4, 11)]


@pytest.fixture(scope="module")
def policy(tiny_llama: Path) -> Policy:
    return load_policy(tiny_llama, tiny_llama, COMPUTE)


@pytest.fixture
def server(policy: Policy) -> Iterator[CompletionsServer]:
    with CompletionsServer(policy) as one:
        yield one


@contextmanager
def engine_on(
    policy: Policy, *servers: CompletionsServer, texts: TextReading | None = None, **settings: Any
) -> Iterator[OpenAIEngine]:
    """An engine that has greeted its servers; what they were asked for that is forgotten."""
    plain = {"kind": "openai", "model": "policy", "endpoints": [one.url for one in servers], "retries": 3}
    config = OpenAIEngineConfig.model_validate(plain | settings)
    with openai_engine_of(config, policy.tokenizer.eos_token_id, 4096, texts, first_wait=0.01) as engine:
        for one in servers:
            one.asked.clear()
        yield engine


def requests(*prompts: tuple[int, ...], seeds: int = 3) -> list[Request]:
    return [Request(f"r{i}", ids, tuple(range(100 * i, 100 * i + seeds))) for i, ids in enumerate(prompts)]


def drawn(samples: list[list[Sample]]) -> list[list[tuple[Any, ...]]]:
    return [[(one.ids, one.finish) for one in group] for group in samples]


def embedded(policy: Policy, asked: list[Request], sampling: SamplingConfig = TURNS) -> list[list[Sample]]:
    return TransformersEngine(policy.model, [policy.tokenizer.eos_token_id]).sample(asked, sampling)


def test_samples_and_their_log_probabilities_are_the_servers(policy: Policy, server: CompletionsServer) -> None:
    asked = requests(*FIRST, *SECOND)
    with engine_on(policy, server) as engine:
        found = engine.sample(asked, TURNS)
        count = replace(engine.count)
    expected = embedded(policy, asked)
    assert drawn(found) == drawn(expected)
    for ours, theirs in zip(chain(*found), chain(*expected), strict=True):
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
    assert count.turns == 15
    assert count.generated == sum(len(one.ids) for group in found for one in group)
    assert count.prefilled == 15  # the server says that its cache held all but the last token
    assert server.asked[0]["top_p"] == 1.0
    assert server.asked[0]["return_token_ids"] is True


def test_no_request_is_no_work(policy: Policy, server: CompletionsServer) -> None:
    with engine_on(policy, server) as engine:
        assert engine.sample([], TURNS) == []
    assert server.asked == []


def test_waves_draw_the_first_of_all_samples_and_no_more(policy: Policy, server: CompletionsServer) -> None:
    asked = requests(*FIRST, seeds=6)
    heard: list[tuple[int, int]] = []

    def more(at: int, samples: Any) -> int:
        heard.append((at, len(samples)))
        return {0: 2, 2: 3}.get(len(samples), 0) if at else 0

    with engine_on(policy, server) as engine:
        found = engine.sample(asked, TURNS, more)
    whole = embedded(policy, asked)
    assert drawn(found) == [drawn(whole)[0][:0], drawn(whole)[1][:5], drawn(whole)[2][:5]]
    assert sorted(heard) == [(0, 0), (1, 0), (1, 2), (1, 5), (2, 0), (2, 2), (2, 5)]
    assert len(server.asked) == 10


def test_turns_of_a_trajectory_follow_one_another_at_one_endpoint(policy: Policy, server: CompletionsServer) -> None:
    mixed = [FIRST[2], SECOND[1], FIRST[0], SECOND[0], FIRST[1]]
    with CompletionsServer(policy) as other, engine_on(policy, server, other, concurrency=1) as engine:
        found = engine.sample(requests(*mixed, seeds=2), TURNS)
        homes = [[tuple(body["prompt"]) for body in one.asked] for one in (server, other)]
    assert sorted(homes) == [[ids for ids in FIRST for _ in range(2)], [ids for ids in SECOND for _ in range(2)]]
    assert drawn(found) == drawn(embedded(policy, requests(*mixed, seeds=2)))


def test_no_more_requests_are_in_flight_than_asked(policy: Policy, server: CompletionsServer) -> None:
    server.faults.extend([*["ok"], *["slow"] * 3])  # the greeting, then three that stay for a while
    with engine_on(policy, server, concurrency=3) as engine:
        engine.sample(requests(*FIRST, *SECOND), TURNS)
    assert server.busiest == 3
    assert len(server.asked) == 15


@pytest.mark.parametrize("fault", ["503", "500", "429:0", "drop"])
def test_what_may_pass_is_tried_again(fault: str, policy: Policy, server: CompletionsServer) -> None:
    asked = requests(*FIRST)
    with engine_on(policy, server) as engine:
        server.faults.extend([fault, "ok", fault])
        found = engine.sample(asked, TURNS)
    assert drawn(found) == drawn(embedded(policy, asked))
    assert len(server.asked) == 9 + 2


def test_a_request_that_takes_too_long_is_tried_again(policy: Policy, server: CompletionsServer) -> None:
    with engine_on(policy, server, request_seconds=2.0) as engine:
        server.faults.append("stuck")
        found = engine.sample(requests(FIRST[0], seeds=1), TURNS)
    assert drawn(found) == drawn(embedded(policy, requests(FIRST[0], seeds=1)))
    assert len(server.asked) == 2


def test_another_endpoint_takes_over_from_one_that_fails(policy: Policy, server: CompletionsServer) -> None:
    with CompletionsServer(policy) as other, engine_on(policy, server, other) as engine:
        server.always = "drop"
        found = engine.sample(requests(*FIRST, *SECOND), TURNS)
        assert len(other.asked) == 15
    assert drawn(found) == drawn(embedded(policy, requests(*FIRST, *SECOND)))


@pytest.mark.parametrize("fault", ["503", "429:0", "drop"])
def test_a_failure_that_does_not_pass_is_worth_a_later_retry(
    fault: str, policy: Policy, server: CompletionsServer
) -> None:
    with engine_on(policy, server, retries=2) as engine:
        server.always = fault
        with pytest.raises(TemporaryError, match="last of 3 tries"):
            engine.sample(requests(FIRST[0], seeds=1), TURNS)
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("400", EngineError, "refused the request"),
        ("422", EngineError, "refused the request"),
        ("401", ConfigError, "OPENAI_API_KEY"),
        ("404", ConfigError, r"engine\.model"),
    ],
)
def test_a_refusal_is_final_and_tells_no_key(
    fault: str, error: type[Exception], words: str, policy: Policy, server: CompletionsServer,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.key = KEY
    caplog.set_level(logging.DEBUG)
    with engine_on(policy, server, concurrency=1) as engine:
        server.faults.append(fault)
        with pytest.raises(error, match=words) as caught:
            engine.sample(requests(*FIRST), TURNS)
        assert KEY not in repr(engine.completions) + str(caught.value)
    assert len([body for body in server.asked if body["prompt"] == list(FIRST[0]) and body["seed"] == 0]) == 1
    assert KEY not in caplog.text


def test_a_wrong_key_names_its_variable_and_a_missing_one_is_asked_for(
    policy: Policy, server: CompletionsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = KEY
    monkeypatch.setenv("MINE", "sk-wrong")
    with pytest.raises(ConfigError, match="refuses the key in the variable MINE") as caught:
        engine_on(policy, server, key_variable="MINE").__enter__()
    assert "sk-wrong" not in str(caught.value)
    monkeypatch.delenv("MINE")
    with pytest.raises(ConfigError, match="asks for a key; put one into the variable MINE"):
        engine_on(policy, server, key_variable="MINE").__enter__()
    monkeypatch.setenv("MINE", "sk-\n")
    with pytest.raises(ConfigError, match="MINE: the key in it has characters"):
        engine_on(policy, server, key_variable="MINE").__enter__()


def test_a_server_without_token_ids_serves_evaluation_alone(policy: Policy, server: CompletionsServer) -> None:
    server.ids = False
    with pytest.raises(ConfigError, match="returns no token ids"):
        engine_on(policy, server).__enter__()
    renderer = ChatRenderer(policy.tokenizer, "compact")
    texts = TextReading(policy.tokenizer.eos_token, renderer.encode)
    with engine_on(policy, server, texts=texts) as engine:
        found = engine.sample(requests(*FIRST, seeds=2), TURNS)
    for one, theirs in zip(chain(*found), chain(*embedded(policy, requests(*FIRST, seeds=2))), strict=True):
        ended = theirs.finish is FinishReason.STOP
        text = policy.tokenizer.decode(theirs.ids, skip_special_tokens=True)
        assert renderer.decode(one.ids[:-1] if ended else one.ids) == text
        assert (one.finish, one.logprobs) == (theirs.finish, ())
        assert (one.ids[-1:] == (renderer.eos_id,)) is ended
    assert {"return_token_ids", "top_k"}.isdisjoint(server.asked[0])


def test_log_probabilities_from_before_temperature_are_refused(policy: Policy, server: CompletionsServer) -> None:
    cool = SamplingConfig(0.6, 4)
    with engine_on(policy, server) as engine:
        found = engine.sample(requests(*FIRST), cool)
        assert drawn(found) == drawn(embedded(policy, requests(*FIRST), cool))
    server.tempered = False
    with engine_on(policy, server) as engine:
        assert engine.sample(requests(*FIRST), TURNS)
        assert engine.sample(requests(*FIRST), SamplingConfig(0.0, 4))
        with pytest.raises(ConfigError, match="before temperature"):
            engine.sample(requests(*FIRST), cool)


def test_a_model_that_is_not_served_and_endpoints_that_are_not_named(
    policy: Policy, server: CompletionsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"engine\.model: .* does not serve 'other'; it serves policy"):
        engine_on(policy, server, model="other").__enter__()
    monkeypatch.delenv(ENDPOINTS_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=ENDPOINTS_VARIABLE):
        engine_on(policy).__enter__()
    monkeypatch.setenv(ENDPOINTS_VARIABLE, "localhost:8000")
    with pytest.raises(ConfigError, match=f"{ENDPOINTS_VARIABLE}: .* no address"):
        engine_on(policy).__enter__()
    monkeypatch.setenv(ENDPOINTS_VARIABLE, f"{server.url}/, {server.url}")
    with engine_on(policy) as engine:
        assert engine.endpoints == 2


def test_a_state_that_is_too_long_is_refused(policy: Policy, server: CompletionsServer) -> None:
    with engine_on(policy, server) as engine, pytest.raises(ConfigError, match="cannot hold a prompt of 4095"):
        engine.sample(requests((60,) * 4095), TURNS)


def test_an_interrupted_sampling_ends_at_once(policy: Policy, server: CompletionsServer) -> None:
    def stop(at: int, samples: Any) -> int:
        if samples:
            raise KeyboardInterrupt
        return 1

    with engine_on(policy, server, concurrency=1) as engine:
        server.faults.extend(["ok", "slow", "slow"])
        with pytest.raises(KeyboardInterrupt):
            engine.sample(requests(*FIRST, *SECOND), TURNS, stop)
    assert len(server.asked) <= 2


def test_episodes_over_http_are_those_of_the_embedded_engine(policy: Policy, server: CompletionsServer) -> None:
    renderer = ChatRenderer(policy.tokenizer, "compact")
    tasks = get_domain("helpdesk").tasks(Split.TRAIN, 3, 0)

    def played(engine: Any) -> list[tuple[Any, ...]]:
        player = EpisodePlayer(engine, renderer, get_domain("helpdesk"), 5, 3, 4)
        return [(e.task.id, [s.ids for s in e.samples], e.contexts) for e in player.play(tasks, [0.0, 1.0], "x", 0)]

    with engine_on(policy, server) as engine:
        found = played(engine)
        assert engine.count.turns == sum(len(samples) for _, samples, _ in found) == len(server.asked)
    assert found == played(TransformersEngine(policy.model, [renderer.eos_id]))

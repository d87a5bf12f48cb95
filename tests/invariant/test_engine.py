"""The embedded engine samples what ordinary full-context computation would, however requests are batched (fp32)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model

from pivotrl_core.engines import branched_model
from pivotrl_core.engines.branched_model import inverse_transform
from pivotrl_core.engines.protocol import FinishReason, Request, Sample, SamplingConfig
from pivotrl_core.engines.session import EpisodeSession
from pivotrl_core.engines.stems import plan_stems
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.errors import ConfigError
from tests.tiny_models import tiny_model

KINDS = ["llama", "qwen3"]
EOS = 1
STEM = (5, 6, 7, 8, 9, 10)
# Turns of one conversation (prefixes of one another), a sibling, a stranger, and one with a single token.
PROMPTS = [STEM[:3], STEM, (*STEM, 11, 12, 13), (*STEM, 11, 14), (20, 21), (5,), STEM]
GREEDY = SamplingConfig(0.0, 12)


def requests(prompts: list[tuple[int, ...]], seeds: int = 1) -> list[Request]:
    return [
        Request(str(i), prompt, tuple(1000 * sum(prompt) + k for k in range(seeds))) for i, prompt in enumerate(prompts)
    ]


def full_logprobs(model: Any, prompt: tuple[int, ...], ids: tuple[int, ...], temperature: float = 1.0) -> torch.Tensor:
    """Log-probabilities [w, V] of every step, from one ordinary forward pass over prompt and continuation."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([[*prompt, *ids]]), use_cache=False).logits[0]
    return torch.log_softmax(logits[len(prompt) - 1 : -1].float() / temperature, -1)


def assert_logprobs(model: Any, prompt: tuple[int, ...], sample: Sample, temperature: float = 1.0) -> None:
    expected = full_logprobs(model, prompt, sample.ids, temperature)
    chosen = expected.gather(1, torch.tensor(sample.ids)[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(sample.logprobs), chosen, rtol=1e-4, atol=2e-4)


def ids_of(results: list[list[Sample]]) -> list[list[tuple[int, ...]]]:
    return [[sample.ids for sample in samples] for samples in results]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompts", [PROMPTS[1:4], [*PROMPTS[1:4], STEM[:3]], PROMPTS[:1] * 2], ids=len)
def test_what_all_states_begin_with_is_attended_to_once_and_alike(kind: str, prompts: list[tuple[int, ...]]) -> None:
    """The lead ends before the shortest state does, which may be the lead itself."""
    model = tiny_model(kind)
    engine = TransformersEngine(model, [EOS])
    for prompt, samples in zip(prompts, engine.sample(requests(prompts, 3), SamplingConfig(0.8, 10)), strict=True):
        for sample in samples:
            assert_logprobs(model, prompt, sample, 0.8)
    longest = [one for one in set(prompts) if not any(one == other[: len(one)] != other for other in prompts)]
    lead = min(map(len, prompts)) - 1
    assert engine.count.prefilled == lead + sum(len(one) - 1 - lead for one in longest)


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_turns_equal_those_of_transformers(kind: str) -> None:
    model = tiny_model(kind)
    model.generation_config.pad_token_id = 0
    engine = TransformersEngine(model, [])
    for prompt, (sample,) in zip(PROMPTS, engine.sample(requests(PROMPTS), GREEDY), strict=True):
        with torch.inference_mode():
            whole = model.generate(
                torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                max_new_tokens=12, do_sample=False, eos_token_id=None,
            )  # fmt: skip
        assert sample.ids == tuple(whole[0, len(prompt) :].tolist())
        assert sample.finish is FinishReason.LENGTH
        assert_logprobs(model, prompt, sample)


@pytest.mark.parametrize("kind", KINDS)
def test_log_probabilities_are_those_of_the_distribution_sampled_from(kind: str) -> None:
    model = tiny_model(kind)
    engine = TransformersEngine(model, [EOS])
    results = engine.sample(requests(PROMPTS, seeds=4), SamplingConfig(0.8, 10))
    assert [len(samples) for samples in results] == [4] * len(PROMPTS)
    for prompt, samples in zip(PROMPTS, results, strict=True):
        assert len({sample.ids for sample in samples}) > 1
        for sample in samples:
            assert_logprobs(model, prompt, sample, temperature=0.8)


def test_a_sample_is_its_own_seeds_whatever_is_sampled_beside_it() -> None:
    # Equal up to near-ties: none of these few draws lies within rounding of a border between two tokens.
    engine = TransformersEngine(tiny_model("qwen3"), [EOS])
    sampling = SamplingConfig(1.0, 10)
    together = ids_of(engine.sample(requests(PROMPTS, seeds=3), sampling))
    assert ids_of(engine.sample(requests(PROMPTS, seeds=3), sampling)) == together
    backwards = engine.sample(requests(PROMPTS, seeds=3)[::-1], sampling)
    assert ids_of(backwards)[::-1] == together
    alone = [engine.sample([request], sampling)[0] for request in requests(PROMPTS, seeds=3)]
    assert ids_of(alone) == together
    few_rows = TransformersEngine(engine.model, [EOS], max_rows=4).sample(requests(PROMPTS, seeds=3), sampling)
    assert ids_of(few_rows) == together


def test_the_same_call_gives_the_same_bits() -> None:
    engine = TransformersEngine(tiny_model("llama"), [EOS])
    first, second = (engine.sample(requests(PROMPTS, seeds=5), SamplingConfig(1.0, 10)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", [(40,), (40, 41, 42)], ids=len)
def test_turns_whose_last_ids_later_turns_render_otherwise_share_the_rest(kind: str, end: tuple[int, ...]) -> None:
    """As templates do it that open the thinking of the turn that is due, and of no other."""
    model = tiny_model(kind)
    engine = TransformersEngine(model, [EOS])
    text = tuple(5 + 7 * n % 300 for n in range(260))
    prompts = [(*text[:length], *end) for length in (100, 150, 200, 260)]
    assert [len(members) for _, members in plan_stems(requests(prompts))] == [4]
    for prompt, samples in zip(prompts, engine.sample(requests(prompts, 3), SamplingConfig(0.8, 10)), strict=True):
        assert len(samples) == 3
        for sample in samples:
            assert_logprobs(model, prompt, sample, 0.8)
    # Once the longest but its last id, and for each other one its end but for the id that is read anyway.
    assert engine.count.prefilled == 260 + len(end) - 1 + 3 * (len(end) - 1)
    alone = [ids_of(engine.sample([one], SamplingConfig(0.8, 10)))[0] for one in requests(prompts, 3)]
    assert ids_of(engine.sample(requests(prompts, 3), SamplingConfig(0.8, 10))) == alone


def test_a_turn_ends_with_its_stop_id_or_at_the_limit() -> None:
    model = tiny_model("llama")
    stops = list(range(0, 320, 9))  # a ninth of the vocabulary, so that rows end at many different lengths
    engine = TransformersEngine(model, stops)
    samples = engine.sample(requests(PROMPTS, seeds=12), SamplingConfig(1.5, 14))
    lengths = set()
    for prompt, group in zip(PROMPTS, samples, strict=True):
        for sample in group:
            *before, last = sample.ids
            assert not set(before) & set(stops)
            assert (last in stops) == (sample.finish is FinishReason.STOP)
            assert sample.finish is FinishReason.STOP or len(sample.ids) == 14
            assert_logprobs(model, prompt, sample, temperature=1.5)
            lengths.add(len(sample.ids))
    assert len(lengths) > 5  # so rows left the batch at several points
    assert engine.count.turns == 12 * len(PROMPTS)
    assert engine.count.generated == sum(len(sample.ids) for group in samples for sample in group)


def test_each_distinct_prompt_token_is_computed_once() -> None:
    engine = TransformersEngine(tiny_model("llama"), [EOS])
    engine.sample(requests([STEM[:3], STEM, STEM], seeds=2), SamplingConfig(1.0, 2))
    assert engine.count.prefilled == len(STEM) - 1  # its last token opens the continuation
    # Two stems with four tokens in common: the common part once, then what is each one's own.
    engine = TransformersEngine(engine.model, [EOS])
    engine.sample(requests([(1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 7, 8, 9)]), SamplingConfig(1.0, 2))
    assert engine.count.prefilled == 4 + 1 + 2


def test_prompts_share_the_stem_of_the_longest_that_begins_with_them() -> None:
    stems = plan_stems(requests(PROMPTS))
    assert sorted(index for _, members in stems for index in members) == list(range(len(PROMPTS)))
    for longest, members in stems:
        assert all(PROMPTS[longest][: len(PROMPTS[i])] == PROMPTS[i] for i in members)
    assert len(stems) == 3


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_tokens_come_as_often_as_softmax_says(temperature: float) -> None:
    model = tiny_model("llama", vocabulary=8)
    engine = TransformersEngine(model, [])
    draws = 4000
    (samples,) = engine.sample([Request("a", (3, 4, 5), tuple(range(draws)))], SamplingConfig(temperature, 2))
    first = np.bincount([sample.ids[0] for sample in samples], minlength=8)
    expected = full_logprobs(model, (3, 4, 5), (0,), temperature)[0].exp().numpy()
    # Five standard deviations of a binomial count; the draws are seeded, so this is no matter of luck.
    assert np.all(np.abs(first - draws * expected) < 5 * np.sqrt(draws * expected * (1 - expected)) + 1)
    likely = int(first.argmax())
    second = np.bincount([sample.ids[1] for sample in samples if sample.ids[0] == likely], minlength=8)
    after = full_logprobs(model, (3, 4, 5), (likely, 0), temperature)[1].exp().numpy()
    total = int(second.sum())
    assert np.all(np.abs(second - total * after) < 5 * np.sqrt(total * after * (1 - after)) + 1)


def test_the_inverse_transform_never_leaves_the_support() -> None:
    logprobs = torch.tensor([0.0, 0.5, 0.5, 0.0]).log()[None].expand(4, -1)
    uniforms = torch.tensor([0.0, 0.49, 0.5, 1.0 - 2**-53], dtype=torch.float64)
    assert inverse_transform(logprobs, uniforms, torch.arange(4)).tolist() == [1, 1, 2, 2]
    assert inverse_transform(logprobs[:1], uniforms, torch.zeros(4, dtype=torch.long)).tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("layer_types", ["full_attention", "sliding_attention", "full_attention"], "full attention"),
        ("final_logit_softcapping", 30.0, "final_logit_softcapping"),
        ("logits_scaling", 8.0, "logits_scaling"),
    ],
)
def test_a_model_that_computes_otherwise_is_refused(key: str, value: object, fault: str) -> None:
    model = tiny_model("qwen3")
    setattr(model.config, key, value)
    with pytest.raises(ConfigError, match=fault):
        TransformersEngine(model, [EOS])


def test_a_window_without_a_list_of_layers_is_refused() -> None:
    model = tiny_model("llama")
    model.config.sliding_window = 64
    with pytest.raises(ConfigError, match="full attention"):
        TransformersEngine(model, [EOS])


def test_samples_do_not_depend_on_how_many_logits_fit_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TransformersEngine(tiny_model("llama"), [EOS])
    prompts = requests(PROMPTS, seeds=4)
    together = engine.sample(prompts, SamplingConfig(0.8, 10)), engine.sample(prompts, GREEDY)
    monkeypatch.setattr(branched_model, "CACHED", 1)
    assert (engine.sample(prompts, SamplingConfig(0.8, 10)), engine.sample(prompts, GREEDY)) == together


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_equals_sampling_each_turn_from_its_full_context(kind: str) -> None:
    model = tiny_model(kind)
    engine = TransformersEngine(model, list(range(0, 320, 9)))
    temperatures = (0.0, 1.0, 1.0, 0.7, 0.0, 1.0, 1.0)
    turns = (4, 1, 3, 4, 2, 2, 5)
    draw = np.random.default_rng(4)
    session = EpisodeSession(engine, STEM)
    contexts = [STEM] * len(turns)
    done = [0] * len(turns)
    seeds: dict[int, int] = {}

    def say(name: int) -> None:
        ids = tuple(int(i) for i in draw.integers(2, 300, draw.integers(1, 9)))
        contexts[name] += ids
        seeds[name] = 100 * name + done[name]
        session.say(name, ids, SamplingConfig(temperatures[name], 6), seeds[name])

    coming = list(range(4, len(turns)))  # they begin where others have ended, beside those that go on
    for name in range(4):
        say(name)
    while found := session.advance():
        for name, reply in found:
            sampling = SamplingConfig(temperatures[name], 6)
            ((expected,),) = engine.sample([Request("x", contexts[name], (seeds[name],))], sampling)
            assert (reply.ids, reply.finish) == (expected.ids, expected.finish)
            assert_logprobs(model, contexts[name], reply, sampling.temperature or 1.0)
            contexts[name] += reply.ids
            done[name] += 1
            if done[name] < turns[name]:
                say(name)
                continue
            session.end(name)
            if coming:
                say(coming.pop(0))
    assert done == list(turns)


def turns_of(session: EpisodeSession) -> dict[int, Sample]:
    """All turns that come of what was said."""
    found: dict[int, Sample] = {}
    while turns := session.advance():
        found |= dict(turns)
    return found


def test_a_session_may_begin_with_nothing_in_common() -> None:
    engine = TransformersEngine(tiny_model("llama"), [EOS])
    session = EpisodeSession(engine, ())
    session.say(0, (5, 6), GREEDY, 0)
    session.say(1, (7,), GREEDY, 1)
    turns = turns_of(session)
    expected = engine.sample(requests([(5, 6), (7,)]), GREEDY)
    assert [turns[name].ids for name in (0, 1)] == [sample.ids for (sample,) in expected]


def test_a_session_computes_every_token_once() -> None:
    engine = TransformersEngine(tiny_model("llama"), [EOS])
    sampling = SamplingConfig(1.0, 4)
    session = EpisodeSession(engine, STEM)
    assert session.advance() == []
    session.say(0, (20, 21, 22), sampling, 0)
    session.say(1, (30,), sampling, 1)
    turns = turns_of(session)
    generated = sum(len(turn.ids) for turn in turns.values())
    assert (engine.count.prefilled, engine.count.turns, engine.count.generated) == (len(STEM) + 2, 2, generated)
    # The last id of a turn was sampled but not computed: it is read with what follows it.
    session.end(1)
    session.say(0, (23, 24), sampling, 2)
    again = turns_of(session)
    assert list(again) == [0]
    assert engine.count.prefilled == len(STEM) + 2 + 2
    assert (engine.count.turns, engine.count.generated) == (3, generated + len(again[0].ids))
    session.end(0)
    assert session.advance() == []


def rows_of_passes(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Filled while the engine works: rows of each forward pass of one token."""
    widths: list[int] = []
    forward = engine.forward

    def counted(branches: Any, ids_NW: torch.Tensor, positions_NW: torch.Tensor) -> torch.Tensor:
        if ids_NW.shape[1] == 1:
            widths.append(len(ids_NW))
        return forward(branches, ids_NW, positions_NW)

    monkeypatch.setattr(engine, "forward", counted)
    return widths


def test_who_has_ended_a_turn_goes_on_beside_those_that_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many conversations, hardly a row is computed for nothing, and no more passes than their longest chain."""
    engine = TransformersEngine(tiny_model("llama"), list(range(0, 320, 12)))
    widths = rows_of_passes(engine, monkeypatch)
    session = EpisodeSession(engine, STEM)
    names, turns, sampling = 32, 10, SamplingConfig(1.0, 30)
    done = [0] * names
    for name in range(names):
        session.say(name, (20 + name,), sampling, name)
    generated = 0
    while found := session.advance():
        for name, turn in found:
            generated += len(turn.ids)
            done[name] += 1
            if done[name] < turns:
                session.say(name, (20, 21), sampling, 1000 * done[name] + name)
            else:
                session.end(name)
    assert done == [turns] * names
    assert sum(widths) < 1.35 * generated
    assert len(widths) < 0.75 * turns * 30  # ten turns of up to thirty tokens, each waiting for the slowest


def test_a_session_keeps_no_more_than_its_longest_conversation_needs() -> None:
    session = EpisodeSession(TransformersEngine(tiny_model("llama"), [EOS]), STEM)
    sampling = SamplingConfig(1.0, 4)
    for name, count in enumerate((3, 90, 1)):
        session.say(name, tuple(range(20, 20 + count)), sampling, name)
    replies = turns_of(session)
    needed = {name: count - 1 + len(replies[name].ids) for name, count in enumerate((3, 90, 1))}
    assert {one.name: one.kept for one in session.conversations.values()} == needed
    store = session.histories.store
    assert max(needed.values()) <= store.keys[0].shape[2] < max(needed.values()) + 64
    session.end(1)
    session.say(0, (5,), sampling, 3)
    session.say(2, (6,), sampling, 4)
    turns_of(session)
    assert store.keys[0].shape[0] == 2
    assert store.keys[0].shape[2] < 90


@pytest.mark.parametrize("temperature", [0.02, 1.0])
def test_samples_of_a_state_are_computed_once_until_they_differ(
    temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TransformersEngine(tiny_model("llama"), [EOS])
    widths = rows_of_passes(engine, monkeypatch)
    (samples,) = engine.sample([Request("a", STEM, tuple(range(8)))], SamplingConfig(temperature, 6))
    distinct = [len({sample.ids[:step] for sample in samples if len(sample.ids) > step}) for step in range(6)]
    # A line that ended may stay for a few steps; none is there that nobody wrote.
    assert all(width == own or own < width <= own / 0.75 for width, own in zip(widths, distinct, strict=False) if own)
    assert widths[0] == 1
    for sample in samples:
        assert_logprobs(engine.model, STEM, sample, temperature)


def test_sampling_leaves_the_model_as_it_was() -> None:
    model = tiny_model("llama")
    before = model(input_ids=torch.tensor([STEM])).logits
    TransformersEngine(model, [EOS]).sample(requests(PROMPTS), GREEDY)
    after = model(input_ids=torch.tensor([STEM])).logits
    assert torch.equal(before, after)
    after.sum().backward()  # and it can still be trained


def adapted(dtype: torch.dtype) -> Any:
    """A tiny model with an adapter that is not zero."""
    model = tiny_model("llama").to(dtype)
    model = (
        get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"), autocast_adapter_dtype=False)
        .to(dtype)
        .eval()
    )
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator).mul(0.1).to(dtype)
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sampling_with_an_adapter_is_the_adapted_policys_and_leaves_every_weight_alone(dtype: torch.dtype) -> None:
    model = adapted(dtype)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    engine = TransformersEngine(model, [EOS])
    samples = engine.sample(requests([STEM, (20, 21)], 3), SamplingConfig(1.0, 8))
    session = EpisodeSession(engine, STEM)
    session.say(0, (11,), SamplingConfig(1.0, 8), 7)
    reply = turns_of(session)[0]
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    if dtype == torch.float32:
        for prompt, drawn in zip([STEM, (20, 21)], samples, strict=True):
            for sample in drawn:
                assert_logprobs(model, prompt, sample)
        assert_logprobs(model, (*STEM, 11), reply)
        with model.disable_adapter():
            assert_differs(model, STEM, samples[0][0])
            ((plain,),) = engine.sample(requests([STEM]), SamplingConfig(1.0, 8))
            assert_logprobs(model, STEM, plain)


def assert_differs(model: Any, prompt: tuple[int, ...], sample: Sample) -> None:
    expected = full_logprobs(model, prompt, sample.ids).gather(1, torch.tensor(sample.ids)[:, None])[:, 0]
    assert (expected - torch.tensor(sample.logprobs)).abs().max() > 1e-2


def test_weights_are_put_back_where_sampling_fails() -> None:
    model = adapted(torch.float32)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(IndexError):
        TransformersEngine(model, [EOS]).sample(requests([(10**6, 5)]), GREEDY)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(getattr(layer, "merged", False) for layer in model.modules())


def test_a_prompt_that_leaves_no_room_in_the_models_context_is_refused() -> None:
    engine = TransformersEngine(tiny_model("llama"), [1])
    engine.context_tokens = 12
    assert engine.sample(requests([tuple(range(2, 10))]), SamplingConfig(1.0, 4))
    with pytest.raises(ConfigError, match=r"context of 12 tokens cannot hold a prompt of 9 and 4 more"):
        engine.sample(requests([(2, 3), tuple(range(2, 11))]), SamplingConfig(1.0, 4))

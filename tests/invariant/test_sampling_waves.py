"""Samples that are asked for in waves are those of one call, and no wave is larger than the engine allows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pivotrl_core.engines import decoding
from pivotrl_core.engines.decoding import Decoder, Line
from pivotrl_core.engines.protocol import Sample, SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.lanes import Lanes
from tests.invariant.test_engine import EOS, PROMPTS, ids_of, requests
from tests.tiny_models import tiny_model


@pytest.mark.parametrize("lanes", [1, 2])
def test_samples_that_are_asked_for_in_waves_are_those_of_one_call(lanes: int) -> None:
    engine = TransformersEngine(tiny_model("llama"), [EOS], lanes=Lanes(lanes, 1))
    prompts, sampling = requests(PROMPTS, seeds=6), SamplingConfig(0.8, 10)
    whole = ids_of(engine.sample(prompts, sampling))
    prefilled = engine.count.prefilled
    asked: list[tuple[int, int]] = []

    def more(at: int, samples: Sequence[Sample]) -> int:
        asked.append((at, len(samples)))
        return [0, 1, 2, 9][at % 4] if len(samples) < 2 + at else 0

    assert ids_of(engine.sample(prompts, sampling, more)) == [
        samples[:count] for samples, count in zip(whole, [0, 3, 4, 6, 0, 6, 6], strict=True)
    ]
    assert engine.count.prefilled - prefilled <= prefilled  # a state is computed once, not once a wave
    assert {(1, 0), (1, 2), (1, 3)} <= set(asked)
    assert (3, 6) not in asked  # all seeds are used: there is nothing to ask
    assert (4, 0) in asked  # and one that wants nothing costs nothing


def test_no_batch_has_more_rows_than_fit_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TransformersEngine(tiny_model("llama"), [EOS], max_rows=8)
    prompts, batches = requests([(5, 6, at) for at in range(10, 16)], seeds=4), []
    write = Decoder.write

    def counted(self: Decoder) -> None:
        batches.append(sum(len(state.rows) for state in self.states))
        write(self)

    monkeypatch.setattr(Decoder, "write", counted)
    engine.sample(prompts, SamplingConfig(0.8, 3), lambda _, samples: 3 if samples else 1)
    assert batches == [8, 8, 8]


class Watched:
    """How many lines each step of a decoder computes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[int] = []
        compute = Decoder._compute

        def counted(decoder: Decoder, lines: Sequence[Line]) -> None:
            self.lines.append(len(lines))
            compute(decoder, lines)

        monkeypatch.setattr(Decoder, "_compute", counted)


def prefixes(results: list[list[Sample]]) -> int:
    """What has to be computed for these samples: what precedes some token of one of them, behind each state once."""
    return sum(len({one.ids[:n] for one in samples for n in range(len(one.ids))}) for samples in results)


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_samples_that_come_one_by_one_cost_what_they_cost_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "AHEAD_BELOW", 0)
    watched = Watched(monkeypatch)
    engine = TransformersEngine(tiny_model(kind), [EOS])
    prompts, sampling = requests(PROMPTS, seeds=6), SamplingConfig(0.3, 10)
    whole = engine.sample(prompts, sampling)
    assert sum(watched.lines) == prefixes(whole) < sum(len(one.ids) for samples in whole for one in samples)
    watched.lines.clear()
    few = engine.sample(prompts, sampling, lambda at, samples: int(len(samples) <= at % 5))
    assert [len(samples) for samples in few] == [1, 2, 3, 4, 5, 1, 2]
    assert ids_of(few) == [samples[: len(own)] for samples, own in zip(ids_of(whole), few, strict=True)]
    assert sum(watched.lines) == prefixes(few)
    for own, all_of in zip(few, whole, strict=True):
        for one, other in zip(own, all_of, strict=False):
            assert one.logprobs == pytest.approx(other.logprobs, abs=2e-4)


def test_rows_are_written_ahead_where_a_batch_is_small_and_only_those_asked_for_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(monkeypatch)
    engine = TransformersEngine(tiny_model("llama"), [EOS])
    prompts, sampling = requests(PROMPTS, seeds=6), SamplingConfig(0.8, 10)
    whole = engine.sample(prompts, sampling)
    steps, turns, generated = len(watched.lines), engine.count.turns, engine.count.generated
    assert (turns, generated) == (42, sum(len(one.ids) for samples in whole for one in samples))
    watched.lines.clear()
    few = engine.sample(prompts, sampling, lambda _, samples: int(len(samples) < 3))
    assert ids_of(few) == [samples[:3] for samples in ids_of(whole)]
    assert len(watched.lines) <= steps + 1  # all 42 rows were begun as soon as the first could ask for more
    assert engine.count.turns - turns == 21
    # What is written in vain was computed too, and is counted.
    given = sum(len(one.ids) for samples in few for one in samples)
    assert given < engine.count.generated - generated <= generated

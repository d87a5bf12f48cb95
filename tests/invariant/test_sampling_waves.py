"""Samples that are asked for in waves are those of one call, and no wave is larger than the engine allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

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


def test_no_wave_has_more_rows_than_fit_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TransformersEngine(tiny_model("llama"), [EOS], max_rows=8)
    prompts, waves = requests([(5, 6, at) for at in range(10, 16)], seeds=4), []
    decode = TransformersEngine.decode

    def counted(self: TransformersEngine, branches: Any, rows: Any, *rest: Any) -> None:
        waves.append(len(rows))
        decode(self, branches, rows, *rest)

    monkeypatch.setattr(TransformersEngine, "decode", counted)
    engine.sample(prompts, SamplingConfig(0.8, 3), lambda _, samples: 3 if samples else 1)
    assert sorted(waves) == [2, 2, 2, 6, 6, 6]

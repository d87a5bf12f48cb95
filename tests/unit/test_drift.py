"""Drift is the exact KL per token, 0 for the same model, and the order of alternatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.evaluation.benchmarks.registry import get_benchmark
from pivotrl_core.evaluation.drift import (
    TextScores,
    action_order,
    continuation,
    instruction_sequences,
    neutral_sequences,
    score_texts,
)
from tests.tiny_models import EOS, tiny_model, tiny_tokenizer

TEXTS = [continuation((5, 6, 7), (8, 9)), continuation((5, 6, 7), (8, 10, 11)), continuation((1, 2), (3,))]


def always(model: Any) -> Callable[[], AbstractContextManager[Any]]:
    @contextmanager
    def give() -> Iterator[Any]:
        yield model

    return give


def test_a_model_has_not_drifted_from_itself() -> None:
    model = always(tiny_model("llama"))
    scores = score_texts(model, model, TEXTS, 1000)
    assert scores.kl == 0.0
    assert scores.logprobs_N == scores.base_logprobs_N


@pytest.mark.parametrize("row_tokens", [1, 6, 1000])
def test_drift_is_the_mean_exact_divergence_over_target_tokens(row_tokens: int) -> None:
    policy, base = tiny_model("llama", seed=1), tiny_model("llama", seed=2)
    divergences, logprobs = [], []
    with torch.inference_mode():
        for text in TEXTS:
            places = torch.tensor(text.places) - 1
            ids = torch.tensor([text.ids])
            log_p, log_q = (torch.log_softmax(m(input_ids=ids).logits[0], -1)[places] for m in (policy, base))
            divergences += (log_p.exp() * (log_p - log_q)).sum(-1).tolist()
            logprobs.append(float(log_p.gather(1, ids[0][places + 1][:, None]).sum()))
    scores = score_texts(always(policy), always(base), TEXTS, row_tokens)
    assert scores.kl == pytest.approx(sum(divergences) / len(divergences), rel=1e-4)
    assert scores.logprobs_N == pytest.approx(logprobs, rel=1e-4)
    assert scores.kl > 0.01


def test_the_order_of_alternatives_is_compared_within_each_state() -> None:
    # State 1: order kept, 3 pairs. State 2: the only pair has changed places.
    scores = TextScores(0.0, [-1.0, -2.0, -3.0, -5.0, -4.0], [-2.0, -4.0, -9.0, -1.0, -2.0])
    same = action_order(scores, [3, 2])
    assert same["eval/drift/order_agreement"] == pytest.approx(3 / 4)
    assert action_order(scores, [3])["eval/drift/order_agreement"] == pytest.approx(1.0)
    assert action_order(TextScores(0.0, [], []), []) == {
        "eval/drift/order_agreement": None,
        "eval/drift/kendall_tau": None,
    }


def test_neutral_text_trains_no_format_and_instructions_end_in_their_answers() -> None:
    renderer = ChatRenderer(tiny_tokenizer(), "compact")
    prose = neutral_sequences(renderer, 3)
    assert len(prose) == 3
    assert all(one.places == tuple(range(1, len(one.ids))) for one in prose)
    assert all(EOS not in renderer.decode(one.ids) for one in prose)
    benchmarks = [get_benchmark("mmlu-pro"), get_benchmark("aime25")]
    asked = instruction_sequences(renderer, benchmarks, 4)
    expected = [benchmark.reference(benchmark.items()[i]) for i in range(2) for benchmark in benchmarks]
    assert [renderer.decode([one.ids[place] for place in one.places]) for one in asked] == [t + EOS for t in expected]

"""What a benchmark is given to score: the text of a greedy answer, without its end and without its thinking."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import FinishReason, Request, Sample, SamplingConfig, TokenCount
from pivotrl_core.errors import ConfigError
from pivotrl_core.evaluation.benchmarks.registry import get_benchmark
from pivotrl_core.stages.evaluation_parts import _answers, _some_items
from pivotrl_core.stages.models import check_template
from tests.invariant.test_stages import configuration
from tests.tiny_models import CHATML, CHATML_REWRITING, tiny_tokenizer

RENDERER = ChatRenderer(tiny_tokenizer(), "compact")


class Parrot:
    """Answers every request with the same text."""

    version = "parrot"

    def __init__(self, text: str) -> None:
        self.text = text
        self.count = TokenCount()
        self.max_tokens = 0

    def sample(self, requests: Sequence[Request], sampling: SamplingConfig) -> list[list[Sample]]:
        self.max_tokens = sampling.max_tokens
        ids = (*RENDERER.encode(self.text), RENDERER.eos_id)
        return [[Sample(ids, (0.0,) * len(ids), FinishReason.STOP)] for _ in requests]


@pytest.mark.parametrize(
    ("written", "answer"),
    [("hello", "hello"), ("<think>\nI, SAY.\n</think>\n\nhello", "hello"), ("<think>I never end", "")],
)
def test_an_answer_is_what_was_said(written: str, answer: str) -> None:
    benchmark = get_benchmark("ifbench")
    assert _answers(RENDERER, Parrot(written), benchmark, benchmark.items()[:2]) == [answer, answer]


def test_episodes_need_a_template_that_only_appends() -> None:
    rewriting = ChatRenderer(tiny_tokenizer(CHATML_REWRITING), "compact")
    check_template(configuration(Path()), rewriting)
    with pytest.raises(ConfigError, match="episodes need one that only appends"):
        check_template(configuration(Path(), source={"kind": "embedded"}), rewriting)


def test_fewer_items_are_not_the_first_ones() -> None:
    benchmark = get_benchmark("wmt24pp")
    chosen = [item.id for item in _some_items(benchmark, 24)]
    everything = [item.id for item in benchmark.items()]
    assert len(set(chosen)) == 24
    assert chosen == [item for item in everything if item in chosen]  # in their order
    assert {item.split("-")[1] for item in chosen} == {"de", "es", "fr"}  # French comes last in the file
    assert [item.id for item in _some_items(benchmark, 99)] == everything


def test_a_policy_that_thinks_first_needs_room_for_it() -> None:
    template = CHATML.replace("assistant\n", "assistant\n<think>\n")
    thinker = ChatRenderer(tiny_tokenizer(template), "compact")
    benchmark = get_benchmark("ifbench")
    (item, *_) = benchmark.items()
    with pytest.raises(ConfigError, match=r"evaluate\.thinking_tokens"):
        check_template(configuration(Path(), evaluate={}), thinker)
    check_template(configuration(Path(), evaluate={"thinking_tokens": 100}), thinker)
    check_template(configuration(Path(), evaluate={"benchmarks": []}), thinker)
    for written, answer in (("I, SAY.\n</think>\n\nhello", "hello"), ("hello, I say, and never end", "")):
        parrot = Parrot(written)
        assert _answers(thinker, parrot, benchmark, [item], thinking_tokens=100) == [answer]
        assert parrot.max_tokens == benchmark.max_tokens + 100

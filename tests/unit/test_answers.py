"""What a benchmark is given to score: the text of a greedy answer, without its end and without its thinking."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import FinishReason, Request, Sample, SamplingConfig, TokenCount
from pivotrl_core.evaluation.benchmarks.registry import get_benchmark
from pivotrl_core.stages.evaluation_parts import _answers
from tests.tiny_models import tiny_tokenizer

RENDERER = ChatRenderer(tiny_tokenizer(), "compact")


class Parrot:
    """Answers every request with the same text."""

    version = "parrot"

    def __init__(self, text: str) -> None:
        self.text = text
        self.count = TokenCount()

    def sample(self, requests: Sequence[Request], sampling: SamplingConfig) -> list[list[Sample]]:
        ids = (*RENDERER.encode(self.text), RENDERER.eos_id)
        return [[Sample(ids, (0.0,) * len(ids), FinishReason.STOP)] for _ in requests]


@pytest.mark.parametrize(
    ("written", "answer"),
    [("hello", "hello"), ("<think>\nI, SAY.\n</think>\n\nhello", "hello"), ("<think>I never end", "")],
)
def test_an_answer_is_what_was_said(written: str, answer: str) -> None:
    benchmark = get_benchmark("ifbench")
    assert _answers(RENDERER, Parrot(written), benchmark, benchmark.items()[:2]) == [answer, answer]

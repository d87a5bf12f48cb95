"""What a benchmark is: items, one prompt each, and a score for one answer. Benchmarks do not import their siblings.

An answer is the text the policy wrote, greedy, with its thinking removed. A score is a number in [0, 1] with the
extracted answer and whether extraction failed, so that the parse-failure rate is always reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pivotrl_core.types import Json, Message


@dataclass(frozen=True, slots=True)
class Item:
    """One question. `content` holds whatever the scorer needs (gold answer, tests, constraints)."""

    id: str
    messages: tuple[Message, ...]
    content: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ItemScore:
    """Score of one answer. `parsed` is False where no answer could be extracted (that scores 0, and is counted)."""

    score: float
    parsed: bool
    extracted: str = ""
    components: Mapping[str, Json] = field(default_factory=dict)


class Benchmark(Protocol):
    """One benchmark file. `name` ends in `-embedded` where the items are the project's own."""

    name: str
    metric: str
    max_tokens: int
    needs_sandbox: bool

    def items(self) -> Sequence[Item]:
        """All items, in a fixed order."""
        ...

    def score(self, item: Item, answer: str) -> ItemScore:
        """Score one answer. Never raises on any answer."""
        ...

    def reference(self, item: Item) -> str:
        """An answer that scores 1."""
        ...

r"""MMLU-Pro (embedded): multiple choice with ten options, answered with a letter.

Data set: own items, `data/mmlu_pro.jsonl`: questions of common knowledge.
Licence: Apache-2.0, as this project; no text of the official set is used.
Items: 32 over 13 of the official categories; right letters spread evenly over A to J. At most 12 new tokens.
Prompt: system message; one solved example as turns; the question with its options.
Extraction: `answer is \(?([A-J])\)?`, else `[aA]nswer:\s*([A-J])`, else the last lone letter A to J.
Metric: accuracy.
Floor: 0.1 (one of ten at random); models too small to bind letters to options stay there.
Source: https://github.com/TIGER-AI-Lab/MMLU-Pro (prompt form and extraction); arXiv 2406.01574.

Embedded: differs from the official benchmark in
1. items: trivial questions, one solved example instead of five, and no chain of thought;
2. an answer without a letter scores 0 and counts as not parsed, where the official script draws a random letter;
3. the category is not named in the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pivotrl_core.evaluation.extraction import choice_letter
from pivotrl_core.evaluation.protocol import Item, ItemScore
from pivotrl_core.files import read_jsonl
from pivotrl_core.types import Json, Message, Role

_DATA = Path(__file__).with_name("data") / "mmlu_pro.jsonl"
_LETTERS = "ABCDEFGHIJ"
_PATTERNS = (re.compile(r"answer is \(?([A-J])\b"), re.compile(r"[aA]nswer:\s*\(?([A-J])\b"))
_SHOTS = (
    Message(Role.SYSTEM, "Choose the right option."),
    Message(
        Role.USER,
        "Which animal says meow?\n"
        "(A) pig (B) cat (C) duck (D) goat (E) wolf (F) bear (G) lion (H) rat (I) crow (J) owl",
    ),
    Message(Role.ASSISTANT, "The answer is (B) cat."),
)


class MMLUPro:
    """See the module's data sheet."""

    name = "mmlu-pro-embedded"
    metric = "accuracy"
    max_tokens = 12
    needs_sandbox = False

    def items(self) -> Sequence[Item]:
        return [Item(row["id"], (*_SHOTS, Message(Role.USER, _prompt(row))), row) for row in read_jsonl(_DATA)]

    def reference(self, item: Item) -> str:
        """An answer that scores 1."""
        letter = item.content["answer"]
        return f"The answer is ({letter}) {item.content['options'][_LETTERS.index(letter)]}."

    def score(self, item: Item, answer: str) -> ItemScore:
        letter = choice_letter(answer, _PATTERNS)
        return ItemScore(float(letter == item.content["answer"]), letter is not None, letter or "")


def _prompt(row: dict[str, Json]) -> str:
    options = " ".join(f"({letter}) {option}" for letter, option in zip(_LETTERS, row["options"], strict=True))
    return f"{row['question']}\n{options}"

r"""MMLU-Pro (embedded): multiple choice with ten options, answered after a short thought.

Data set: own items, `data/mmlu_pro.jsonl`: questions of common knowledge.
Licence: Apache-2.0, as this project; no text of the official set is used.
Items: 32 over 13 of the official categories; right letters spread evenly over A to J. At most 24 new tokens.
Prompt: one solved example, then the question with its options and 'Answer:'; one user message.
Extraction: `answer is \(?([A-J])\)?`, else `[aA]nswer:\s*([A-J])`, else the last lone letter A to J.
Metric: accuracy.
Floor: 0.1 (one of ten at random).
Source: https://github.com/TIGER-AI-Lab/MMLU-Pro (prompt form and extraction); arXiv 2406.01574.

Embedded: differs from the official benchmark in
1. items: trivial questions, one solved example instead of five with chains of thought;
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
_EXAMPLE = (
    "Question: Which animal says meow?\n"
    "Options: (A) pig (B) cat (C) duck (D) goat (E) wolf (F) bear (G) lion (H) mouse (I) crow (J) owl\n"
    "Answer: Cats say meow. The answer is (B) cat."
)


class MMLUPro:
    """See the module's data sheet."""

    name = "mmlu-pro-embedded"
    metric = "accuracy"
    max_tokens = 24
    needs_sandbox = False

    def items(self) -> Sequence[Item]:
        return [Item(row["id"], (Message(Role.USER, _prompt(row)),), row) for row in read_jsonl(_DATA)]

    def reference(self, item: Item) -> str:
        """An answer that scores 1."""
        letter = item.content["answer"]
        return f"The answer is ({letter}) {item.content['options'][_LETTERS.index(letter)]}."

    def score(self, item: Item, answer: str) -> ItemScore:
        letter = choice_letter(answer, _PATTERNS)
        return ItemScore(float(letter == item.content["answer"]), letter is not None, letter or "")


def _prompt(row: dict[str, Json]) -> str:
    options = " ".join(f"({letter}) {option}" for letter, option in zip(_LETTERS, row["options"], strict=True))
    return (
        "Answer the multiple choice question. End with 'The answer is (X)'.\n\n"
        f"{_EXAMPLE}\n\nQuestion: {row['question']}\nOptions: {options}\nAnswer:"
    )

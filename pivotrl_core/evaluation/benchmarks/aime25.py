r"""AIME 2025 (embedded): word problems whose answer is an integer from 0 to 999.

Data set: own items, generated here from all pairs of one-digit numbers by a fixed rule; nothing is stored.
Licence: Apache-2.0, as this project; no text of the official set is used.
Items: 32, half plain sums, half one-sentence stories. At most 40 new tokens.
Prompt: system message with the request to put the answer in \boxed{}; two worked examples as turns; the problem.
Extraction: the content of the last \boxed{}, which must be an integer.
Metric: exact match of the integer.
Floor: 0.125 (always the most frequent sum).
Source: https://artofproblemsolving.com/wiki/index.php/2025_AIME_I (the official problems).

Embedded: differs from the official benchmark in
1. items: sums of one-digit numbers instead of competition problems;
2. worked examples in the prompt, where the official form is zero-shot;
3. one greedy answer, where the official figure is an average over many samples (avg@k).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pivotrl_core.evaluation.extraction import last_boxed
from pivotrl_core.evaluation.protocol import Item, ItemScore
from pivotrl_core.types import Message, Role

_COUNT = 32
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_NAMES = ("Ann", "Ben", "Cora", "Dan")
_THINGS = ("apples", "books", "coins", "pens")
_SHOTS = (
    Message(Role.SYSTEM, "Put the final answer in \\boxed{}."),
    Message(Role.USER, "What is 2 + 3?"),
    Message(Role.ASSISTANT, "2 + 3 = 5. Answer: \\boxed{5}"),
    Message(Role.USER, "Tom has 3 hats and gets 3 more. How many hats does Tom have now?"),
    Message(Role.ASSISTANT, "3 + 3 = 6. Answer: \\boxed{6}"),
)


class AIME25:
    """See the module's data sheet."""

    name = "aime25-embedded"
    metric = "accuracy"
    max_tokens = 40
    needs_sandbox = False

    def items(self) -> Sequence[Item]:
        return [_item(index) for index in range(_COUNT)]

    def reference(self, item: Item) -> str:
        """An answer that scores 1."""
        return f"{item.content['a']} + {item.content['b']} = \\boxed{{{item.content['answer']}}}"

    def score(self, item: Item, answer: str) -> ItemScore:
        boxed = last_boxed(answer)
        if boxed is None or not _INTEGER.fullmatch(boxed):
            return ItemScore(0.0, False, boxed or "")
        return ItemScore(float(int(boxed) == item.content["answer"]), True, boxed)


def _item(index: int) -> Item:
    # 7 and 4 are coprime to 9 and the carry shifts b, so the 32 pairs of digits 1 to 9 are all different.
    a, b = index * 7 % 9 + 1, (index * 4 + index // 9) % 9 + 1
    if index % 2 == 0:
        problem = f"What is {a} + {b}?"
    else:
        name, thing = _NAMES[index // 2 % 4], _THINGS[index // 8 % 4]
        problem = f"{name} has {a} {thing} and gets {b} more. How many {thing} does {name} have now?"
    content = {"a": a, "b": b, "problem": problem, "answer": a + b}
    return Item(f"aime-{index + 1:02}", (*_SHOTS, Message(Role.USER, problem)), content)

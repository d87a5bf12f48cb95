r"""MATH-500 (embedded): short mathematics problems whose answer is a LaTeX expression.

Data set: own items in the style of MATH's level 1, `data/math500.jsonl`.
Licence: Apache-2.0, as this project; no text of the official set is used.
Items: 32 over five of MATH's subjects. At most 40 new tokens.
Prompt: system message that asks for \boxed{}; two worked examples as turns; the problem.
Extraction: the content of the last \boxed{}.
Metric: mathematical equality by math-verify, `verify(parse(gold), parse(answer))`: 0.5 equals \frac{1}{2}.
Floor: 0.41 (the expression that is asked about, or else the whole problem, copied into the box);
0.19 by always the most frequent answer.
Source: https://huggingface.co/datasets/HuggingFaceH4/MATH-500; https://github.com/huggingface/Math-Verify (rule).

Embedded: differs from the official benchmark in
1. items: one-step problems, worked examples in the prompt, one greedy answer instead of avg@k;
2. an answer without \boxed{} is not parsed, where math-verify would look for any expression in the text;
3. math-verify is asked only about short expressions of common school mathematics with small powers; others are
   compared as text. Its own guard is a wall-clock alarm, with which the score could depend on how busy the machine is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path

from pivotrl_core.evaluation.extraction import last_boxed
from pivotrl_core.evaluation.protocol import Item, ItemScore
from pivotrl_core.files import read_jsonl
from pivotrl_core.types import Message, Role

_DATA = Path(__file__).with_name("data") / "math500.jsonl"
_MAX_EXPRESSION = 40
_MAX_DEPTH = 6  # of brackets of all kinds: each empty pair doubles what the parser tries
# One power at most, its exponent one sign and one character, or a degree; no factorial, and no number that is long or
# has an 'e'.
_COSTLY = re.compile(r"\^.*\^|\^(?!\s*(?:-?\w(?!\w)|\{-?\w\}|\\circ\b|\{\\circ\}))|\*\*|!|\d{7}|\d[eE]-?\d", re.DOTALL)
_COMMAND = re.compile(r"\\([A-Za-z]+)")
# sympy computes many others at once, however large their values are: factorials behind \Gamma, powers beside a \log.
_COMMANDS = frozenset((
    "cdot", "circ", "cos", "dfrac", "div", "frac", "left", "mathrm", "pi", "pm", "right", "sin", "sqrt", "tan", "text",
    "tfrac", "times",
))  # fmt: skip
_SHOTS = (
    Message(Role.SYSTEM, "Put the final answer in \\boxed{}."),
    Message(Role.USER, "What is 1 + 1?"),
    Message(Role.ASSISTANT, "1 + 1 = 2. Answer: \\boxed{2}"),
    Message(Role.USER, "How many days are in a week?"),
    Message(Role.ASSISTANT, "A week has 7 days. Answer: \\boxed{7}"),
)


class MATH500:
    """See the module's data sheet."""

    name = "math500-embedded"
    metric = "accuracy"
    max_tokens = 40
    needs_sandbox = False

    def items(self) -> Sequence[Item]:
        return [Item(row["id"], (*_SHOTS, Message(Role.USER, row["problem"])), row) for row in read_jsonl(_DATA)]

    def reference(self, item: Item) -> str:
        """An answer that scores 1."""
        return f"$\\boxed{{{item.content['answer']}}}$"

    def score(self, item: Item, answer: str) -> ItemScore:
        boxed = last_boxed(answer)
        if not boxed:
            return ItemScore(0.0, False)
        return ItemScore(float(_equal(str(item.content["answer"]), boxed)), True, boxed)


def _is_costly(given: str) -> bool:
    """Whether deciding on an expression could take long."""
    depth = deepest = 0
    for character in given:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest > _MAX_DEPTH or not _COMMANDS.issuperset(_COMMAND.findall(given)) or bool(_COSTLY.search(given))


def _equal(gold: str, given: str) -> bool:
    if gold == given:
        return True
    if len(given) > _MAX_EXPRESSION or _is_costly(given):
        return False
    from math_verify import parse, verify

    # With its alarms off (see the data sheet) math-verify warns at each call; the guard above stands in for them.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    try:
        parsed = parse(f"${given}$", parsing_timeout=None)
        return bool(verify(parse(f"${gold}$", parsing_timeout=None), parsed, timeout_seconds=None))
    except (ValueError, TypeError, ArithmeticError, AttributeError, RecursionError, NotImplementedError):
        return False

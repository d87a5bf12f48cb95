"""SciCode (embedded): write a small numerical function from its scientific background.

Data set: own items, `data/scicode.jsonl`: formulas of school physics, chemistry and geometry.
Licence: Apache-2.0, as this project; no text of the official set is used.
Items: 32, each a problem of one step. At most 48 new tokens.
Prompt: background with the formula, function header, request for one code block; one user message.
Extraction: the first complete fenced code block.
Metric: sub-problem accuracy: all tests pass, a number being right within 1e-5 relative and 1e-8 absolute (the rule of
    numpy.allclose). With one step a problem, main-problem accuracy is the same figure.
Floor: 0.
Source: https://github.com/scicode-bench/SciCode (prompt form and rule); arXiv 2407.13168.

Embedded: differs from the official benchmark in
1. items: one formula each, given in the background, where the official problems have several steps that build on
   each other and on NumPy and SciPy;
2. the code runs in this project's sandbox, on Python's standard library alone;
3. one greedy answer, where the official figure may be an average of n = 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pivotrl_core.evaluation.extraction import code_blocks
from pivotrl_core.evaluation.protocol import Item, ItemScore
from pivotrl_core.files import read_jsonl
from pivotrl_core.types import Message, Role
from pivotrl_core.verifiers.code_execution import close, run_function

_DATA = Path(__file__).with_name("data") / "scicode.jsonl"
_PROMPT = (
    "{background}\n\nComplete this Python function. "
    "Answer with one short code block and nothing else.\n```python\n{header}\n```"
)


class SciCode:
    """See the module's data sheet. `score` raises SandboxUnavailableError where there is no sandbox."""

    name = "scicode-embedded"
    metric = "sub-problem accuracy"
    max_tokens = 48
    needs_sandbox = True

    def items(self) -> Sequence[Item]:
        return [Item(row["id"], (Message(Role.USER, _PROMPT.format(**row)),), row) for row in read_jsonl(_DATA)]

    def reference(self, item: Item) -> str:
        """An answer that scores 1."""
        return f"```python\n{item.content['gold']}\n```"

    def score(self, item: Item, answer: str) -> ItemScore:
        blocks = code_blocks(answer)
        if not blocks:
            return ItemScore(0.0, False)
        tests = item.content["tests"]
        results = run_function(blocks[0], item.content["function"], [test["arguments"] for test in tests])
        passed = [close(result, test["expected"]) for result, test in zip(results, tests, strict=True)]
        return ItemScore(float(all(passed)), True, blocks[0], {"tests_passed": sum(passed), "tests": len(passed)})

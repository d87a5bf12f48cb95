"""LiveCodeBench (embedded): write a small Python function or program that passes all tests.

Data set: own items, `data/livecodebench.jsonl`.
Licence: Apache-2.0, as this project; no text of the official set is used.
Items: 32, half functions to complete, half programs from standard input to standard output. At most 64 new tokens.
Prompt: task, format (starter code, or 'read from standard input'), request for one code block; one user message.
Extraction: the last complete fenced code block.
Metric: pass@1 of one greedy answer: all tests of the item pass. Functions: results are equal as JSON values; programs:
    printed lines are equal apart from space at their ends. A program that fails or ends with an error passes nothing.
Floor: 0.
Source: https://github.com/LiveCodeBench/LiveCodeBench (prompt form and rule); arXiv 2403.07974.

Embedded: differs from the official benchmark in
1. items: one-line solutions, two or three tests each, all of them hidden;
2. the code runs in this project's sandbox, on Python's standard library alone, with 15 s for all tests of an item;
3. a block that is cut off counts as not parsed, and text between two blocks is never taken for code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pivotrl_core.evaluation.extraction import code_blocks
from pivotrl_core.evaluation.protocol import Item, ItemScore
from pivotrl_core.files import read_jsonl
from pivotrl_core.types import Json, Message, Role
from pivotrl_core.verifiers.code_execution import run_function, run_program

_DATA = Path(__file__).with_name("data") / "livecodebench.jsonl"
_FUNCTION = "Complete this function. Answer with one short code block and nothing else.\n```python\n{starter}\n```"
_PROGRAM = (
    "Write a short Python program that reads the input with input() and prints the answer. "
    "Answer with one code block and nothing else."
)


class LiveCodeBench:
    """See the module's data sheet. `score` raises SandboxUnavailableError where there is no sandbox."""

    name = "livecodebench-embedded"
    metric = "pass@1"
    max_tokens = 64
    needs_sandbox = True

    def items(self) -> Sequence[Item]:
        return [Item(row["id"], (Message(Role.USER, _prompt(row)),), row) for row in read_jsonl(_DATA)]

    def reference(self, item: Item) -> str:
        """An answer that scores 1."""
        return f"```python\n{item.content['gold']}\n```"

    def score(self, item: Item, answer: str) -> ItemScore:
        blocks = code_blocks(answer)
        if not blocks:
            return ItemScore(0.0, False)
        passed = _passed(item, blocks[-1])
        score = float(all(passed))
        return ItemScore(score, True, blocks[-1], {"tests_passed": sum(passed), "tests": len(passed)})


def _prompt(row: dict[str, Json]) -> str:
    form = _FUNCTION.format(starter=row["starter"]) if row["kind"] == "function" else _PROGRAM
    return f"Task: {row['statement']}\n\n{form}"


def _passed(item: Item, code: str) -> list[bool]:
    tests = item.content["tests"]
    expected = [test["expected"] for test in tests]
    if item.content["kind"] == "function":
        name = item.content["starter"].split("(")[0].removeprefix("def ")
        results = run_function(code, name, [test["arguments"] for test in tests])
        return [bool(result == value) for result, value in zip(results, expected, strict=True)]
    outputs = run_program(code, [test["input"] for test in tests])
    return [isinstance(o, str) and _lines(o) == _lines(value) for o, value in zip(outputs, expected, strict=True)]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]

"""No text can make a grader raise or leave the range of scores. Code graders run the real sandbox: fewer examples."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pivotrl_core.evaluation.benchmarks.registry import BENCHMARKS
from pivotrl_core.evaluation.protocol import Benchmark
from pivotrl_core.verifiers import sandbox

_TEXT = [benchmark for benchmark in BENCHMARKS.values() if not benchmark.needs_sandbox]
_CODE = [benchmark for benchmark in BENCHMARKS.values() if benchmark.needs_sandbox]
_PIECES = [
    "\\boxed{",
    "}",
    "\\frac{1}{0}",
    "^",
    "**",
    "$",
    "{",
    "(A)",
    "answer is ",
    "\n",
    "```",
    "*",
    '"',
    "\x00",
    "\ud800",
]
_PIECES += ["x", "=", "9" * 9, "\\sqrt{-1}", "\\infty", "Die Antwort ist ", "答案是", "İ", "ß", "٣"]
answers = st.one_of(
    st.text(), st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=4)), max_size=12).map("".join)
)
expressions = st.lists(
    st.sampled_from(["1", "2", "/", "+", "-", "x", "\\frac{", "}", "{", "^", "\\pi", ",", "=", "<", "%"])
)


def check(benchmark: Benchmark, index: int, answer: str) -> None:
    items = benchmark.items()
    result = benchmark.score(items[index % len(items)], answer)
    assert 0.0 <= result.score <= 1.0
    assert result.parsed or result.score == 0.0


@pytest.mark.parametrize("benchmark", _TEXT, ids=lambda b: str(b.name))
@settings(max_examples=60, deadline=None)
@given(index=st.integers(0, 39), answer=answers)
@example(index=0, answer="\\boxed{" * 20000)
@example(index=39, answer="[" * 100000)
def test_any_text_gets_a_score(benchmark: Benchmark, index: int, answer: str) -> None:
    check(benchmark, index, answer)


@settings(max_examples=100, deadline=None)
@given(index=st.integers(0, 31), parts=expressions)
def test_any_expression_in_a_box_gets_a_score(index: int, parts: list[str]) -> None:
    check(BENCHMARKS["math500-embedded"], index, f"\\boxed{{{''.join(parts)}}}")


@pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")
@pytest.mark.parametrize("benchmark", _CODE, ids=lambda b: str(b.name))
@settings(max_examples=10, deadline=None)
@given(index=st.integers(0, 31), code=st.text())
@example(index=0, code="\ud800")
@example(index=0, code="def add(a, b):\n    return [add] * 3")
@example(index=0, code="def add(a, b):\n    x = []\n    x.append(x)\n    return x")
@example(index=0, code="def add(a, b):\n    return 10 ** 5000")
def test_any_code_gets_a_score(benchmark: Benchmark, index: int, code: str) -> None:
    check(benchmark, index, f"```python\n{code}\n```")

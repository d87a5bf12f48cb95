"""Golden transcripts of every grader: right, wrong, malformed and cut off. Gold answers score 1 on all items."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from pivotrl_core.errors import ConfigError
from pivotrl_core.evaluation import benchmarks
from pivotrl_core.evaluation.benchmarks.registry import BENCHMARKS, get_benchmark
from pivotrl_core.evaluation.extraction import choice_letter, code_blocks, first_line, last_boxed
from pivotrl_core.evaluation.protocol import Item
from pivotrl_core.evaluation.scoring import NO_SANDBOX, score_answers, skip_reason
from pivotrl_core.types import Role
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.code_execution import NO_RESULT, close, run_function, run_program

_REASON = sandbox.available()
needs_sandbox = pytest.mark.skipif(_REASON is not None, reason=f"no sandbox: {_REASON}")
_ALL = list(BENCHMARKS)
_CODE = ["livecodebench-embedded", "scicode-embedded"]
_ANY = [pytest.param(name, marks=needs_sandbox) if name in _CODE else name for name in _ALL]


def item_of(name: str, item_id: str) -> Item:
    return next(item for item in BENCHMARKS[name].items() if item.id == item_id)


# (benchmark, item, kind of transcript, answer, score, parsed)
GOLDEN = [
    ("ifbench-embedded", "if-01", "right", "a dog is a loyal pet.", 1.0, True),
    ("ifbench-embedded", "if-01", "right after a preface (loose)", "Sure!\na dog is a pet.", 1.0, True),
    ("ifbench-embedded", "if-01", "wrong", "A dog is a loyal pet.", 0.0, True),
    ("ifbench-embedded", "if-01", "malformed: no letter at all", "...", 0.0, True),
    ("ifbench-embedded", "if-01", "empty", "  \n", 0.0, False),
    ("ifbench-embedded", "if-27", "right", "What did you eat?", 1.0, True),
    ("ifbench-embedded", "if-27", "cut off", "What did you", 0.0, True),
    ("ifbench-embedded", "if-24", "the word and a comma", "Music, I like it.", 1.0, True),
    ("ifbench-embedded", "if-24", "another word that begins with it", "Musical theatre is fun.", 0.0, True),
    ("ifbench-embedded", "if-37", "stars without a space", "*apple\n*pear\n*plum", 1.0, True),
    ("ifbench-embedded", "if-37", "bold lines are no bullets", "**apple**\n**pear**\n**plum**", 0.0, True),
    ("ifbench-embedded", "if-40", "right", '{"name": "Bo"}', 1.0, True),
    ("ifbench-embedded", "if-40", "cut off", '{"name": "B', 0.0, True),
    ("aime25-embedded", "aime-05", "right", "2 + 8 = \\boxed{10}", 1.0, True),
    ("aime25-embedded", "aime-05", "the last box counts", "\\boxed{10}, no: \\boxed{11}", 0.0, True),
    ("aime25-embedded", "aime-05", "wrong", "\\boxed{9}", 0.0, True),
    ("aime25-embedded", "aime-05", "malformed: no box", "The answer is 10.", 0.0, False),
    ("aime25-embedded", "aime-05", "malformed: no integer", "\\boxed{ten}", 0.0, False),
    ("aime25-embedded", "aime-05", "cut off", "2 + 8 = \\boxed{10", 0.0, False),
    ("math500-embedded", "math-10", "right", "$\\boxed{\\frac{1}{2}}$", 1.0, True),
    ("math500-embedded", "math-10", "right in another form", "\\boxed{0.5}", 1.0, True),
    ("math500-embedded", "math-10", "right in a third form", "It is \\boxed{\\dfrac{2}{4}}.", 1.0, True),
    ("math500-embedded", "math-10", "wrong", "\\boxed{\\frac{1}{3}}", 0.0, True),
    ("math500-embedded", "math-10", "malformed", "\\boxed{\\frac{1}{}", 0.0, False),
    ("math500-embedded", "math-10", "malformed: empty box", "\\boxed{}", 0.0, False),
    ("math500-embedded", "math-10", "cut off", "$\\boxed{\\frac{1", 0.0, False),
    ("math500-embedded", "math-15", "right, written as an equation", "\\boxed{x = 2}", 1.0, True),
    ("math500-embedded", "math-15", "too costly to ask about", "\\boxed{9^{9^{9^9}}}", 0.0, True),
    ("math500-embedded", "math-15", "too costly to ask about", "\\boxed{9^{99999}}", 0.0, True),
    ("math500-embedded", "math-15", "a small power is evaluated", "\\boxed{2^1}", 1.0, True),
    ("math500-embedded", "math-15", "a division by zero", "\\boxed{\\frac{1}{0}}", 0.0, True),
    ("mmlu-pro-embedded", "mmlu-01", "right", "The answer is (I) 4.", 1.0, True),
    ("mmlu-pro-embedded", "mmlu-01", "right by the second pattern", "Answer: I", 1.0, True),
    ("mmlu-pro-embedded", "mmlu-01", "right by the last lone letter", "(A) no, (I)", 1.0, True),
    ("mmlu-pro-embedded", "mmlu-01", "wrong", "The answer is (B).", 0.0, True),
    ("mmlu-pro-embedded", "mmlu-01", "malformed", "four", 0.0, False),
    ("mmlu-pro-embedded", "mmlu-01", "cut off", "The answer is (", 0.0, False),
    ("mmlu-prox-embedded", "prox-de-1", "right", "Die Antwort ist (F) 5.", 1.0, True),
    ("mmlu-prox-embedded", "prox-de-1", "wrong", "Die Antwort ist (A).", 0.0, True),
    ("mmlu-prox-embedded", "prox-de-1", "malformed", "fünf", 0.0, False),
    ("mmlu-prox-embedded", "prox-en-1", "malformed: a word, no letter", "The answer is a guess.", 0.0, False),
    ("mmlu-prox-embedded", "prox-de-1", "right, in small letters", "die antwort ist: (f)", 1.0, True),
    ("mmlu-prox-embedded", "prox-de-1", "cut off", "Die Antwort ist (", 0.0, False),
    ("mmlu-prox-embedded", "prox-zh-1", "right, without spaces", "答案是（A）", 1.0, True),
    ("wmt24pp-embedded", "wmt-fr-01", "right", "Bonjour.", 1.0, True),
    ("wmt24pp-embedded", "wmt-fr-01", "right, with label and chatter", 'French: "Bonjour."\n\nI hope so.', 1.0, True),
    ("wmt24pp-embedded", "wmt-fr-01", "wrong", "xyz", 0.0, True),
    ("wmt24pp-embedded", "wmt-fr-01", "malformed: quotes alone", '""', 0.0, False),
    ("wmt24pp-embedded", "wmt-fr-01", "empty", "", 0.0, False),
]
GOLDEN_CODE = [
    ("livecodebench-embedded", "lcb-01", "right", "```python\ndef add(a, b):\n    return a + b\n```", 1.0, True),
    ("livecodebench-embedded", "lcb-01", "wrong", "```python\ndef add(a, b):\n    return a - b\n```", 0.0, True),
    ("livecodebench-embedded", "lcb-01", "right once", "```python\ndef add(a, b):\n    return 3\n```", 0.0, True),
    ("livecodebench-embedded", "lcb-01", "malformed: no Python", "```python\ndef add(a, b:\n```", 0.0, True),
    ("livecodebench-embedded", "lcb-01", "no block", "def add(a, b): return a + b", 0.0, False),
    ("livecodebench-embedded", "lcb-01", "cut off", "```python\ndef add(a, b):\n    return a + b", 0.0, False),
    ("livecodebench-embedded", "lcb-01", "leaves early", "```python\nimport os; os._exit(0)\n```", 0.0, True),
    ("livecodebench-embedded", "lcb-01", "forges a report", "```python\nprint('[0, 3]')\n```", 0.0, True),
    ("livecodebench-embedded", "lcb-19", "right", "```python\nprint(2 * int(input()))\n```", 1.0, True),
    ("livecodebench-embedded", "lcb-19", "wrong", "```python\nprint(input())\n```", 0.0, True),
    ("livecodebench-embedded", "lcb-19", "right but an error", "```\nprint(2*int(input()))\n1/0\n```", 0.0, True),
    (
        "scicode-embedded",
        "sci-04",
        "right",
        "```python\ndef force(m, a):\n    return m * a * 1.0000001\n```",
        1.0,
        True,
    ),
    ("scicode-embedded", "sci-04", "wrong", "```python\ndef force(m, a):\n    return m * a * 1.001\n```", 0.0, True),
    ("scicode-embedded", "sci-04", "malformed", "```python\nforce = 3\n```", 0.0, True),
    (
        "scicode-embedded",
        "sci-04",
        "not a number",
        "```python\ndef force(m, a):\n    return float('nan')\n```",
        0.0,
        True,
    ),
    ("scicode-embedded", "sci-04", "cut off", "```python\ndef force(m", 0.0, False),
]


@pytest.mark.parametrize(("name", "item_id", "kind", "answer", "score", "parsed"), GOLDEN)
def test_golden_transcript(name: str, item_id: str, kind: str, answer: str, score: float, parsed: bool) -> None:
    result = BENCHMARKS[name].score(item_of(name, item_id), answer)
    assert result.score == pytest.approx(score), kind
    assert result.parsed is parsed, kind


@needs_sandbox
@pytest.mark.parametrize(("name", "item_id", "kind", "answer", "score", "parsed"), GOLDEN_CODE)
def test_golden_code_transcript(name: str, item_id: str, kind: str, answer: str, score: float, parsed: bool) -> None:
    result = BENCHMARKS[name].score(item_of(name, item_id), answer)
    assert (result.score, result.parsed) == (score, parsed), kind


@pytest.mark.parametrize("name", _ANY)
def test_gold_answers_score_one_on_all_items(name: str) -> None:
    benchmark = BENCHMARKS[name]
    items = benchmark.items()
    scores = score_answers(benchmark, items, [benchmark.reference(item) for item in items])  # type: ignore[attr-defined]
    assert [item.id for item, s in zip(items, scores, strict=True) if s.score < 0.9999 or not s.parsed] == []


@pytest.mark.parametrize("name", _ALL)
def test_items_are_many_distinct_and_short(name: str) -> None:
    benchmark = BENCHMARKS[name]
    items = benchmark.items()
    assert len(items) >= 32
    assert len({item.id for item in items}) == len(items)
    assert len({tuple(m.content for m in item.messages) for item in items}) == len(items)
    assert all(item.messages[-1].role is Role.USER for item in items)
    assert max(sum(len(m.content) for m in item.messages) for item in items) <= 600
    assert 8 <= benchmark.max_tokens <= 96
    assert benchmark.items() == items


@pytest.mark.parametrize("name", _ALL)
def test_each_file_opens_with_a_data_sheet_that_states_its_sizes(name: str) -> None:
    benchmark = BENCHMARKS[name]
    sheet = sys.modules[type(benchmark).__module__].__doc__ or ""
    headings = ("Data set:", "Licence:", "Items:", "Prompt:", "Extraction:", "Metric:", "Source:", "Embedded: differs")
    for heading in headings:
        assert heading in sheet
    assert f"Items: {len(benchmark.items())}" in sheet
    assert f"{benchmark.max_tokens} new tokens" in " ".join(sheet.split())
    assert name.endswith("-embedded")


def test_benchmarks_do_not_import_their_siblings() -> None:
    folder = Path(benchmarks.__file__).parent
    for path in folder.glob("*.py"):
        if path.stem == "registry":
            continue
        imported = [n.module or "" for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
        assert not [module for module in imported if "evaluation.benchmarks" in module], path.name


def test_multiple_choice_answers_are_spread_over_the_letters() -> None:
    for name in ("mmlu-pro-embedded", "mmlu-prox-embedded"):
        letters = [item.content["answer"] for item in BENCHMARKS[name].items()]
        assert max(letters.count(letter) for letter in "ABCDEFGHIJ") <= 4, "always one letter must stay near the floor"


def test_a_benchmark_is_found_by_its_short_name_and_an_unknown_one_is_a_config_error() -> None:
    assert get_benchmark("ifbench") is get_benchmark("ifbench-embedded")
    with pytest.raises(ConfigError, match="ifbench-embedded"):
        get_benchmark("nothing")


@pytest.mark.parametrize("costly", [
    "\\Gamma(999999)", "(x+y+z)^{99}", "(\\sqrt{2}+i)^{-99}", "{" * 20 + "}" * 20, "\\cos\\inftyyy", "\\exp{\\exp{9}}",
    "999^{99}\\log 9", "999999\\ln 9", "9e9", "9^{9^9}", "99!", "2**99", "1" * 41,
])  # fmt: skip
def test_math_verify_is_never_asked_what_could_take_it_long(costly: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object, **__: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr("math_verify.parse", asked)
    benchmark = BENCHMARKS["math500-embedded"]
    assert benchmark.score(benchmark.items()[0], f"\\boxed{{{costly}}}").score == 0.0


def test_without_a_sandbox_code_benchmarks_are_skipped_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: "the program bwrap was not found.")
    assert skip_reason(BENCHMARKS["scicode-embedded"]) == f"{NO_SANDBOX}the program bwrap was not found."
    assert skip_reason(BENCHMARKS["ifbench-embedded"]) is None


@needs_sandbox
def test_workers_do_not_change_the_scores() -> None:
    benchmark = BENCHMARKS["scicode-embedded"]
    items = benchmark.items()[:6]
    answers = [benchmark.reference(item) if n % 2 else "```python\nx\n```" for n, item in enumerate(items)]  # type: ignore[attr-defined]
    assert score_answers(benchmark, items, answers, workers=1) == score_answers(benchmark, items, answers, workers=3)


@needs_sandbox
def test_one_failing_call_does_not_spoil_the_others() -> None:
    code = "print('chatter')\ndef f(x):\n    print('more')\n    return 1 // x if x < 9 else (x, {1})"
    assert run_function(code, "f", [[1], [0], [-1], [9]]) == [1, NO_RESULT, -1, NO_RESULT]


@needs_sandbox
def test_a_program_that_hangs_on_one_input_still_answers_the_others() -> None:
    code = "x = input()\nwhile x == 'hang': pass\nprint(x)"
    assert run_program(code, ["a\n", "hang\n", "b\n"]) == ["a\n", NO_RESULT, "b\n"]


@pytest.mark.parametrize(
    ("value", "expected", "result"),
    [
        *[(1.0, 1, True), (True, 1.0, True), (1.00001, 1.0, True), ([1], [1], True)],
        *[(1.0001, 1.0, False), ("1", 1.0, False), (None, 0.0, False), (NO_RESULT, 0.0, False)],
        *[(10**400, 1.0, False), (float("nan"), 1.0, False)],
    ],
)
def test_closeness(value: object, expected: object, result: bool) -> None:
    assert close(value, expected) is result


def test_extraction_of_boxes_blocks_letters_and_lines() -> None:
    assert last_boxed("\\boxed{1} \\boxed{ \\frac{1}{2} }") == "\\frac{1}{2}"
    assert last_boxed("\\boxed{1} \\boxed{2") is None
    assert code_blocks("```python\na\n```\ntext\n```\nb\n```\n```python\nc") == ["a\n", "b\n"]
    assert code_blocks("```python\na\n```python\nb\n```") == ["b\n"]
    assert code_blocks("```python\n```") == [""]
    assert choice_letter("I think it is C or D", ()) == "D"
    assert choice_letter("none", ()) is None
    assert first_line("\n  \n a \nb") == "a"
    assert first_line("") is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("C, I think", "C"), ("Option H, I believe.", "H"), ("**D**.", "D"), ("A.", "A"),
        ("\u6211\u9009A", "A"), ("\u6b63\u89e3\u306fD\u3067\u3059", "D"),
        ("A star gives us light.", None), ("I do not know.", None), ("D'apr\u00e8s moi, Lyon.", None),
        ("A m\u00ed me gusta Roma", None), ("A resposta \u00e9 verde", None),
    ],
)  # fmt: skip
def test_a_choice_is_a_letter_alone_and_no_word(text: str, letter: str | None) -> None:
    assert choice_letter(text, ()) == letter


@pytest.mark.parametrize(("boxed", "score"), [("90^\\circ", 1.0), ("90^{\\circ}", 1.0), ("80^\\circ", 0.0)])
def test_an_angle_may_have_its_degrees(boxed: str, score: float) -> None:
    benchmark = get_benchmark("math500")
    item = next(item for item in benchmark.items() if item.id == "math-28")
    assert benchmark.score(item, f"\\boxed{{{boxed}}}").score == score


@pytest.mark.parametrize("name", _ALL)
def test_no_item_is_one_of_its_worked_examples(name: str) -> None:
    for item in BENCHMARKS[name].items():
        *before, asked = [message.content for message in item.messages if message.role is Role.USER]
        assert asked not in before, item.id

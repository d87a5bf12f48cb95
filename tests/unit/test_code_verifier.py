"""Code: accepted by what it does on tests and at their edges, refused by what it asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.errors import SandboxUnavailableError
from pivotrl_core.types import Action, Candidate, Json, Message, Role, ToolCall
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.code_cases import MAX_VARIED_CASES, varied_inputs
from pivotrl_core.verifiers.code_grader import CodeGrader, CodeSettings
from pivotrl_core.verifiers.code_static import parse, resources, wrong_types
from pivotrl_core.verifiers.code_tests import CodeTests, boundary_inputs, read_tests
from pivotrl_core.verifiers.graded import GradedVerifier
from pivotrl_core.verifiers.verdict_cache import VerdictCache

needs_sandbox = pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")
EXPERT = "def largest(xs, k):\n    '''The k largest.'''\n    return sorted(xs, reverse=True)[:k]\n"
TESTS = {
    "function": "largest", "inputs": [[[3, 1, 2], 2], [[5, 5, 1, 9], 3], [[4], 1]], "outputs": [[3, 2], [9, 5, 5], [4]],
}  # fmt: skip


def candidate(tests: Json = TESTS, expert: str = EXPERT) -> Candidate:
    return Candidate((), (), Message(Role.ASSISTANT, expert), "t", 0, "code", metadata={"nemo_row": {"tests": tests}})


def verdict(code: str, at: Candidate | None = None, grader: CodeGrader | None = None) -> tuple[float, str]:
    found = GradedVerifier(grader or CodeGrader()).verify(at or candidate(), Action(code))
    return found.reward, found.reason


@needs_sandbox
@pytest.mark.parametrize(("code", "reason"), [
    ("import heapq\ndef largest(xs, k):\n    return heapq.nlargest(k, xs)", "accepted"),
    ("Here:\n```python\ndef largest(a, n):\n    a = a[:]; a.sort(); return a[::-1][:n]\n```\nDone.", "accepted"),
    ("def largest(xs, k):\n    return sorted(set(xs), reverse=True)[:k]", "tests_failed"),
    ("def largest(xs, k):\n    return {2: [3, 2], 3: [9, 5, 5], 1: [4]}[k]", "boundary_differs"),
    ("def other(xs, k):\n    return 1", "tests_failed"),
    ("def largest(xs, k): raise SystemExit", "tests_failed"),
])  # fmt: skip
def test_functions_are_accepted_by_what_they_do(code: str, reason: str) -> None:
    assert verdict(code) == (float(reason == "accepted"), reason)


@needs_sandbox
def test_programs_read_standard_input() -> None:
    tests = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}
    at = candidate(tests, "print(sum(map(int, input().split())))")
    assert verdict("a, b = input().split()\nprint(int(a) + int(b), ' ')", at) == (1.0, "accepted")
    assert verdict("input(); print(3)", at) == (0.0, "tests_failed")
    partial = CodeGrader()
    assert partial.decide(partial.grade(at, Action("input(); print(3)"))).credit == 0.5


def test_the_experts_program_in_another_dress_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: "no bwrap.")
    code = "def largest(xs,k): # mine\n  return (sorted(xs,reverse=True)[:k])"
    assert verdict(code) == (1.0, "accepted")
    assert verdict(code, candidate(None)) == (1.0, "accepted")
    assert verdict("def largest(xs, k): return xs[:k]", candidate(None)) == (0.0, "untested")


@pytest.mark.parametrize(
    "code", ["", " ", "def f(:", "x = (" * 5000, "x = 1\0", "\ud800", "prose, no code", "1" * 200_000]
)
def test_what_is_no_program_is_malformed(code: str) -> None:
    assert verdict(code) == (0.0, "malformed")


@pytest.mark.parametrize("call", ['{"path": "a", "mode": "x"}', '{"code": "# none"}', '{"code": "\'only said\'"}'])
def test_an_expert_without_a_program_is_unreadable_and_no_comment_equals_it(call: str) -> None:
    expert = Message(Role.ASSISTANT, tool_calls=(ToolCall("run", call),))
    at = Candidate((), (), expert, "t", 0, "code", metadata={"nemo_row": {"tests": TESTS}})
    assert verdict("# hi", at) == (0.0, "expected_unreadable")


def test_a_call_carries_its_code_as_an_argument() -> None:
    def graded(arguments: str) -> str:
        return GradedVerifier(CodeGrader()).verify(
            candidate(None), Action(tool_calls=(ToolCall("write", arguments),))
        ).reason  # fmt: skip

    assert graded('{"code": "x = 1"}') == "untested"
    assert graded('{"script": "x = 1", "timeout": 3}') == graded('{"body": "x = 1"}') == "untested"
    assert graded('{"path": "x", "mode": "y"}') == graded("{") == "malformed"


@pytest.mark.parametrize(("code", "count"), [
    ("x: int = 'a'", 1), ("x: int = 1", 0), ("x: float = 1", 0), ("x: int | None = None", 0), ("x: str | int = 1.5", 1),
    ("def f() -> int:\n    return 'a'", 1), ("def f() -> None:\n    return 1", 1), ("def f(x: int = None): pass", 0),
    ("def f(x: int = 'a', *, y: str = 1): pass", 2), ("def f() -> list[int]:\n    return 1", 0), ("x: str = True", 1),
    ("def f() -> int:\n    def g() -> str:\n        return 'a'\n    return 1", 0), ("x: 'int' = 'a'", 0),
    ("x: int = True", 0),
])  # fmt: skip
def test_constants_of_another_type_than_stated_are_found(code: str, count: int) -> None:
    tree = parse(code)
    assert not isinstance(tree, str)
    assert len(wrong_types(tree)) == count


@pytest.mark.parametrize(("code", "names"), [
    ("import math, os.path", set()), ("import socket as s", {"socket"}), ("from urllib.request import urlopen",
    {"urllib.request", "urllib.request.urlopen"}), ("import os\nos.system('x')", {"os.system"}),
    ("from os import system", {"os.system"}), ("__import__('subprocess').run('x')", {"subprocess"}),
    ("import importlib\nimportlib.import_module('ctypes')", {"ctypes"}), ("os.execv('a', [])", {"os.execv"}),
])  # fmt: skip
def test_resources_are_named(code: str, names: set[str]) -> None:
    tree = parse(code)
    assert not isinstance(tree, str)
    assert resources(tree) == names


@pytest.mark.parametrize("code", ["x = 0x" + "f" * 5000, "x: " + " | ".join(["str"] * 1500) + " = 1"])
def test_a_program_that_cannot_be_written_again_gets_a_verdict(code: str) -> None:
    assert verdict(code, candidate(None)) == (0.0, "untested")


def test_a_resource_is_forbidden_where_the_expert_does_without_it() -> None:
    assert verdict("import subprocess\ndef largest(xs, k): return []") == (0.0, "forbidden_resource")
    assert verdict("x: int = 'a'") == (0.0, "types_differ")
    both = candidate(None, "import subprocess\nx = 1")
    assert verdict("import subprocess\nx = 2", both) == (0.0, "untested")


@pytest.mark.parametrize("tests", [
    [], "x", {}, {"inputs": [], "outputs": []}, {"inputs": ["a"], "outputs": []}, {"inputs": [1], "outputs": [1]},
    {"inputs": ["a"], "outputs": ["b"], "function": "f"}, {"inputs": [[1]], "outputs": [1], "function": "f()"},
    {"inputs": [[1]] * 300, "outputs": [1] * 300, "function": "f"},
])  # fmt: skip
def test_tests_of_another_form_are_named(tests: Json) -> None:
    assert verdict("x = 1", candidate(tests)) == (0.0, "expected_unreadable")


def test_boundary_cases_stay_within_what_the_inputs_span() -> None:
    tests = read_tests({"function": "f", "inputs": [[2, "abc"], [9, "a"]], "outputs": [0, 0]})
    assert tests is not None
    cases = boundary_inputs(tests)
    assert [2, "a"] in cases
    assert [9, "abc"] in cases
    assert [3, "abc"] in cases
    assert all(2 <= number <= 9 and text in ("a", "abc") for number, text in cases)
    mixed = read_tests({"function": "f", "inputs": [[1], [1, 2]], "outputs": [0, 0]})
    assert mixed is not None
    assert boundary_inputs(mixed) == []
    pairs = read_tests({"function": "f", "inputs": [[[1, 2], [3, 4]], [[], []]], "outputs": [11, 0]})
    assert pairs is not None
    assert boundary_inputs(pairs) == [], "lists of one length in all tests are not cut one without the other"


def varied(*inputs: list[Json]) -> list[list[Json]]:
    return varied_inputs(CodeTests(inputs, (0,) * len(inputs), "f"), [])


def test_further_inputs_keep_what_those_of_the_tests_have_in_common() -> None:
    numbers = varied([[1, 3, 5], 2], [[2, 9], 4], [[4], 3])
    assert 20 < len(numbers) <= MAX_VARIED_CASES
    assert numbers == varied([[1, 3, 5], 2], [[2, 9], 4], [[4], 3])
    for values, count in numbers:
        assert values == sorted(set(values))
        assert 1 <= len(values) <= 3
        assert all(1 <= value <= 9 for value in values)
        assert 2 <= count <= 4
    assert any(values != sorted(values) for (values,) in varied([[3, 1, 2]], [[5, 5, 1, 4]]))
    assert any(len(values) != len(set(values)) for (values,) in varied([[3, 1, 2]], [[5, 5, 1, 4]]))
    texts = [text for (text,) in varied(["one two"], ["a b c"], ["word"])]
    assert texts
    assert all(text == " ".join(text.split()) for text in texts)


def test_further_inputs_keep_the_shape_of_what_belongs_together() -> None:
    matrices = varied([[[1, 2], [3, 4]]], [[[1, 2, 3]]], [[[5]]])
    assert matrices
    assert all(len({len(row) for row in matrix}) == 1 for (matrix,) in matrices)
    both = varied([[1, 2], [3, 4]], [[], []], [[5], [-1]])
    assert both
    assert all(len(first) == len(second) for first, second in both)
    tables = varied([{"a": 1}, 1], [{"b": 2, "c": 3}, 2])
    assert any("a" in table and len(table) == 2 for table, _ in tables)
    assert varied([1], [1, 2]) == varied() == []


@needs_sandbox
@pytest.mark.parametrize(("expert", "code", "reason"), [
    ("def f(xs): return sorted(xs)", "def f(xs):\n    xs.sort()\n    return xs", "arguments_changed"),
    ("def f(xs):\n    xs.sort()\n    return xs", "def f(xs): return sorted(xs)", "accepted"),
    ("def f(xs): xs.sort()", "def f(xs):\n    xs[:] = sorted(xs)", "accepted"),
    ("def f(xs): xs.sort()", "def f(xs): sorted(xs)", "arguments_changed"),
    # Right on all tests and at their edges: only other numbers tell.
    ("def f(xs): return sorted(xs)", "def f(xs): return {3: [1, 2, 3], 2: [4, 9], 0: []}.get(len(xs), xs)",
     "boundary_differs"),
])  # fmt: skip
def test_what_a_call_leaves_of_its_arguments_counts(expert: str, code: str, reason: str) -> None:
    inputs = [[[3, 1, 2]], [[9, 4]], [[]]]
    outputs = [None] * 3 if "xs): xs.sort()" in expert else [sorted(values) for (values,) in inputs]
    at = candidate({"function": "f", "inputs": inputs, "outputs": outputs}, expert)
    assert verdict(code, at) == (float(reason == "accepted"), reason)


@needs_sandbox
@pytest.mark.parametrize(("expert", "code", "accepted"), [
    ("def f(n): return n + 1", "def f(n): return n", False),
    ("def f(n): return {'next': [n + 1]}", "def f(n): return {'next': [n]}", False),
    ("def f(n): return {'large': n > 9}", "def f(n): return {'large': int(n > 9)}", False),
    ("def f(n): return {'third': n / 3}", "def f(n): return {'third': n / 3 + 1e-9}", True),
    ("def f(n): return n * 1.0", "def f(n): return n", True),
])  # fmt: skip
def test_only_fractions_are_compared_with_a_tolerance(expert: str, code: str, accepted: bool) -> None:
    namespace: dict[str, Any] = {}
    exec(expert, namespace)
    numbers = [100_000, 250_000, 1_000_000]
    tests = {"function": "f", "inputs": [[n] for n in numbers], "outputs": [namespace["f"](n) for n in numbers]}
    assert (verdict(code, candidate(tests, expert))[0] == 1.0) == accepted


@needs_sandbox
def test_long_results_have_room_and_an_expert_that_is_cut_is_named() -> None:
    texts = ["x" * 50_000, "y" * 60_000]
    called = {"function": "f", "inputs": [[text] for text in texts], "outputs": texts}
    assert verdict("def f(s): return s[:]", candidate(called, "def f(s): return s")) == (1.0, "accepted")
    typed = {"inputs": ["9000\n"], "outputs": ["x\n" * 9_000]}
    at = candidate(typed, "print('x\\n' * int(input()))")
    assert verdict("for _ in range(int(input())): print('x')", at) == (1.0, "accepted")
    limits = sandbox.SandboxLimits(wall_seconds=0.5)
    slow = candidate({"function": "f", "inputs": [[1]], "outputs": [1]}, "def f(n):\n    while True: pass")
    found = CodeGrader(CodeSettings(limits=limits)).grade(slow, Action("def f(n): return n"))
    assert found["expert_cut"] == "time limit"


ATTACKS = {
    "fork bomb": "import os\nwhile True:\n    try: getattr(os, 'fo' + 'rk')()\n    except OSError: pass",
    "memory": "x = []\nwhile True: x.append(bytearray(10**7))",
    "output": "import sys\nwhile True: sys.stdout.write('x' * 10**6)",
    "deep json": "def largest(xs, k):\n    x = []\n    for _ in range(10**5): x = [x]\n    return x",
    "forged lines": "import os\nfor fd in range(3, 20):\n    for i in range(9):\n"
    "        try: os.write(fd, b'[%d, [9]]\\n' % i)\n        except OSError: pass\ndef largest(xs, k): return [0]",
    "forged values": "def largest(xs, k):\n    class All(list):\n"
    "        def __eq__(self, other): return True\n    return All()",
    "reading the job": "import json\nj = json.load(open('/box/job.json'))\ndef largest(xs, k): return j.get('outputs')",
    "surrogate": "def largest(xs, k): return '\\ud800'",
    "endless": "while True: pass",
    "deep source": "x = " + "-" * 5000 + "1",
}  # fmt: skip


@needs_sandbox
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_earns_nothing(attack: str) -> None:
    limits = sandbox.SandboxLimits(wall_seconds=1.5, cpu_seconds=1, memory_bytes=256 * 2**20, processes=8)
    reward, reason = verdict(ATTACKS[attack], grader=CodeGrader(CodeSettings(limits=limits)))
    assert reward == 0.0
    assert reason in ("tests_failed", "forbidden_resource", "malformed")


@needs_sandbox
def test_what_was_executed_is_not_executed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    real = sandbox.run_python
    monkeypatch.setattr(sandbox, "run_python", lambda *given: (runs.append(1), real(*given))[1])
    code = "import heapq\ndef largest(xs, k):\n    return heapq.nlargest(k, xs)"
    graders = [CodeGrader(cache=VerdictCache(tmp_path / "cache.db")) for _ in range(2)]
    components: list[dict[str, Any]] = [grader.grade(candidate(), Action(code)) for grader in graders]
    assert components[0] == components[1]
    assert len(runs) == 2, "the expert at the boundary, and the action"


def test_without_a_sandbox_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_host", lambda: "the program bwrap was not found.")
    with pytest.raises(SandboxUnavailableError, match="Install bubblewrap"):
        CodeGrader().grade(candidate(), Action("def largest(xs, k): return []"))

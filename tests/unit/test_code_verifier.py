"""Code: accepted by what it does on tests and at their edges, refused by what it asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.errors import SandboxUnavailableError
from pivotrl_core.types import Action, Candidate, Json, Message, Role, ToolCall
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.code_grader import CodeGrader, CodeSettings
from pivotrl_core.verifiers.code_static import parse, resources, wrong_types
from pivotrl_core.verifiers.code_tests import boundary_inputs, read_tests
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


def test_a_call_carries_its_code_as_an_argument() -> None:
    def graded(arguments: str) -> str:
        return GradedVerifier(CodeGrader()).verify(
            candidate(None), Action(tool_calls=(ToolCall("write", arguments),))
        ).reason  # fmt: skip

    assert graded('{"code": "x = 1"}') == "untested"
    assert graded('{"path": "x"}') == graded("{") == "malformed"


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
    limits = sandbox.Limits(wall_seconds=1.5, cpu_seconds=1, memory_bytes=256 * 2**20, processes=8)
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

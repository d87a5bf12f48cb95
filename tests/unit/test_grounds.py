"""A verdict is kept by all that it stands on: a row whose tests, place or harness changed is graded anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.types import Action, Candidate, Json, Message, Role
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.code_grader import CodeGrader
from pivotrl_core.verifiers.row_fields import Grounds, ground_id
from pivotrl_core.verifiers.rows import verify_row
from pivotrl_core.verifiers.verdict_cache import VerdictCache

needs_sandbox = pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")


def candidate(domain: str = "code", **row: Json) -> Candidate:
    state, expert = (Message(Role.USER, "Twice?"),), Message(Role.ASSISTANT, "def twice(x):\n    return 2 * x\n")
    return Candidate(state, (), expert, "t", 0, domain, metadata={"nemo_row": row})


@pytest.mark.parametrize(("changed", "ours"), [
    ({"tests": ["make"]}, True), ({"workspace": "b"}, True), ({"index": "b"}, True), ({"answers": ["4"]}, True),
    ({"metadata": {"harness": "terminus_1"}}, True), ({"ref_patch": "x"}, False),
])  # fmt: skip
def test_what_a_row_says_is_part_of_the_ground(changed: dict[str, Json], ours: bool, tmp_path: Path) -> None:
    row = {"tests": ["true"], "workspace": "a", "index": "a", "answers": [], "metadata": {}, "ref_patch": ""}
    one, other = candidate(**row), candidate(**(row | changed))
    assert one.id == other.id
    assert (ground_id(one) != ground_id(other)) is ours
    assert Grounds(tmp_path).of(one) != Grounds(tmp_path).of(other)  # NeMo Gym's verifiers read the whole row


def test_the_answer_is_no_part_of_it_and_the_domain_is(tmp_path: Path) -> None:
    grounds = Grounds(tmp_path)
    assert grounds.of(candidate(response="a")) == grounds.of(candidate(response="b")) == grounds.of(candidate())
    assert ground_id(candidate("tool")) != ground_id(candidate("code"))


def test_places_count_by_what_lies_there(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_text("1")
    (tmp_path / "b.tar").write_text("1")
    at = [candidate(workspace="a"), candidate(index="b.tar"), candidate(workspace="gone"), candidate(index="../../x")]
    before = [Grounds(tmp_path).of(one) for one in at]
    assert before == [Grounds(tmp_path).of(one) for one in at]
    (tmp_path / "a/file").write_text("2")
    (tmp_path / "b.tar").write_text("2")
    after = [Grounds(tmp_path).of(one) for one in at]
    assert [one != other for one, other in zip(before, after, strict=True)] == [True, True, False, False]


@needs_sandbox
def test_a_row_whose_tests_were_mended_has_another_verdict(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path / "verdicts.sqlite")
    grader = CodeGrader(cache=cache)
    right = {"function": "twice", "inputs": [[2], [3]], "outputs": [4, 6]}
    action = Action("def twice(x):\n    return x + x\n")
    assert grader.grade(candidate(tests={**right, "outputs": [4, 5]}), action)["passed"] == 1
    assert grader.grade(candidate(tests=right), action)["passed"] == 2


@needs_sandbox
def test_rows_of_one_state_execute_the_experts_side_once(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place/list").write_text("b\na\n")
    params: dict[str, Any] = {"input": [{"role": "user", "content": "Sort it."}], "tools": []}
    rows = [
        {"responses_create_params": params, "expected_action": {"type": "message", "content": "sort list"},
         "workspace": "place", "metadata": {"harness": "bash"}, "response": f"sort list | {rest}"}
        for rest in ("cat", "cat -", "tac")
    ]  # fmt: skip
    cache = VerdictCache(tmp_path / "verdicts.sqlite")
    alone = [verify_row(row, "terminal", workspaces=tmp_path) for row in rows]
    assert [one["reward"] for one in alone] == [1.0, 1.0, 0.0]
    assert [verify_row(row, "terminal", workspaces=tmp_path, cache=cache) for row in rows] == alone
    found = cache.hits
    assert found > 0
    assert [verify_row(row, "terminal", workspaces=tmp_path, cache=cache) for row in rows] == alone
    assert cache.hits >= found + 3

"""Every real file is read: its assistant turns, counted from the bare JSON, become candidates, or it is said why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.trajectories.drops import DropReason, DropReport
from pivotrl_core.trajectories.inspection import inspect_files
from pivotrl_core.trajectories.loading import iterate_trajectories
from tests.candidate_sets import extract_candidates

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of real files is absent")


def _assistants(messages: list[dict[str, Any]]) -> int:
    return sum(message["role"] == "assistant" for message in messages)


def _response_turns(row: dict[str, Any]) -> int:
    """No row of the file calls two tools at once, so each call and each message is a turn."""
    items = row["response"]["output"]
    return sum(item["type"] == "function_call" or item.get("role") == "assistant" for item in items)


def _targets(row: dict[str, Any]) -> int:
    return int(bool(row.get("expected_action") or row.get("expected_answer")))


NONE = "no turn of the expert"
FILES: dict[str, tuple[Callable[[Any], int], str]] = {
    "trajectories/tau_bench/gpt-4o-airline.json": (lambda runs: sum(_assistants(run["traj"]) for run in runs), "tool"),
    "trajectories/tau2/results_20260531-184109-726391.json": (
        lambda file: sum(_assistants(run["messages"]) for run in file["simulations"]), "tool",
    ),
    "trajectories/tau2/results_20260601-041221-091109.json": (
        lambda file: sum(_assistants(run["messages"]) for run in file["simulations"]), "tool",
    ),
    "trajectories/swe_agent/demonstrations__function_calling_simple.traj.json": (
        lambda file: _assistants(file["history"]), "software",
    ),
    "trajectories/swe_agent/gpt4__swe-bench-dev-easy_first_only__default__t-0.00__p-0.95__c-3.00__install-1_.json": (
        lambda file: _assistants(file["history"]), "software",
    ),
    "trajectories/swe_agent/mini_github_issue.traj.json": (_assistants, "software"),
    "pivot_rows/conversational_tool_use_simulation/example.jsonl": (lambda _: 0, NONE),  # tasks, yet to be played
    "pivot_rows/conversational_tool_use_simulation/example_rollouts.jsonl": (_response_turns, "tool"),
    "pivot_rows/single_step_tool_use_with_argument_comparison/example.jsonl": (_targets, "tool"),
    "pivot_rows/single_step_tool_use_with_argument_comparison/example_rollouts.jsonl": (_targets, "tool"),
    "pivot_rows/single_step_tool_use_with_argument_comparison/parallel_example.jsonl": (_targets, "tool"),
    "pivot_rows/swe_pivot/example.jsonl": (_targets, "software"),
    "pivot_rows/swe_pivot/example_rollouts.jsonl": (_targets, NONE),  # their expected_answer is empty
    "pivot_rows/terminus_judge/example.jsonl": (_targets, "terminal"),
    "pivot_rows/terminus_judge/example_rollouts.jsonl": (_targets, "terminal"),
}  # fmt: skip


def test_no_real_file_is_left_out_here() -> None:
    found = {path.relative_to(SHARED).as_posix() for path in SHARED.rglob("*") if path.is_file()}
    assert {name for name in found if name.startswith(("trajectories/", "pivot_rows/"))} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_assistant_turns_of_a_real_file_become_candidates(name: str) -> None:
    count, domain = FILES[name]
    file = SHARED / name
    text = file.read_text(encoding="utf-8")
    values = [json.loads(line) for line in text.splitlines() if line] if file.suffix == ".jsonl" else [json.loads(text)]
    turns = sum(count(value) for value in values)

    report = DropReport()
    trajectories = list(iterate_trajectories([file], report))
    found = extract_candidates(trajectories, 0.0, 0.0)
    assert report.read == report.kept + len(report.drops)
    if domain == NONE:
        assert (turns, len(found.candidates), report.by_reason()) == (0, 0, {"missing_field": 5})
        return
    # All turns are candidates; of equal ones (the same greeting, say) one is kept. 95 % is asked for. A run that has no
    # turn of its own is left out.
    assert {drop.reason for drop in report.drops} <= {DropReason.DUPLICATE_CONTENT}
    assert found.report()["turns"] == turns or (report.drops and found.report()["turns"] < turns)
    assert {drop.reason for drop in found.drops} <= {"duplicate_candidate"}
    assert {candidate.domain for candidate in found.candidates} == {domain}
    for candidate in found.candidates:
        assert not any(message.thinking for message in candidate.state)
        assert all(call.name in {tool.name for tool in candidate.tools} for call in candidate.expert.tool_calls) or (
            name.startswith("pivot_rows/swe_pivot")  # rows without tools
        )


def test_the_decisions_of_all_real_files_add_up_and_every_kind_occurs() -> None:
    report = inspect_files([SHARED / name for name in FILES])
    assert sum(report.candidates_by_decision.values()) == report.candidates == sum(report.candidates_by_kind.values())
    assert Counter(report.candidates_by_decision)["error_handling"] > 0
    assert set(report.candidates_by_decision) == {
        "answer", "argument", "error_handling", "parallel_calls", "reply", "tool",
    }  # fmt: skip
    assert report.left_out == {"results_of_user_calls": 6, "user_calls": 6}

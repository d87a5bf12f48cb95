"""A log with a row for each model call is one conversation: one split, each turn once, tools of the whole source."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.trajectories.drops import DropReport
from pivotrl_core.trajectories.inspection import inspect_files
from pivotrl_core.trajectories.loading import iterate_trajectories
from pivotrl_core.trajectories.splits import split_trajectory
from pivotrl_core.types import Split, Trajectory
from tests import trajectory_rows as rows
from tests.candidate_sets import extract_candidates

TURNS = [
    rows.USER, rows.CHAT["messages"][1], rows.RESULT, rows.ANSWER,
    {"role": "user", "content": "And B2?"}, {"role": "assistant", "content": "Late."},
]  # fmt: skip


def write(file: Path, *values: Any) -> Path:
    file.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return file


def read(*files: Path) -> tuple[list[Trajectory], DropReport]:
    report = DropReport()
    kept = list(iterate_trajectories(files, report))
    assert report.read == report.kept + len(report.drops)
    return kept, report


def calls(number: int = 0, **more: Any) -> list[dict[str, Any]]:
    """A conversation as its three calls were logged."""
    first = {"role": "user", "content": f"Where is A1? ({number})"}
    return [{"messages": [first, *TURNS[1:end]], "tools": [rows.FIND], **more} for end in (2, 4, 6)]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_in_whatever_order_calls_come_each_turn_is_one_candidate_of_one_group(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    logged = calls()
    kept, report = read(write(tmp_path / "calls.jsonl", *(logged[index] for index in order)))
    assert set(report.by_reason()) <= {"duplicate_content"}
    assert report.share == 0.0
    assert len({one.group or one.id for one in kept}) == 1
    assert len(extract_candidates(kept, 0.0, 0.0).candidates) == 3
    assert extract_candidates(kept, 0.0, 0.0).drops == []


def test_calls_may_all_bear_the_id_of_their_conversation(tmp_path: Path) -> None:
    stranger = {**rows.CHAT, "id": "c1", "messages": [{"role": "user", "content": "Where is C9?"}, *TURNS[1:4]]}
    kept, report = read(write(tmp_path / "calls.jsonl", *calls(id="c1"), stranger))
    assert len(extract_candidates(kept, 0.0, 0.0).candidates) == 3
    assert report.by_reason() == {"duplicate_id": 1}


def test_no_conversation_is_in_two_splits_and_different_ones_are_apart(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{i}.jsonl", *(calls(n)[i] for n in range(40))) for i in range(3)]
    kept, report = read(*files)
    splits: dict[str, set[Split]] = {}
    for one in kept:
        splits.setdefault(one.messages[0].content, set()).add(split_trajectory(one, 0.3, 0.3))
    assert (len(kept), report.drops) == (120, [])
    assert all(len(found) == 1 for found in splits.values())
    assert len(set.union(*splits.values())) == 3
    inspected = inspect_files(files)
    assert (inspected.groups, inspected.candidates) == (40, 120)


def test_thinking_that_a_log_does_not_send_again_makes_no_second_candidate(tmp_path: Path) -> None:
    logged = calls()
    logged[0]["messages"][1] = {**logged[0]["messages"][1], "reasoning_content": "hm"}
    kept, _ = read(write(tmp_path / "calls.jsonl", *logged))
    found = extract_candidates(kept, 0.0, 0.0).candidates
    assert [one.expert.thinking for one in found] == ["hm", "", ""]


def test_runs_that_merely_begin_alike_or_name_their_groups_stay_apart(tmp_path: Path) -> None:
    alike = [{"messages": [*TURNS[:3], {"role": "assistant", "content": text}]} for text in ("Here.", "There.")]
    kept, _ = read(write(tmp_path / "alike.jsonl", *alike))
    assert [one.group for one in kept] == ["", ""]
    named, _ = read(write(tmp_path / "named.jsonl", *(row | {"task_id": str(i)} for i, row in enumerate(calls()))))
    assert [one.group for one in named] == ["0", "1", "2"]


def test_ids_of_responses_name_rows_and_no_groups(tmp_path: Path) -> None:
    said = [{"input": [rows.USER], "output": rows.OUTPUT[:2], "id": "r1"}]
    said += [{"input": [rows.USER, *rows.OUTPUT[1:3]], "output": rows.OUTPUT[3:], "id": "r2"}]
    kept, _ = read(write(tmp_path / "calls.jsonl", *said))
    assert [one.group for one in kept] == ["r1", "r1"]
    assert len(extract_candidates(kept, 0.0, 0.0).candidates) == 2


def test_inferred_tools_are_those_of_the_whole_source_so_that_none_tells_what_its_row_will_call(tmp_path: Path) -> None:
    cancel = {"id": "c2", "function": {"name": "cancel", "arguments": '{"id": "A1"}'}}
    first = write(tmp_path / "a.jsonl", {"messages": [rows.USER, rows.ANSWER]}, {"messages": TURNS[:4]})
    turn = {"role": "assistant", "content": None, "tool_calls": [cancel]}
    second = write(
        tmp_path / "b.jsonl", {"messages": [rows.USER, turn]}, {"messages": [rows.USER, turn], "domain": "x"}
    )
    kept, _ = read(first, second)
    assert [[tool.name for tool in one.tools] for one in kept] == [["cancel", "find"]] * 3 + [["cancel"]]
    assert all(one.metadata["tools_inferred"] for one in kept)
    assert inspect_files([first, second]).tools_inferred == 4

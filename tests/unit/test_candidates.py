"""Every assistant turn is a candidate once, with everything before it as its state."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pivotrl_core.errors import DataError
from pivotrl_core.pivots.profile_record import read_candidates, read_profile, write_candidates
from pivotrl_core.types import Candidate, Message, Role, Split, Tool, ToolCall, Trajectory
from tests.candidate_sets import extract_candidates

HELLO = Message(Role.USER, "Hello.")
HI = Message(Role.ASSISTANT, "Hi.", thinking="greet back")
FIND = Message(Role.ASSISTANT, tool_calls=(ToolCall("find", '{"id": "A1"}', "c1"),))
FOUND = Message(Role.TOOL, "found", tool_call_id="c1")
DONE = Message(Role.ASSISTANT, "Done.")
TOOLS = (Tool("find", "Find.", {"type": "object", "properties": {"id": {"type": "string", "default": 1.5}}}),)


def test_each_turn_has_all_before_it_as_state_without_earlier_thinking() -> None:
    found = extract_candidates([Trajectory((HELLO, HI, HELLO, FIND, FOUND, DONE), TOOLS)], 0.0, 0.0)
    assert [(len(c.state), c.turn_index) for c in found.candidates] == [(1, 0), (3, 1), (5, 2)]
    assert found.candidates[0].expert.thinking == "greet back"
    assert found.candidates[1].state[1] == Message(Role.ASSISTANT, "Hi.")
    assert all(candidate.tools == TOOLS for candidate in found.candidates)


def test_a_turn_that_two_trajectories_share_is_kept_once_and_counted() -> None:
    shared, other = (HELLO, HI, HELLO, DONE), (HELLO, HI, HELLO, FIND)
    found = extract_candidates([Trajectory(shared), Trajectory(other)], 0.0, 0.0)
    report = found.report()
    assert (report["turns"], report["candidates"], report["dropped_by_reason"]) == (4, 3, {"duplicate_candidate": 1})
    assert found.drops[0].trajectory_id == Trajectory(other).id


def test_a_turn_with_nothing_before_it_and_a_turn_that_a_check_excludes_are_counted() -> None:
    found = extract_candidates(
        [Trajectory((HI, HELLO, DONE, HELLO, FIND))], 0.0, 0.0, lambda c: "too_long" if len(c.state) > 3 else ""
    )
    assert found.report()["dropped_by_reason"] == {"empty_state": 1, "too_long": 1}


def test_all_turns_of_a_group_are_in_one_split_and_new_data_moves_none() -> None:
    def trajectory(i: int) -> Trajectory:
        return Trajectory((Message(Role.USER, f"Task {i}."), HI, HELLO, DONE), group=f"task {i % 40}")

    few = extract_candidates([trajectory(i) for i in range(60)], 0.2, 0.2).candidates
    many = extract_candidates([trajectory(i) for i in range(120)], 0.2, 0.2).candidates
    assert few == many[: len(few)]
    assert {c.split for c in many} == set(Split)
    splits_of_task: dict[str, set[Split]] = {}
    for candidate in many:
        task = str(int(candidate.state[0].content[5:-1]) % 40)
        splits_of_task.setdefault(task, set()).add(candidate.split)
    assert all(len(splits) == 1 for splits in splits_of_task.values())


def test_candidates_are_written_and_read_with_equal_ids_and_equal_bytes(tmp_path: Path) -> None:
    trajectory = Trajectory((HELLO, HI, HELLO, FIND, FOUND, DONE), TOOLS, metadata={"reward": 1.0, "big": ["x"]})
    candidates = extract_candidates([trajectory], 0.0, 0.0).candidates
    for name in ("a.parquet", "b.parquet"):
        write_candidates(tmp_path / name, candidates)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    again = read_candidates(tmp_path / "a.parquet")
    assert [c.id for c in again] == [c.id for c in candidates]
    assert again[0].metadata == {"reward": 1.0}


def test_a_file_of_another_kind_or_no_parquet_at_all_is_named(tmp_path: Path) -> None:
    write_candidates(tmp_path / "c.parquet", [])
    assert read_candidates(tmp_path / "c.parquet") == []
    with pytest.raises(DataError, match=r"expected profile of schema version 2, found candidates"):
        read_profile(tmp_path / "c.parquet")
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_candidates(tmp_path / "x.parquet")


def test_candidates_are_written_in_parts_as_they_come_and_read_as_one(tmp_path: Path) -> None:
    texts = [f"{index}" + "x" * 1_000_000 for index in range(40)]
    come = (Candidate((Message(Role.USER, text),), (), Message(Role.ASSISTANT, "y"), "t", 0) for text in texts)
    write_candidates(tmp_path / "c.parquet", come)
    assert pq.ParquetFile(tmp_path / "c.parquet").num_row_groups == 3  # of 16 million characters: 16, 16 and 8
    assert [one.state[0].content for one in read_candidates(tmp_path / "c.parquet")] == texts

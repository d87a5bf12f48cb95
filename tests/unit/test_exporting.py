"""A pool that is exported as pivot rows is the same pool when it is read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.exporting import export_text
from pivotrl_core.errors import DataError
from pivotrl_core.files import read_jsonl
from pivotrl_core.pivots.candidates import extract_candidates
from pivotrl_core.pivots.pool import build_pool, write_pool
from pivotrl_core.pivots.profile_record import ProfileRow, read_profile, write_profile
from pivotrl_core.pivots.selection import AllTurns
from pivotrl_core.trajectories.loading import load_trajectories
from pivotrl_core.types import Candidate, Message, Role, ToolCall, Verdict
from tests.toy_training import TOOLS, toy_candidates

TERMINAL = Candidate(
    (Message(Role.USER, "Find A1 and B2."),), TOOLS,
    Message(Role.ASSISTANT, tool_calls=(ToolCall("find", '{"id": "A1"}'), ToolCall("find", '{"id": "B2"}'))), "t9", 3,
    domain="terminal",
)  # fmt: skip


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """A pool of calls and messages, with 1 success of 4, but for the last: cut short after 2 of 4."""
    candidates = [*toy_candidates(3), TERMINAL]
    verdicts = tuple(Verdict(float(i == 0), "why") for i in range(4))
    rows = [ProfileRow(one, verdicts, planned=4) for one in candidates[:-1]]
    rows.append(ProfileRow(candidates[-1], verdicts[:2], planned=4))
    write_profile(tmp_path / "profile.parquet", rows)
    write_pool(tmp_path / "pool", build_pool(read_profile(tmp_path / "profile.parquet"), AllTurns()))
    return tmp_path / "pool"


def test_an_exported_pool_is_read_back_as_the_same_candidates(pool: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    assert export_text(pool, out, as_json=False) == f"{out}: 7 rows"
    loaded = load_trajectories([out], max_drop_share=0.0)
    again = extract_candidates(loaded.trajectories, 0.0, 0.0).candidates
    expected = [*toy_candidates(3), TERMINAL]
    assert [one.id for one in again] == [one.id for one in expected]
    assert [(one.domain, one.turn_index) for one in again] == [(one.domain, one.turn_index) for one in expected]
    # Turns of one trajectory stay in one split.
    assert [one.group for one in loaded.trajectories] == [one.trajectory_id for one in expected]


def test_what_the_profile_found_is_exported_but_not_where_it_stopped_early(pool: Path, tmp_path: Path) -> None:
    said = export_text(pool / "pool.parquet", tmp_path / "rows.jsonl", as_json=True)
    assert json.loads(said) == {"file": str(tmp_path / "rows.jsonl"), "rows": 7}
    rows = read_jsonl(tmp_path / "rows.jsonl")
    assert [row.get("pass_rate") for row in rows] == [0.25] * 6 + [None]
    assert (rows[0]["pass_rate_passed"], rows[0]["pass_rate_total"]) == (1, 4)


def test_without_a_pool_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pool\.parquet"):
        export_text(tmp_path, tmp_path / "rows.jsonl", as_json=False)
    assert not (tmp_path / "rows.jsonl").exists()

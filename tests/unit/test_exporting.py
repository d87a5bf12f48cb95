"""A pool that is exported as pivot rows is the same pool when it is read again."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
import yaml

from flows.exporting import export_text
from pivotrl_core.errors import DataError
from pivotrl_core.files import read_jsonl
from pivotrl_core.pivots.pool import build_pool, write_pool
from pivotrl_core.pivots.profile_record import ProfileRow, read_profile, write_profile
from pivotrl_core.pivots.selection import AllTurns
from pivotrl_core.trajectories.loading import load_trajectories
from pivotrl_core.types import Candidate, Message, Role, ToolCall, Verdict
from tests.candidate_sets import extract_candidates
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
    assert export_text(str(pool), out, as_json=False) == f"{out}: 7 rows"
    loaded = load_trajectories([out], max_drop_share=0.0)
    again = extract_candidates(loaded.trajectories, 0.0, 0.0).candidates
    expected = [*toy_candidates(3), TERMINAL]
    assert [one.id for one in again] == [one.id for one in expected]
    assert [(one.domain, one.turn_index) for one in again] == [(one.domain, one.turn_index) for one in expected]
    # Turns of one trajectory stay in one split.
    assert [one.group for one in loaded.trajectories] == [one.trajectory_id for one in expected]


def test_what_the_profile_found_is_exported_but_not_where_it_stopped_early(pool: Path, tmp_path: Path) -> None:
    said = export_text(str(pool / "pool.parquet"), tmp_path / "rows.jsonl", as_json=True)
    assert json.loads(said) == {"file": str(tmp_path / "rows.jsonl"), "rows": 7}
    rows = read_jsonl(tmp_path / "rows.jsonl")
    assert [row.get("pass_rate") for row in rows] == [0.25] * 6 + [None]
    assert (rows[0]["pass_rate_passed"], rows[0]["pass_rate_total"]) == (1, 4)


def test_without_a_pool_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pool\.parquet"):
        export_text(str(tmp_path), tmp_path / "rows.jsonl", as_json=False)
    assert not (tmp_path / "rows.jsonl").exists()


def test_a_pool_of_a_recorded_run_is_taken_from_the_cache(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "checkout"
    files = [{"md5": _cached(root, path.read_bytes()), "relpath": path.name} for path in pool.iterdir()]
    outs = [{"path": "data/pools/pivotrl", "md5": _cached(root, json.dumps(files).encode(), ".dir")}]
    for name in ("dvc.yaml", "params.yaml"):
        (root / name).touch()
    (root / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": {"s": {"cmd": "c", "outs": outs}}}))
    (root / "run.json").write_text(json.dumps({"run_id": "night", "commit": "0"}))
    for command in ("init --quiet", "add .", "commit --quiet -m night", "update-ref refs/pivotrl/runs/night HEAD"):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, "-C", str(root), *command.split()], check=True)
    monkeypatch.chdir(root)
    out = tmp_path / "rows.jsonl"
    assert export_text("night:pivotrl", out, as_json=False) == f"{out}: 7 rows"
    with pytest.raises(DataError, match="it has pivotrl"):
        export_text("night:sft", out, as_json=False)


def _cached(root: Path, content: bytes, suffix: str = "") -> str:
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest() + suffix
    path = root / ".dvc/cache/files/md5" / md5[:2] / md5[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return md5

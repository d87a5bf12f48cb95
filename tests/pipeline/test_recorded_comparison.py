"""`pivotrl compare` on recorded runs: real git commits, item tables from a DVC cache."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pivotrl_core.errors import DataError
from pivotrl_core.files import read_json, write_json
from tasks.comparison import compare_runs
from tasks.settings import find_state
from tasks.tracking.tracker import Tracker
from tests.report_files import comparison, write_reports


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def store(cache: Path, content: bytes, suffix: str = "") -> str:
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest() + suffix
    path = cache / md5[:2] / md5[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return md5


def without_environment(root: Path) -> None:
    """Make held-out turns of the episodes: what evaluation scores where the trajectories have no environment."""
    for folder in (root / "reports/evaluate").iterdir():
        episodes = pd.read_parquet(folder / "episodes.parquet")
        turns = episodes.rename(columns={"task_id": "candidate_id", "success": "accepted"})
        turns.astype({"accepted": bool}).to_parquet(folder / "turns.parquet")
        (folder / "episodes.parquet").unlink()
        report = read_json(folder / "report.json")
        named = {key.replace("helpdesk/success", "turns/accuracy"): value for key, value in report["metrics"].items()}
        write_json(folder / "report.json", {**report, "domain": "turns", "metrics": named})
    write_json(root / "reports/compare/report.json", comparison(root))


def record(root: Path, run_id: str, seeds: tuple[int, ...], environment: bool = True) -> None:
    """Write reports, keep their tables in the cache as DVC does, and commit the rest under the run's ref."""
    for name in ("reports", "data"):
        shutil.rmtree(root / name, ignore_errors=True)
    write_reports(root, seeds=seeds)
    if not environment:
        without_environment(root)
    stages = {}
    for folder in sorted((root / "reports/evaluate").iterdir()):
        files = [{"md5": store(root / ".state/dvc-cache/files/md5", path.read_bytes()), "relpath": path.name}
                 for path in sorted(folder.iterdir())]  # fmt: skip
        digest = store(root / ".state/dvc-cache/files/md5", json.dumps(files).encode(), ".dir")
        out = {"path": f"reports/evaluate/{folder.name}", "md5": digest}
        stages[f"evaluate@{folder.name}"] = {"cmd": "evaluate", "outs": [out]}
    (root / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}))
    git(root, "add", "--all", "--", "*.json", "*.jsonl", "*.yaml", "dvc.lock")
    git(root, "commit", "--quiet", "--message", run_id)
    git(root, "update-ref", f"refs/pivotrl/runs/{run_id}", "HEAD")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PIVOTRL_STATE", raising=False)
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "--quiet")
    (root / ".dvc").mkdir()
    (root / ".dvc" / "config").write_text("[cache]\n    dir = ../.state/dvc-cache\n")
    record(root, "run-one", (0,))
    record(root, "run-two", (0, 1))
    return root


def test_two_runs_are_compared_arm_by_arm_with_paired_intervals(checkout: Path):
    text = compare_runs("run-two", "run-one", checkout)
    assert [line for line in text.splitlines() if line.startswith("==")] == ["== base ==", "== pivotrl ==", "== sft =="]
    assert "seeds                                  [0,1] | [0]" in text
    assert "not paired" not in text
    assert max(map(len, text.splitlines())) <= 120


def test_an_arm_of_the_checkout_is_compared_with_the_same_arm_of_a_run(checkout: Path):
    text = compare_runs("pivotrl", "run-one", checkout)  # the checkout is as run-two left it
    assert "seeds                                  [0,1] | [0]" in text
    assert "metrics: pivotrl here against run-one:pivotrl" in text
    assert "[0] | [0,1]" in compare_runs("run-one", "pivotrl", checkout)
    write_reports(checkout, arms=("base", "lambda-04"))
    with pytest.raises(DataError, match="run-one: no evaluated arm lambda-04; it has: base, pivotrl, sft"):
        compare_runs("lambda-04", "run-one", checkout)


def test_benchmarks_that_one_side_lacks_are_in_no_difference_and_named(checkout: Path):
    whole = compare_runs("pivotrl", "run-one", checkout)
    for seed in (0, 1):
        path = checkout / f"reports/evaluate/pivotrl-{seed}/items.parquet"
        frame = pd.read_parquet(path)
        frame[frame["benchmark"] != "ifbench-embedded"].to_parquet(path)
    partly = compare_runs("pivotrl", "run-one", checkout)
    told = "ifbench-embedded: in run-one:pivotrl alone, so in no difference, though perhaps in its mean"
    assert [told in text for text in (whole, partly)] == [False, True]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_a_run_goes_by_its_id_in_mlflow_too(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    tracker = Tracker(find_state(checkout).tracking_uri, "pivotrl")
    parent = tracker.start_run("run-two", "run-run-two", {})
    tracker.client.set_tag(parent, "pivotrl.run_commit", git(checkout, "rev-parse", "refs/pivotrl/runs/run-two"))
    assert "== sft ==" in compare_runs(parent, "run-one", checkout)


def test_held_out_turns_of_two_runs_are_paired(checkout: Path):
    for run_id, seeds in (("turns-one", (0,)), ("turns-two", (0, 1))):
        record(checkout, run_id, seeds, environment=False)
    text = compare_runs("turns-two", "turns-one", checkout)
    assert len([line for line in text.splitlines() if line.startswith("  turns accuracy, greedy")]) == 3  # one an arm
    assert "not paired" not in text


def test_without_the_items_intervals_stand_side_by_side(checkout: Path):
    shutil.rmtree(checkout / ".state")
    text = compare_runs("run-two", git(checkout, "rev-parse", "HEAD~1"), checkout)
    assert "not paired" in text
    assert "no diff. shown" not in text


def test_a_name_that_is_nothing_is_an_error_that_says_so(checkout: Path):
    with pytest.raises(DataError, match="nonsense: no arm of this checkout, no run id, no commit and no MLflow"):
        compare_runs("run-one", "nonsense", checkout)


def test_a_record_that_leads_out_of_its_folder_is_refused(checkout: Path, tmp_path: Path):
    """Git makes no tree with `..` in it, but takes one from elsewhere."""
    blob, compared = _object(checkout, "blob", b"{}"), git(checkout, "rev-parse", "HEAD:reports/compare")
    outside = _tree(checkout, {b"100644 escaped.json": blob})
    reports = _tree(checkout, {b"40000 ..": outside, b"40000 compare": compared})
    commit = git(checkout, "commit-tree", _tree(checkout, {b"40000 reports": reports}), "-m", "not of git's making")
    with pytest.raises(DataError, match="outside of its folder"):
        compare_runs(commit, "run-one", checkout)


def _tree(root: Path, entries: dict[bytes, str]) -> str:
    return _object(root, "tree", b"".join(name + b"\0" + bytes.fromhex(one) for name, one in entries.items()))


def _object(root: Path, kind: str, content: bytes) -> str:
    command = ["git", "-C", str(root), "hash-object", "-t", kind, "-w", "--stdin", "--literally"]
    return subprocess.run(command, input=content, capture_output=True, check=True).stdout.decode().strip()

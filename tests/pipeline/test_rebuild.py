"""`pivotrl ui --rebuild`: MLflow's store can be lost without losing a result."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pivotrl_core.stages.context import write_report
from tasks.processes import start_time, this_process
from tasks.settings import find_state
from tasks.tracking.rebuild import rebuild_runs
from tasks.tracking.tracker import COMMIT_TAG, ENDED_TAG, PROCESS_TAG, Tracker

from .test_recorded_comparison import git, record, store

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)


def test_runs_that_mlflow_lost_are_shown_again_from_their_reports_and_the_others_stay(tmp_path: Path):
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "--quiet")
    record(root, "run-one", (0,))
    record(root, "run-two", (0, 1))
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    tracker = Tracker(uri, "pivotrl")
    shown = tracker.start_run("run-two", "shown", {})
    tracker.finish_run(shown, "FINISHED")
    tracker.client.set_tag(shown, COMMIT_TAG, git(root, "rev-parse", "HEAD"))
    assert rebuild_runs(root, uri) == (["run-one"], [])
    assert rebuild_runs(root, uri) == ([], [])
    runs = tracker.client.search_runs([tracker.experiment_id])
    named = {run.info.run_name: run for run in runs}
    assert len(runs) == len(named) == 5
    assert set(named) == {"shown", "run-run-one", "base-0", "sft-0", "pivotrl-0"}
    assert {run.info.status for run in runs} == {"FINISHED"}
    parent, pivotrl = named["run-run-one"], named["pivotrl-0"]
    assert parent.data.tags["pivotrl.run_commit"] == git(root, "rev-parse", "refs/pivotrl/runs/run-one")
    assert "embedded, n = 32" in parent.data.tags["mlflow.note.content"]
    assert parent.data.metrics["compare/base/helpdesk/success_greedy"] > 0
    assert parent.data.params["verifier.kind"] == "functional"  # defaults too, as the run itself told them
    assert pivotrl.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert len(tracker.client.get_metric_history(pivotrl.info.run_id, "train/reward_mean")) == 24
    assert pivotrl.data.metrics["cost/profile_rollout_turns"] == 303 * 8
    assert "cost/profile_rollout_turns" not in named["sft-0"].data.metrics  # it trains on all turns


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with one recorded run."""
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "--quiet")
    (root / ".dvc").mkdir()
    (root / ".dvc" / "config").write_text("[cache]\n    dir = ../.state/dvc-cache\n")
    record(root, "run-one", (0,))
    return root


def test_name_inputs_data_and_artifacts_come_back_too(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PIVOTRL_STATE", raising=False)
    facts = {"run_id": "run-one", "flow": "nightly", "inputs": {"data/pulled": "d" * 32}}
    (root / "run.json").write_text(json.dumps(facts))
    write_report(root / "data/candidates/report.json", "candidates", {"data/rows_read": 9, "data/rows_kept": 8})
    git(root, "add", "run.json", "data/candidates/report.json")
    git(root, "commit", "--quiet", "--message", "x")
    git(root, "update-ref", "refs/pivotrl/runs/run-one", "HEAD")
    page = find_state(root).runs / "run-one/report.html"
    page.parent.mkdir(parents=True)
    page.write_text("<html></html>")
    uri = f"sqlite:///{root.parent / 'mlflow.db'}"
    assert rebuild_runs(root, uri) == (["run-one"], [])
    tracker = Tracker(uri, "pivotrl")
    runs = {run.info.run_name: run for run in tracker.client.search_runs([tracker.experiment_id])}
    assert set(runs) == {"nightly-run-one", "base-0", "sft-0", "pivotrl-0"}
    parent = runs.pop("nightly-run-one")
    assert {name: parent.data.metrics[name] for name in ("data/rows_read", "data/rows_kept")} == {
        "data/rows_read": 9.0,
        "data/rows_kept": 8.0,
    }
    assert [one.path for one in tracker.client.list_artifacts(parent.info.run_id)] == ["report.html", "table.md"]
    assert {one.inputs.dataset_inputs[0].dataset.digest for one in runs.values()} == {"d" * 32}


def test_a_record_that_cannot_be_shown_hides_no_other(root: Path, caplog: pytest.LogCaptureFixture):
    (root / "reports/evaluate/sft-0/report.json").write_text("{}")
    git(root, "commit", "--quiet", "--all", "--message", "bad")
    git(root, "update-ref", "refs/pivotrl/runs/a-bad-one", "HEAD")
    with caplog.at_level("WARNING"):
        assert rebuild_runs(root, f"sqlite:///{root.parent / 'mlflow.db'}") == (["run-one"], ["a-bad-one"])
    assert "run a-bad-one is not in MLflow" in caplog.text


def test_a_stage_that_left_the_graph_and_stayed_in_dvc_lock_is_no_part_of_the_run(root: Path):
    """A removed arm, or `--arms` after a plain run: dvc.lock names its tables, the record has no report of it."""
    lock = yaml.safe_load((root / "dvc.lock").read_text())
    cache = root / ".state/dvc-cache/files/md5"
    files = [{"md5": store(cache, b"table"), "relpath": "items.parquet"}]
    gone = {"path": "reports/evaluate/gone-0", "md5": store(cache, json.dumps(files).encode(), ".dir")}
    lock["stages"]["evaluate@gone-0"] = {"cmd": "evaluate", "outs": [gone]}
    (root / "dvc.lock").write_text(yaml.safe_dump(lock))
    git(root, "commit", "--quiet", "--all", "--message", "x")
    git(root, "update-ref", "refs/pivotrl/runs/run-one", "HEAD")
    uri = f"sqlite:///{root.parent / 'mlflow.db'}"
    assert rebuild_runs(root, uri) == (["run-one"], [])
    tracker = Tracker(uri, "pivotrl")
    assert len(tracker.client.search_runs([tracker.experiment_id])) == 4  # the parent and three arms


def test_a_run_that_is_there_in_part_is_completed_but_not_one_that_is_being_written(root: Path):
    uri = f"sqlite:///{root.parent / 'mlflow.db'}"
    tracker = Tracker(uri, "pivotrl")
    parent = tracker.start_run("run-one", "begun", {})
    other = replace(this_process(), pid=os.getppid(), started=start_time(os.getppid()) or 0.0)
    tracker.client.set_tag(parent, PROCESS_TAG, str(other))
    assert rebuild_runs(root, uri) == ([], [])
    tracker.end_running("run-one", "FAILED", "its tracking failed")
    assert rebuild_runs(root, uri) == (["run-one"], [])
    assert rebuild_runs(root, uri) == ([], [])
    run = tracker.client.get_run(parent)
    assert run.info.status == "FINISHED"
    assert run.data.tags[COMMIT_TAG] == git(root, "rev-parse", "HEAD")
    assert ENDED_TAG not in run.data.tags

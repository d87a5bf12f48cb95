"""`pivotrl ui --rebuild`: MLflow's store can be lost without losing a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.tracking.rebuild import rebuild_runs
from tasks.tracking.tracker import Tracker

from .test_recorded_comparison import git, record

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
    tracker.finish_run(tracker.start_run("run-two", "shown", {}), "FINISHED")
    assert rebuild_runs(root, uri) == ["run-one"]
    assert rebuild_runs(root, uri) == []
    runs = tracker.client.search_runs([tracker.experiment_id])
    named = {run.info.run_name: run for run in runs}
    assert len(runs) == len(named) == 5
    assert set(named) == {"shown", "run-one", "base-0", "sft-0", "pivotrl-0"}
    assert {run.info.status for run in runs} == {"FINISHED"}
    parent, pivotrl = named["run-one"], named["pivotrl-0"]
    assert parent.data.tags["pivotrl.run_commit"] == git(root, "rev-parse", "refs/pivotrl/runs/run-one")
    assert "embedded, n = 32" in parent.data.tags["mlflow.note.content"]
    assert parent.data.metrics["compare/base/helpdesk/success_greedy"] > 0
    assert parent.data.params["verifier.kind"] == "functional"  # defaults too, as the run itself told them
    assert pivotrl.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert len(tracker.client.get_metric_history(pivotrl.info.run_id, "train/reward_mean")) == 24
    assert pivotrl.data.metrics["cost/profile_rollout_turns"] == 303 * 8

"""What MLflow is told of a run, against a real SQLite MLflow: of this run alone, with what it really started from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pivotrl_core.config.graph import derive_graph
from pivotrl_core.config.loading import load_config
from tasks.last_good import STARTS
from tasks.provenance import Provenance
from tasks.recording import Recording
from tasks.tracking.tracker import Tracker
from tests.report_files import write_reports

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """A recording of `run-1` in a folder with every report."""
    root = write_reports(tmp_path / "checkout")
    provenance = Provenance("run-1", "abc", False, "", "", "", {"data/pulled": "d" * 32})
    config = load_config(root / "params.yaml")
    return Recording(root, config, f"sqlite:///{tmp_path / 'mlflow.db'}", "run-1", "run-run-1", lambda: provenance)


def _runs(recording: Recording) -> dict[str, Any]:
    tracker = Tracker(recording.uri, recording.config.tracking.experiment)
    return {run.info.run_name: run for run in tracker.client.search_runs([tracker.experiment_id])}


def test_a_failed_run_takes_no_numbers_from_reports_of_earlier_runs(recording: Recording) -> None:
    recording.follow("train@sft-0", ("reports/train/sft-0",))
    recording._child("sft-0").log_metrics(0, {"train/loss": 1.0})
    recording.finish("FAILED", "", None, "")
    runs = _runs(recording)
    assert {name: run.info.status for name, run in runs.items()} == {"run-run-1": "FAILED", "sft-0": "FAILED"}
    assert runs["sft-0"].data.metrics == {"train/loss": 1.0}


def test_what_is_discarded_is_out_of_sight(recording: Recording) -> None:
    recording.follow("train@sft-0", ("reports/train/sft-0",))
    recording._child("sft-0").log_metrics(0, {"train/loss": 1.0})
    recording.discard()
    assert recording.enabled
    assert _runs(recording) == {}


def test_a_registered_model_names_the_kept_model_that_it_started_from(recording: Recording) -> None:
    start = f"{STARTS}/pivotrl-0"
    stages = {
        f"train@{key}": {
            "cmd": "x",
            "deps": [{"path": path, "md5": "a" * 32} for path in ("models/base", start)],
            "outs": [{"path": f"models/{train['arm']}/0", "md5": "b" * 32}],
        }
        for key, train in derive_graph(recording.config)["trains"].items()
    }
    (recording.root / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}))
    recording.begin()
    recording.finish("FINISHED", "", None, "abc")
    assert recording.enabled  # nothing of it failed
    client = Tracker(recording.uri, recording.config.tracking.experiment).client
    found = client.search_model_versions(f"name = '{recording.config.tracking.experiment}-pivotrl'")
    tags = found[0].tags
    assert (tags["pivotrl.lineage.start"], tags["pivotrl.lineage.start_md5"]) == (start, "a" * 32)

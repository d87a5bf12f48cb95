"""What MLflow is told of a run, against a real SQLite MLflow: of this run alone, with what it really started from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pivotrl_core.config.graph import derive_graph
from pivotrl_core.config.loading import load_config, parse_config
from pivotrl_core.stages.context import write_report
from tasks.last_good import STARTS
from tasks.provenance import Provenance
from tasks.tracking.flow_run import Recording
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


def _lock_training(recording: Recording, *starts: str) -> None:
    """Write the dvc.lock of a run that has trained every arm."""
    stages = {
        f"train@{key}": {
            "cmd": "x",
            "deps": [{"path": path, "md5": "a" * 32} for path in starts],
            "outs": [{"path": f"models/{train['arm']}/0", "md5": "b" * 32}],
        }
        for key, train in derive_graph(recording.config)["trains"].items()
    }
    (recording.root / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}))


def test_a_failed_run_takes_no_numbers_from_reports_of_earlier_runs(recording: Recording) -> None:
    recording.follow("train@sft-0", ("reports/train/sft-0",))
    recording._child("sft-0").log_metrics(0, {"train/loss": 1.0})
    recording.finish("FAILED", "", None, "")
    runs = _runs(recording)
    assert {name: run.info.status for name, run in runs.items()} == {"run-run-1": "FAILED", "sft-0": "FAILED"}
    assert runs["sft-0"].data.metrics == {"train/loss": 1.0}


def test_the_parent_tells_what_was_read_of_the_data(recording: Recording) -> None:
    write_report(recording.root / "data/candidates/report.json", "candidates", {"data/rows_read": 9})
    recording.follow("train@sft-0", ("reports/train/sft-0",))
    _lock_training(recording, "models/base")
    recording.finish("FINISHED", "", None, "abc")
    assert recording.enabled  # nothing of it failed
    assert _runs(recording)["run-run-1"].data.metrics["data/rows_read"] == 9.0


def test_what_is_discarded_is_out_of_sight(recording: Recording) -> None:
    recording.follow("train@sft-0", ("reports/train/sft-0",))
    recording._child("sft-0").log_metrics(0, {"train/loss": 1.0})
    recording.discard()
    assert recording.enabled
    assert _runs(recording) == {}


def test_the_tags_are_those_of_the_end_as_in_the_record(recording: Recording) -> None:
    now = [replace(recording.provenance(), inputs={})]  # a fresh checkout's first stage: nothing has been locked yet
    recording.provenance = lambda: now[0]
    recording.follow("train@sft-0", ("reports/train/sft-0",))
    recording._child("sft-0").log_metrics(0, {"train/loss": 1.0})
    _lock_training(recording, "models/base")
    now[0] = replace(now[0], lock_digest="e" * 64, inputs={"data/pulled": "d" * 32})
    recording.finish("FINISHED", "", None, "abc")
    assert recording.enabled  # nothing of it failed
    runs = _runs(recording)
    assert set(runs) == {"run-run-1", "base-0", "sft-0", "pivotrl-0"}
    tags = [run.data.tags for run in runs.values()]
    assert {(one["pivotrl.lock_digest"], one["pivotrl.inputs.data/pulled"]) for one in tags} == {("e" * 64, "d" * 32)}


@pytest.mark.parametrize(("given", "shown"), [("FINISHED", "FAILED"), ("KILLED", "KILLED")])
def test_a_tracking_call_that_failed_leaves_nothing_running(recording: Recording, given: str, shown: str) -> None:
    recording.follow("train@sft-0", ("reports/train/sft-0",))
    recording._child("sft-0")
    recording._guarded("metrics", lambda: recording._child("sft-0").log_metrics(0, {"no; name": 1.0}))
    recording._guarded("metrics", recording._child("sft-0").flush)
    assert not recording.enabled
    recording.finish(given, "", None, "")
    runs = _runs(recording)
    assert {name: run.info.status for name, run in runs.items()} == {"run-run-1": shown, "sft-0": shown}
    assert "its tracking failed" in runs["sft-0"].data.tags["pivotrl.ended_by"]


def test_a_parent_that_began_by_half_is_ended(recording: Recording) -> None:
    recording.diff = b"+ a change"
    artifacts = Path(recording.uri.removeprefix("sqlite:///")).parent / "mlartifacts"
    artifacts.write_text("in the way: the patch cannot be stored")
    recording.begin()
    assert not recording.enabled
    recording.finish("FINISHED", "", None, "abc")
    assert {name: run.info.status for name, run in _runs(recording).items()} == {"run-run-1": "FAILED"}


def test_what_cannot_be_discarded_is_ended(recording: Recording) -> None:
    recording.begin()
    recording._guarded("metrics", lambda: recording._tracker.client.set_tag("no run", "a", "b"))
    recording.discard()
    assert {name: run.info.status for name, run in _runs(recording).items()} == {"run-run-1": "KILLED"}


def test_an_experiment_may_be_named_as_no_model_may(recording: Recording) -> None:
    experiment = "team/help desk: first"
    recording.config = parse_config({**recording.config.model_dump(), "tracking": {"experiment": experiment}})
    _lock_training(recording, "models/base")
    recording.begin()
    recording.finish("FINISHED", "", None, "abc")
    assert recording.enabled  # nothing of it failed
    assert {run.info.status for run in _runs(recording).values()} == {"FINISHED"}
    models = Tracker(recording.uri, experiment).client.search_registered_models()
    assert {one.name for one in models} == {"team-help desk- first-sft", "team-help desk- first-pivotrl"}


def test_what_failed_is_told_without_the_password_in_the_address(
    recording: Recording, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    recording.uri = "http://someone:hid@den@127.0.0.1:1"
    recording.begin()
    assert "MLflow (start): MlflowException" in caplog.text
    assert "http://127.0.0.1:1/api" in caplog.text
    assert "den" not in caplog.text


def test_a_store_that_is_gone_ends_no_run(recording: Recording, caplog: pytest.LogCaptureFixture) -> None:
    recording.begin()
    Path(recording.uri.removeprefix("sqlite:///")).write_bytes(b"no database" * 4096)
    recording.finish("FINISHED", "", None, "abc")
    told = [record.getMessage() for record in caplog.records if record.name == "tasks.tracking.flow_run"]
    assert [line.split(":")[0] for line in told] == ["MLflow (finish)", "MLflow (end)"]


def test_a_registered_model_names_the_kept_model_that_it_started_from(recording: Recording) -> None:
    start = f"{STARTS}/pivotrl-0"
    _lock_training(recording, "models/base", start)
    recording.begin()
    recording.finish("FINISHED", "", None, "abc")
    assert recording.enabled  # nothing of it failed
    client = Tracker(recording.uri, recording.config.tracking.experiment).client
    found = client.search_model_versions(f"name = '{recording.config.tracking.experiment}-pivotrl'")
    tags = found[0].tags
    assert (tags["pivotrl.lineage.start"], tags["pivotrl.lineage.start_md5"]) == (start, "a" * 32)

"""The tracking adapter against a real SQLite MLflow."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
import traceback
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow.exceptions import MlflowException

from pivotrl_core.errors import ConfigError
from tasks.processes import ProcessIdentity, this_process
from tasks.tracking.child_run import Input
from tasks.tracking.database import _opened
from tasks.tracking.parameters import flatten
from tasks.tracking.tracker import PROCESS_TAG, RUN_TAG, Tracker

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)

CONFIG = {
    "model": {"kind": "bundled"},
    "warmup": {"learning_rate": 1e-4, "folder": "/home/somebody/data/warm.jsonl"},
    "arms": {"pivotrl": {"select": {"rule": "pivots", "lambda_diff": 0.6}}},
    "seeds": [0],
}
PROVENANCE = {"commit": "abc", "dirty": True, "diff": "- old\n+ new\n", "versions": {"torch": "2"}}


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('tracking')}/state/mlflow.db"


@pytest.fixture
def tracker(uri: str, request: pytest.FixtureRequest) -> Tracker:
    return Tracker(uri, request.node.name)


def test_a_child_hangs_under_its_parent_and_carries_its_arms_parameters(tracker: Tracker):
    parent = tracker.start_run("run-1", "demo", CONFIG, PROVENANCE)
    recorder = tracker.start_child(parent, "pivotrl", 0, PROVENANCE)
    recorder.log_inputs([Input("train", "d41d8cd98f00b204e9800998ecf8427e.dir", "data/pulled/train")])
    recorder.finish()
    child = tracker.client.get_run(recorder.run_id)
    assert child.data.tags["mlflow.parentRunId"] == parent
    assert child.data.params["select.lambda_diff"] == "0.6"
    assert child.data.params["warmup.folder"] == ".../warm.jsonl"
    assert child.data.tags["mlflow.source.git.commit"] == "abc"
    assert child.data.tags["pivotrl.dirty"] == "true"
    assert child.inputs.dataset_inputs[0].dataset.digest == "d41d8cd98f00b204e9800998ecf8427e.dir"
    assert [one.path for one in tracker.client.list_artifacts(recorder.run_id, "provenance")] == [
        "provenance/dirty.diff"
    ]


def test_an_mlflow_run_id_in_the_environment_changes_nothing(tracker: Tracker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    parent = tracker.start_run("run-1", "demo", CONFIG)
    recorder = tracker.start_child(parent, "pivotrl", 0)
    recorder.log_metrics(0, {"train/reward_mean": 0.5})
    recorder.finish()
    assert tracker.client.get_run(recorder.run_id).data.metrics == {"train/reward_mean": 0.5}


def test_a_resumed_stage_logs_no_step_twice(tracker: Tracker):
    parent = tracker.start_run("run-1", "demo", CONFIG)
    first = tracker.start_child(parent, "pivotrl", 0)
    for step in range(5):
        first.log_metrics(step, {"train/reward_mean": step / 10})
    first.flush()
    assert tracker.start_run("run-1", "demo", CONFIG) == parent
    again = tracker.start_child(parent, "pivotrl", 0)
    assert again.run_id == first.run_id
    for step in range(3, 8):
        again.log_metrics(step, {"train/reward_mean": step / 10})
    again.log_report({"stage": "train", "metrics": {"train/reward_mean": 0.7, "cost/rollout_turns": 64.0}})
    again.log_report({"stage": "train", "metrics": {"train/reward_mean": 0.7, "cost/rollout_turns": 64.0}})
    again.finish()
    history = tracker.client.get_metric_history(again.run_id, "train/reward_mean")
    assert [point.step for point in sorted(history, key=lambda p: p.step)] == list(range(8))
    for name in ("train/reward_mean_final", "cost/train_rollout_turns"):
        assert len(tracker.client.get_metric_history(again.run_id, name)) == 1


def test_one_step_of_a_metric_is_its_value_and_no_curve_beside_a_final_one(tracker: Tracker):
    recorder = tracker.start_child(tracker.start_run("run-1", "demo", CONFIG), "pivotrl", 0)
    values = {"eval/helpdesk/success_greedy": 0.5, "eval/ifbench-embedded/score": 0.25, "eval/drift/kl_neutral": 0.01}
    for step, (name, value) in enumerate(values.items()):  # the parts of an evaluation, as they come
        recorder.log_metrics(step, {name: value})
    recorder.log_report({"stage": "evaluate", "metrics": values})
    recorder.finish()
    assert tracker.client.get_run(recorder.run_id).data.metrics == values
    assert [len(tracker.client.get_metric_history(recorder.run_id, name)) for name in values] == [1, 1, 1]


def test_a_metric_that_is_no_number_is_nan_and_named(tracker: Tracker):
    recorder = tracker.start_child(tracker.start_run("run-1", "demo", CONFIG), "pivotrl", 0)
    recorder.log_report({"metrics": {"eval/drift/kl_neutral": None, "eval/x": 0.25}})
    recorder.finish()
    run = tracker.client.get_run(recorder.run_id)
    assert math.isnan(run.data.metrics["eval/drift/kl_neutral"])
    assert run.data.metrics["eval/x"] == 0.25
    assert run.data.tags["pivotrl.not_finite"] == "eval/drift/kl_neutral@0=nan"


def test_runs_of_dead_processes_are_killed_and_live_ones_are_left(tracker: Tracker):
    alive = tracker.start_run("alive", "alive", CONFIG)
    dead = tracker.start_run("dead", "dead", CONFIG)
    unknown = tracker.start_run("unknown", "unknown", CONFIG)
    tracker.client.set_tag(dead, PROCESS_TAG, str(replace(this_process(), started=1.0)))
    tracker.client.set_tag(unknown, PROCESS_TAG, "somebody's own words")
    assert tracker.sweep_dead() == [dead]
    assert tracker.client.get_run(dead).info.status == "KILLED"
    assert [tracker.client.get_run(one).info.status for one in (alive, unknown)] == ["RUNNING"] * 2


def test_a_process_is_told_from_another_one_with_its_pid():
    mine = this_process()
    assert ProcessIdentity.from_text(str(mine)) == mine
    assert not mine.is_dead()
    assert replace(mine, started=1.0).is_dead()
    assert replace(mine, boot="another").is_dead()
    assert not replace(mine, started=1.0, host="another-host").is_dead()


def test_a_mapping_whose_keys_are_no_names_is_one_parameter(tracker: Tracker):
    comparators = {"book": {"passengers[].name": "words"}, "*": {"request_id": "ignored"}}
    keys = [{"a//b": 1}, {"a/../b": 1}, {"https://x.y/z": 1}, {"a/": 1}, {"k" * 300: 1}]
    config = {"verifier": {"kind": "functional", "comparators": comparators}, **dict(zip("vwxyz", keys, strict=True))}
    parent = tracker.start_run("run-keys", "demo", config)
    params = tracker.client.get_run(parent).data.params
    assert params["verifier.kind"] == "functional"
    assert json.loads(params["verifier.comparators"]) == comparators
    assert [json.loads(params[name]) for name in "vwxyz"] == keys


def test_the_table_is_the_description_and_weights_are_no_artifact(tracker: Tracker, tmp_path: Path):
    folder = tmp_path / "report"
    (folder / "figures").mkdir(parents=True)
    (folder / "figures/curve.png").write_bytes(b"png")
    (folder / "model.safetensors").write_bytes(b"weights")
    parent = tracker.start_run("run-1", "demo", CONFIG)
    tracker.finish_run(parent, "FINISHED", "| a | b |", folder)
    run = tracker.client.get_run(parent)
    assert run.data.tags["mlflow.note.content"] == "| a | b |"
    assert run.info.status == "FINISHED"
    assert [one.path for one in tracker.client.list_artifacts(parent)] == ["figures", "table.md"]


def test_a_description_too_long_for_mlflow_ends_at_a_line_and_names_the_whole(tracker: Tracker, tmp_path: Path):
    table = "- verdict\n\n" + "\n".join(f"| row {n} | {'x' * 90} |" for n in range(100)) + "\n"
    parent = tracker.start_run("run-long", "demo", CONFIG)
    tracker.finish_run(parent, "FINISHED", table)
    told = tracker.client.get_run(parent).data.tags["mlflow.note.content"]
    assert 7800 < len(told) <= 8000
    rows, end = told.split("\n\nCut here; ")
    assert table.startswith(rows + "\n")
    assert end == "all of it is in the artifact table.md."
    kept = Path(tracker.client.download_artifacts(parent, "table.md", str(tmp_path)))
    assert kept.read_text(encoding="utf-8") == table


def test_logs_are_artifacts_without_the_secrets_of_the_environment(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "never-to-be-shown")
    (tmp_path / "run/logs").mkdir(parents=True)
    (tmp_path / "run/logs/pull.log").write_bytes(b"signed with never-to-be-shown\nstep 1 \xff\n")
    parent = tracker.start_run("run-logs", "demo", CONFIG)
    tracker.finish_run(parent, "FINISHED", "", tmp_path / "run")
    kept = Path(tracker.client.download_artifacts(parent, "logs/pull.log", str(tmp_path)))
    assert kept.read_text(encoding="utf-8") == "signed with [hidden]\nstep 1 \ufffd\n"


def test_the_parent_carries_each_arms_means_and_leaves_out_what_is_unknown(tracker: Tracker):
    parent = tracker.start_run("run-means", "demo", CONFIG)
    cells = {"eval/helpdesk/success_greedy": {"mean": 0.25}, "eval/drift/kl_neutral": {"mean": None}}
    tracker.log_comparison(parent, {"rows": [{"arm": "base", "cells": cells}]})
    assert tracker.client.get_run(parent).data.metrics == {"compare/base/helpdesk/success_greedy": 0.25}


def test_a_model_is_registered_once_as_a_pointer_with_its_lineage(tracker: Tracker):
    recorder = tracker.start_child(tracker.start_run("run-1", "demo", CONFIG), "pivotrl", 0)
    pointer = {"path": "models/pivotrl/0", "md5": "0" * 32}
    for _ in range(2):
        version = tracker.register_model("helpdesk", pointer, recorder.run_id, {"pool": "abc"})
    assert version == "1"
    (found,) = tracker.client.search_model_versions("name = 'helpdesk'")
    assert found.run_id == recorder.run_id
    assert found.tags["pivotrl.lineage.pool"] == "abc"
    assert found.tags["pivotrl.pointer.path"] == "models/pivotrl/0"
    assert found.source.endswith("/artifacts/model")


def test_parameters_are_plain_text_whatever_the_spelling():
    assert flatten({"a": {"b": 1e-05}}) == flatten({"a": {"b": 0.00001}}) == {"a.b": "1e-05"}
    assert flatten({"x": [1, "b"], "y": None, "z": True}) == {"x": '[1,"b"]', "y": "null", "z": "true"}
    assert len(flatten({"long": "x" * 10_000})["long"]) <= 6000
    with pytest.raises(TypeError, match=r"parameter a\.b: object"):
        flatten({"a": {"b": object()}})


def test_four_processes_may_open_a_fresh_database_at_once(tmp_path: Path):
    program = (
        "import sys; from tasks.tracking.tracker import Tracker\n"
        "tracker = Tracker(sys.argv[1], 'shared'); parent = tracker.start_run(sys.argv[2], 'run', {})\n"
        "recorder = tracker.start_child(parent, 'base', 0); recorder.log_metrics(0, {'eval/x': 1.0})\n"
        "recorder.finish()\n"
    )
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    processes = [
        subprocess.Popen([sys.executable, "-c", program, uri, f"run-{n}"], env=environment, stderr=subprocess.PIPE)
        for n in range(4)
    ]
    errors = [process.communicate(timeout=180)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, errors
    tracker = Tracker(uri, "shared")
    runs = tracker.client.search_runs([tracker.experiment_id], f"tags.`{RUN_TAG}` != ''")
    assert {run.data.tags[RUN_TAG] for run in runs} == {f"run-{n}" for n in range(4)}


def test_a_database_that_cannot_be_upgraded_is_told_without_its_password():
    class Old:
        def __init__(self, **_: str) -> None:
            pass

        def search_experiments(self, **_: int) -> None:
            raise MlflowException("Detected out-of-date database schema")

    address = "postgresql://someone:hidden-word@127.0.0.1:1/none"
    with pytest.raises(ConfigError, match="mlflow db upgrade") as caught:
        _opened(Old, address)
    assert "hidden-word" not in "".join(traceback.format_exception(caught.value))


def test_an_old_database_is_upgraded_and_no_command_line_shows_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    commands, path = list[list[str]](), tmp_path / "hidden-word.db"
    run = subprocess.run

    def watched(command: list[str], **options: Any) -> Any:
        commands.append(command)
        return run(command, **options)

    class OldAtFirst:
        def __init__(self, **_: str) -> None: ...

        def search_experiments(self, **_: int) -> None:
            if not path.exists():
                raise MlflowException("Detected out-of-date database schema")

        def search_registered_models(self, **_: int) -> None: ...

    monkeypatch.setattr(subprocess, "run", watched)
    _opened(OldAtFirst, f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("select count(*) from alembic_version").fetchone() == (1,)
    assert len(commands) == 1
    assert "hidden-word" not in " ".join(commands[0])

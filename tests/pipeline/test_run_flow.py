"""The flow `run` on a small real pipeline: real Prefect server, real DVC, real git."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.chain import ChainFailedError, Plan
from flows.request import Request
from flows.session import Session
from pivotrl_core.config.loading import load_config
from pivotrl_core.errors import ConfigError
from pivotrl_core.verifiers import sandbox
from tasks.dvc_lock import read_lock
from tasks.notify import tell_failure
from tasks.provenance import take_snapshot
from tasks.repository import RUN_REFS, Repository
from tasks.settings import State, apply_environment, default_environment, find_state
from tasks.tracking.tracker import PARENT_TAG, Tracker

from .conftest import calls, git, pull_text

pytestmark = pytest.mark.usefixtures("prefect_server")


def _flow(name: str, **options: Any) -> Callable[..., Any]:
    """A flow around `carry_out`, so that a test can bring data of its own and see the summary."""
    from prefect import flow

    from flows.run import carry_out

    @flow(name=name, flow_run_name="{run_id}", persist_result=False, validate_parameters=False)
    def body(checkout: Path, run_id: str, request: Request) -> Any:
        return carry_out(name, request, run_id, str(checkout), **{"tracked": False, **options})

    return body


def _pull(**files: str) -> Callable[[Session], None]:
    return lambda session: pull_text(session.root, **files)


def _tracked(checkout: Path) -> dict[str, str]:
    """Parent runs that MLflow shows, with their status."""
    tracker = Tracker(find_state(checkout).tracking_uri, load_config(checkout / "params.yaml").tracking.experiment)
    runs = tracker.client.search_runs([tracker.experiment_id])
    return {run.info.run_name: run.info.status for run in runs if PARENT_TAG not in run.data.tags}


def _children(checkout: Path) -> list[Any]:
    """Child runs that MLflow shows."""
    tracker = Tracker(find_state(checkout).tracking_uri, load_config(checkout / "params.yaml").tracking.experiment)
    return [r for r in tracker.client.search_runs([tracker.experiment_id]) if PARENT_TAG in r.data.tags]


def _tag(checkout: Path, run: str, tag: str) -> str:
    """A tag of the run that MLflow shows by this name."""
    tracker = Tracker(find_state(checkout).tracking_uri, load_config(checkout / "params.yaml").tracking.experiment)
    found = tracker.client.search_runs([tracker.experiment_id], f"attributes.run_name = '{run}'")
    return str(found[0].data.tags[tag])


def _states(run_id: str) -> dict[str, str]:
    """Names of the task runs' states of a flow run, as Prefect's server has them."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter

    only = FlowRunFilter.model_validate({"name": {"any_": [run_id]}})
    with get_client(sync_client=True) as client:
        runs = client.read_task_runs(flow_run_filter=only)
        return {run.name: str(run.state_name) for run in runs}


def _eventually(run_id: str, expected: dict[str, str]) -> None:
    """Prefect's server stores task states a moment after they happen."""
    import time

    end = time.monotonic() + 20
    while (states := _states(run_id)) != expected and time.monotonic() < end:
        time.sleep(0.3)
    assert states == expected


def test_a_run_executes_all_stages_and_a_second_one_none(checkout: Path) -> None:
    head, status = git(checkout, "rev-parse", "HEAD"), git(checkout, "status", "--porcelain")
    first = _flow("run", pull=_pull(a="one two"))(checkout, "run-1", Request())
    *trained, last = calls(checkout)
    assert {*trained[:2]} == {"warmup", "candidates"}  # side by side
    assert {*trained[2:]} == {"train sft-0 models/base", "train pivotrl-0 models/base"}
    assert last == "compare"
    assert (first.executed, first.unchanged, first.recorded) == (5, 0, True)
    assert "| pivotrl | 1.0 |" in first.text()
    second = _flow("run", pull=_pull(a="one two"))(checkout, "run-2", Request())
    assert len(calls(checkout)) == 5
    assert (second.executed, second.unchanged, second.recorded, second.run_id) == (0, 5, False, "run-1")
    names = ["pull", "warmup", "candidates", "train@sft-0", "train@pivotrl-0", "compare"]
    _eventually("run-1", dict.fromkeys(names, "Completed"))
    _eventually("run-2", dict.fromkeys(names, "Cached"))
    # The record stands on its own ref; branch, index and files of the checkout are as they were.
    assert git(checkout, "rev-parse", "HEAD") == head
    assert git(checkout, "status", "--porcelain") == status + "?? dvc.lock\n"
    assert git(checkout, "rev-parse", f"{RUN_REFS}run-1").strip() == first.commit
    assert "reports/compare/table.md" in git(checkout, "ls-tree", "-r", "--name-only", first.commit)
    with pytest.raises(ConfigError, match="run_id run-1: a recorded run has it"):
        _flow("run", pull=_pull(a="one two three"))(checkout, "run-1", Request())
    assert not (find_state(checkout).runs / "run-1" / "failure-told").exists()  # a third time is told as well
    assert git(checkout, "rev-parse", f"{RUN_REFS}run-1").strip() == first.commit


def test_parameters_with_a_key_in_them_are_refused_before_anything_runs(checkout: Path) -> None:
    params = checkout / "params.yaml"
    params.write_text(params.read_text() + "# HF_TOKEN: hf_" + "a" * 32 + "\n")
    with pytest.raises(ConfigError, match=r"params\.yaml: a key or a password stands there"):
        _flow("run", pull=_pull(a="one"))(checkout, "run-1", Request())
    git(checkout, "checkout", "--quiet", "params.yaml")
    with pytest.raises(ConfigError, match=r"tracking\.experiment: a key or a password stands there"):
        _flow("run", pull=_pull(a="one"))(checkout, "run-2", Request({"tracking.experiment": "hf_" + "a" * 32}))
    assert calls(checkout) == []


def test_a_request_that_a_deployment_has_wrong_is_told_too(checkout: Path) -> None:
    from flows.run import carry_out, read_request

    for request, run_id in (({"options": {}}, "night-1"), ({}, "night of the 3rd")):
        with pytest.raises(ConfigError):
            carry_out("nightly", read_request("nightly", request, run_id, str(checkout)), run_id, str(checkout))
    told = sorted(find_state(checkout).runs.glob("*/failure-told"))
    assert len(told) == 2
    assert told[1].parent.name == "night-1"  # the other is told under an id of its own


def test_a_state_folder_inside_the_checkout_is_no_code(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(checkout / "state")
    state.root.mkdir()
    (state.root / "mlflow.db").write_text("x")
    for name in default_environment(state):
        monkeypatch.setenv(name, "as it was")  # put back in the end
    before = take_snapshot(checkout)
    apply_environment(state)
    assert b"mlflow.db" in before.diff
    assert b"mlflow.db" not in take_snapshot(checkout).diff


def test_a_team_s_remote_gets_all_results_and_the_checkout_s_own_only_the_data(checkout: Path, tmp_path: Path) -> None:
    _flow("run", pull=_pull(a="one"))(checkout, "run-1", Request())
    own = sorted(path.read_text() for path in (checkout / ".state/dvc-remote").rglob("*") if path.is_file())
    assert "one" in own
    assert "weights of pivotrl-0 from base: one" not in own
    (checkout / ".dvc/config.local").write_text(f"['remote \"local\"']\n    url = {tmp_path / 'team'}\n")
    _flow("run", pull=_pull(a="two"))(checkout, "run-2", Request())
    team = sorted(path.read_text() for path in (tmp_path / "team").rglob("*") if path.is_file())
    assert {"two", "base", "weights of pivotrl-0 from base: two"} <= set(team)


def test_new_data_and_changed_parameters_run_what_depends_on_them(checkout: Path) -> None:
    _flow("run", pull=_pull(a="one"))(checkout, "run-1", Request())
    params = checkout / "params.yaml"
    params.write_text(params.read_text().replace("samples: 8", "samples: 4"))
    _flow("run", pull=_pull(a="one"))(checkout, "run-2", Request())
    # Equal outputs: compare stays as it is.
    assert sorted(calls(checkout)[5:]) == ["train pivotrl-0 models/base", "train sft-0 models/base"]
    (checkout / "README.md").write_text("words\n")
    third = _flow("run", pull=_pull(a="one"))(checkout, "run-3", Request())
    assert third.executed == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_an_override_works_in_a_worktree_and_leaves_the_checkout_alone(checkout: Path) -> None:
    (checkout / "program.py").write_text((checkout / "program.py").read_text() + "\n# changed, not committed\n")
    before = git(checkout, "status", "--porcelain")
    seen: dict[str, Any] = {}

    def pull(session: Session) -> None:
        seen.update(root=session.root, code=(session.root / "program.py").read_text())
        pull_text(session.root, a="one")

    request = Request({"profile.samples": 4}, quick=False)
    summary = _flow("run", pull=pull, tracked=True)(checkout, "run-1", request)
    assert summary.executed == 5
    assert seen["root"] == checkout / ".state" / "worktrees" / "run-1"
    assert "changed, not committed" in seen["code"]
    assert not seen["root"].exists()
    assert git(checkout, "status", "--porcelain") == before
    assert not (checkout / "dvc.lock").exists()
    assert b"changed, not committed" in (Repository(checkout).read(summary.commit, "dirty.diff") or b"")
    facts = json.loads(Repository(checkout).read(summary.commit, "run.json") or b"{}")
    assert facts["lock_digest"] == _tag(checkout, "run-run-1", "pivotrl.lock_digest")
    assert facts["inputs"]["data/pulled"] == _tag(checkout, "run-run-1", "pivotrl.inputs.data/pulled")
    # The cache is shared: the same override again restores everything, and is known as the same result.
    again = _flow("run", pull=pull, tracked=True)(checkout, "run-2", request)
    assert (again.executed, again.recorded, again.run_id) == (0, False, "run-1")
    assert again.restored > 0
    assert _tracked(checkout) == {"run-run-1": "FINISHED"}  # what executes nothing adds nothing


def test_a_failed_stage_is_told_once_and_the_finished_ones_are_kept(
    checkout: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = _pull(a="one", **{"break": ""})
    with pytest.raises(ChainFailedError, match="the row is wrong") as caught:
        _flow("run", pull=bad, plan=Plan(keep_going=True))(checkout, "run-1", Request())
    assert caught.value.exit_code == 65
    assert "not run, because they need what failed: compare" in str(caught.value)
    trained = ["train pivotrl-0 models/base", "train sft-0 models/base"]
    assert sorted(calls(checkout)) == ["candidates", *trained, "warmup"]  # each once: wrong data is not retried
    assert [r.message.split(":")[0] for r in caplog.records if r.name == "tasks.notify"] == ["run run-1 failed"]
    assert set(read_lock(checkout / "dvc.lock")) == {"pull", "warmup", "candidates"}
    assert Repository(checkout).resolve(f"{RUN_REFS}run-1") is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_a_failed_arm_of_a_sweep_keeps_no_other_from_being_compared_and_recorded(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{checkout}/.state/own.db")  # where no other test writes
    graph, program = checkout / "dvc.yaml", checkout / "program.py"
    graph.write_text(graph.read_text().replace("reports/train/sft-0, reports/train/pivotrl-0", '"${compares.trains}"'))
    program.write_text(
        program.read_text().replace(
            '    if out("data/pulled/break")', "    if key == 'sft-0' and out('data/pulled/break')"
        )
    )
    git(checkout, "commit", "-qam", "an arm that fails")
    plan = Plan(keep_going=True)
    bad = _pull(a="one", **{"break": ""})
    with pytest.raises(ChainFailedError, match="the row is wrong") as caught:
        _flow("sweep", pull=bad, plan=plan, private=True, tracked=True)(checkout, "run-1", Request())
    assert "| pivotrl | 1.0 |" in str(caught.value)
    assert "pivotrl reproduce run-1" in str(caught.value)
    assert caught.value.exit_code == 65
    repository = Repository(checkout)
    record = repository.resolve(f"{RUN_REFS}run-1") or ""
    facts = json.loads(repository.read(record, "run.json") or b"{}")
    assert facts["stages"] == {
        "pull": "ran", "warmup": "ran", "candidates": "ran", "train@pivotrl-0": "ran", "compare": "ran",
        "train@sft-0": "failed",
    }  # fmt: skip
    assert {run.info.run_name: run.info.status for run in _children(checkout)} == {"pivotrl-0": "FINISHED"}
    assert "sft" not in (repository.read(record, "params.yaml") or b"").decode()
    assert repository.list_files(record, ["reports/train/sft-0"]) == []
    assert _tracked(checkout) == {"sweep-run-1": "FAILED"}


def test_a_temporary_failure_is_retried(checkout: Path) -> None:
    program = checkout / "program.py"
    program.write_text(
        "import os, pathlib, sys\nif not os.path.exists('once'):\n    pathlib.Path('once').touch(); sys.exit(75)\n"
        + program.read_text()
    )
    summary = _flow("run", pull=_pull(a="one"))(checkout, "run-1", Request())
    assert summary.executed == 5


EVALUATE_ALONE = """
stages:
  pull:
    cmd: pivotrl pull
    frozen: true
    outs: [data/pulled]
  evaluate:
    cmd: python evaluate.py
    deps: [evaluate.py, data/pulled]
    outs: [reports/evaluate/base-0]
"""
SKIPS_AT_FIRST = """
import json, pathlib
calls = pathlib.Path(__file__).resolve().parent / "calls.log"
reason = None if calls.exists() else "no sandbox: the program bwrap was not found."
calls.open("a").write("evaluate\\n")
out = pathlib.Path("reports/evaluate/base-0")
out.mkdir(parents=True)
(out / "report.json").write_text(json.dumps({"benchmarks": [{"name": "scicode-embedded", "skipped": reason}]}))
"""


@pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")
def test_what_was_skipped_for_want_of_a_sandbox_is_made_anew_where_there_is_one(checkout: Path) -> None:
    (checkout / "evaluate.py").write_text(SKIPS_AT_FIRST)
    (checkout / "dvc.yaml").write_text(EVALUATE_ALONE)
    run = _flow("run", pull=_pull(a="one"))
    run(checkout, "run-1", Request())  # as on a machine without a sandbox
    assert run(checkout, "run-2", Request()).executed == 1
    (checkout / "dvc.lock").unlink()
    assert run(checkout, "run-3", Request()).executed == 0  # the run cache has the newer result
    assert calls(checkout) == ["evaluate"] * 2


def test_an_unknown_override_is_refused_before_anything_runs(checkout: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'samples'"):
        _flow("run")(checkout, "run-1", Request({"profile.sampels": 4}))
    assert calls(checkout) == []


@pytest.mark.parametrize("run_id", ["../..", "my sweep"])
def test_a_run_id_that_is_no_plain_word_is_refused_and_removes_nothing(checkout: Path, run_id: str) -> None:
    before = sorted(path for path in checkout.rglob("*") if not {".git", ".state"} & {*path.parts})
    with pytest.raises(ConfigError, match="run_id"):
        _flow("run", pull=_pull(a="one"))(checkout, run_id, Request({"profile.samples": 4}))
    assert sorted(path for path in checkout.rglob("*") if not {".git", ".state"} & {*path.parts}) == before


def test_a_flow_run_of_a_dead_process_is_told_once_and_swept(checkout: Path, caplog: pytest.LogCaptureFixture) -> None:
    from prefect import flow, get_client
    from prefect.states import Running

    from tasks.sweepers import sweep_flow_runs

    @flow(name="nightly")
    def other() -> None: ...

    tags = [f"pivotrl-process:{os.uname().nodename}:999999:1.0"]
    killed, told = "20260314-020000-9f3a", "20260315-020000-9f3b"
    runs = checkout / ".state" / "runs"
    assert tell_failure(told, "nightly", "it broke", runs / told)  # it did so itself, and was killed at its very end
    with get_client(sync_client=True) as client:
        dead = [
            client.create_flow_run(other, name=f"nightly-{run_id}", state=Running(), tags=tags)
            for run_id in (killed, told)
        ]
        alive = client.create_flow_run(other, state=Running(), tags=["somebody-elses"])
        assert sorted(sweep_flow_runs(runs)) == [one.name for one in dead]
        assert [str(client.read_flow_run(one.id).state_name) for one in dead] == ["Crashed", "Crashed"]
        assert str(client.read_flow_run(alive.id).state_name) == "Running"
        assert sweep_flow_runs(runs) == []
    assert caplog.text.count(f"nightly {killed} failed: its process 999999 on") == 1
    assert caplog.text.count(f"nightly {told} failed") == 1


def test_a_result_whose_record_was_let_go_is_recorded_again(checkout: Path) -> None:
    first = _flow("run", pull=_pull(a="one"))(checkout, "run-1", Request())
    git(checkout, "update-ref", "-d", f"{RUN_REFS}run-1")
    again = _flow("run", pull=_pull(a="one"))(checkout, "run-2", Request())
    assert (first.executed, again.executed, again.recorded, again.run_id) == (5, 0, True, "run-2")
    assert Repository(checkout).resolve(f"{RUN_REFS}run-2") == again.commit

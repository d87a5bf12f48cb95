"""A sweep or night in which an arm fails half-way: nothing of it is in the record of the others."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from flows.chain import ChainFailedError, Plan
from flows.launch import launch
from flows.request import Request
from flows.run import carry_out
from tasks.dvc_lock import LOCK_NAME, read_lock
from tasks.records import find_record
from tasks.repository import RUN_REFS, Repository

from .conftest import git
from .test_reproduce_flow import _night
from .test_run_flow import _flow, _pull

pytestmark = pytest.mark.usefixtures("prefect_server")


def _breaking(root: Path, arm: str, condition: str = "True") -> Path:
    """The small pipeline with a comparison over a whole folder, as ours is; one arm writes to it and fails."""
    dvc = (root / "dvc.yaml").read_text().replace("reports/train/sft-0, reports/train/pivotrl-0", "reports/train")
    (root / "dvc.yaml").write_text(dvc)
    program = (root / "program.py").read_text()
    fails = f'    if key == "{arm}-0" and {condition}:\n        sys.exit("the weights are no numbers")\n    begun ='
    (root / "program.py").write_text(program.replace("    begun =", fails))
    git(root, "commit", "-qam", "an arm that fails")
    return root


def test_what_a_failed_arm_had_written_is_no_part_of_the_comparison_of_the_others(checkout: Path) -> None:
    _breaking(checkout, "pivotrl")
    plan = Plan(keep_going=True)
    with pytest.raises(ChainFailedError, match="the weights are no numbers"):
        _flow("sweep", pull=_pull(a="one"), plan=plan, private=True)(checkout, "run-1", Request())
    commit = Repository(checkout).resolve(f"{RUN_REFS}run-1")
    assert commit is not None
    stages = json.loads(git(checkout, "show", f"{commit}:run.json"))["stages"]
    assert (stages["train@sft-0"], stages["train@pivotrl-0"], stages["compare"]) == ("ran", "failed", "ran")
    recorded = git(checkout, "ls-tree", "-r", "--name-only", commit, "reports").split()
    assert "reports/compare/table.md" in recorded
    assert [path for path in recorded if "pivotrl-0" in path] == []


def test_a_run_that_does_not_keep_going_waits_for_what_is_at_work_and_begins_nothing_after_a_failure(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _breaking(checkout, "sft")
    program = checkout / "program.py"
    slow = f'import time\ntime.sleep(3.0 if "pivotrl-0" in sys.argv else 0.0)\n{"data = "}'
    program.write_text(program.read_text().replace("data = ", slow))
    git(checkout, "commit", "-qam", "the other arm takes its time")
    with pytest.raises(ChainFailedError, match="the weights are no numbers"):
        _flow("run", pull=_pull(a="one"))(checkout, "run-1", Request())
    assert "waiting for train@pivotrl-0" in capsys.readouterr().err
    assert "train@pivotrl-0" in read_lock(checkout / LOCK_NAME)
    assert not (checkout / ".state/runs/run-1/logs/compare.log").exists()


def test_where_one_stage_at_a_time_runs_none_runs_after_a_failure(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIVOTRL_STAGES_AT_ONCE", "1")
    _breaking(checkout, "sft")
    with pytest.raises(ChainFailedError, match="the weights are no numbers"):
        _flow("run", pull=_pull(a="one"), private=True)(checkout, "run-1", Request())
    assert not (checkout / ".state/runs/run-1/logs/train@pivotrl-0.log").exists()


def test_a_night_with_a_failed_arm_keeps_the_good_models_of_the_others(checkout: Path) -> None:
    _breaking(checkout, "sft")
    with pytest.raises(ChainFailedError, match="the weights are no numbers") as caught:
        _night(checkout, "night-1", a="one")
    assert caught.value.compared["run_id"] == "night-1"
    with pytest.raises(ChainFailedError):
        _night(checkout, "night-2", a="one", b="two")
    assert find_record(checkout, "night-2").lock()["train@pivotrl-0"].command.endswith("last-good/pivotrl-0")


def test_a_failed_arm_is_told_first_where_its_night_cannot_keep_the_others_models_either(checkout: Path) -> None:
    _breaking(checkout, "sft")
    (checkout / ".state/nightly/dvc.lock").mkdir(parents=True)
    with pytest.raises(ChainFailedError, match=r"the weights are no numbers[\s\S]+could not be kept"):
        _night(checkout, "night-1", a="one")


def test_an_arm_that_failed_starts_where_it_started_once_it_is_mended(checkout: Path) -> None:
    broken = checkout.parent / "broken"
    _breaking(checkout, "pivotrl", f"out({str(broken)!r}).exists()")
    _night(checkout, "night-1", a="one")
    broken.touch()
    with pytest.raises(ChainFailedError):
        _night(checkout, "night-2", a="one", b="two")
    broken.unlink()
    assert _night(checkout, "night-3", a="one", b="two").executed == 2  # training and comparison; the rest stands
    assert find_record(checkout, "night-3").lock()["train@pivotrl-0"].command.endswith("last-good/pivotrl-0")


def test_a_sweep_that_failed_in_part_prints_what_it_compared_as_json(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _breaking(checkout, "pivotrl")
    monkeypatch.chdir(checkout)
    monkeypatch.setattr("flows.sweep.carry_out", partial(carry_out, pull=_pull(a="one"), tracked=False))
    with pytest.raises(ChainFailedError):
        launch("sweep", Request(arms=("sft", "pivotrl")), as_json=True)
    told = json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))
    assert told["failed"] == {"train@pivotrl-0": "failed", "compare": "not run"}
    assert told["compared"]["table"]
    assert "the weights are no numbers" in told["error"]

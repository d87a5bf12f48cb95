"""What lies in the state folder: scratch of unfinished stages alone, and a cache that no recorded run loses."""

from __future__ import annotations

from pathlib import Path

import pytest

from pivotrl_core.config.loading import load_config
from tasks.collection import collect_garbage
from tasks.graph import Outcome, Workplace, commit_pull, restore, run_stage
from tasks.provenance import collect_provenance, record_run, take_snapshot
from tasks.repository import RUN_REFS
from tasks.scratch import ScratchBusyError, prune_scratch, stage_scratch
from tasks.settings import State, child_environment

from .conftest import git, pull_text


def _place(root: Path) -> Workplace:
    state = State(root / ".state")
    return Workplace(root, child_environment(root, state, offline=True), state.runs / "r" / "logs")


def test_scratch_is_held_by_one_and_goes_when_its_stage_is_finished(checkout: Path) -> None:
    state, place = State(checkout / ".state"), _place(checkout)
    pull_text(checkout, a="one")
    commit_pull(place)
    with stage_scratch(checkout, state, "candidates") as scratch:
        (scratch / "checkpoint").write_text("half")
        with pytest.raises(ScratchBusyError), stage_scratch(checkout, state, "candidates"):
            pass
    prune_scratch(checkout, state)
    with stage_scratch(checkout, state, "candidates") as again:
        assert (again / "checkpoint").read_text() == "half"  # not finished: kept
    run_stage(place, "candidates")
    prune_scratch(checkout, state)
    assert not scratch.exists()


def test_garbage_collection_keeps_what_recorded_runs_name(checkout: Path) -> None:
    state, place = State(checkout / ".state"), _place(checkout)
    pull_text(checkout, a="one")
    commit_pull(place)
    run_stage(place, "candidates")
    snapshot = take_snapshot(checkout)
    provenance = collect_provenance(checkout, load_config(checkout / "params.yaml"), "run-1", snapshot)
    record_run(checkout, provenance, snapshot, {})
    old = (checkout / "dvc.lock").read_bytes()
    pull_text(checkout, a="one two three")
    commit_pull(place)
    assert run_stage(place, "candidates") is Outcome.RAN
    assert collect_garbage(checkout, state).startswith("0 files")
    new = (checkout / "dvc.lock").read_bytes()
    (checkout / "dvc.lock").write_bytes(old)
    restore(place)
    assert (checkout / "data" / "pulled" / "a").read_text() == "one"
    (checkout / "dvc.lock").write_bytes(new)
    git(checkout, "update-ref", "-d", f"{RUN_REFS}run-1")
    assert collect_garbage(checkout, state).startswith("4 files")  # two folders, a file in each

"""What lies in the state folder: scratch of unfinished stages alone, and a cache that no recorded run loses."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from pivotrl_core.config.loading import load_config
from pivotrl_core.errors import ConfigError
from pivotrl_core.stages.context import BLOCKS
from tasks.collection import UNREAD_DAYS, collect_garbage
from tasks.dvc_lock import LockFileError
from tasks.graph import Outcome, Workplace, add, commit_pull, restore, run_stage
from tasks.last_good import STARTS
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


def test_garbage_collection_removes_blocks_that_nothing_reads_any_more(checkout: Path) -> None:
    state = State(checkout / ".state")
    blocks = state.store / BLOCKS
    blocks.mkdir(parents=True)
    for name, days in (("fresh", UNREAD_DAYS - 1), ("old", UNREAD_DAYS + 1)):
        for path in (blocks / f"{name}.parquet", blocks / f"{name}.json"):
            path.write_text("{}")
            os.utime(path, (time.time() - days * 24 * 3600,) * 2)
    assert "and 1 profile blocks removed" in collect_garbage(checkout, state)
    assert sorted(path.name for path in blocks.iterdir()) == ["fresh.json", "fresh.parquet"]


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


def test_garbage_collection_keeps_what_dvc_files_of_the_checkout_and_of_records_name(checkout: Path) -> None:
    state, place = State(checkout / ".state"), _place(checkout)
    for name in ("mine", STARTS):
        (checkout / name).mkdir()
    (checkout / "mine" / "rows ü.jsonl").write_text("mine")
    (checkout / STARTS / "pivotrl-0").mkdir()
    (checkout / STARTS / "pivotrl-0" / "weights").write_text("kept")
    add(place, ["mine/rows ü.jsonl", f"{STARTS}/pivotrl-0"])
    snapshot = take_snapshot(checkout)
    provenance = collect_provenance(checkout, load_config(checkout / "params.yaml"), "run-1", snapshot)
    record_run(checkout, provenance, snapshot, {})  # keeps the pointer to the model that training started from
    shutil.rmtree(checkout / STARTS)
    assert collect_garbage(checkout, state).startswith("0 files")
    (checkout / "mine" / "rows ü.jsonl.dvc").unlink()
    assert collect_garbage(checkout, state).startswith("1 files")
    git(checkout, "update-ref", "-d", f"{RUN_REFS}run-1")
    assert collect_garbage(checkout, state).startswith("2 files")  # a folder, and the file in it


def test_a_pointer_that_is_not_readable_ends_the_collection_before_anything_is_removed(checkout: Path) -> None:
    state, place = State(checkout / ".state"), _place(checkout)
    (checkout / "rows").write_text("mine")
    add(place, ["rows"])
    (checkout / "rows.dvc").write_text("<<<<<<< ours\nouts:\n")
    before = sorted((checkout / ".state" / "dvc-cache").rglob("*"))
    with pytest.raises(LockFileError, match=r"(?s)rows\.dvc: .* correct or remove it"):
        collect_garbage(checkout, state)
    assert sorted((checkout / ".state" / "dvc-cache").rglob("*")) == before


def test_a_cache_outside_of_the_checkout_is_left_alone(checkout: Path, tmp_path: Path) -> None:
    (checkout / ".dvc" / "config.local").write_text(f"[cache]\n    dir = {tmp_path / 'shared'}\n")
    others = tmp_path / "shared" / "files" / "md5" / "ab" / "cdef"
    others.parent.mkdir(parents=True)
    others.write_text("of another checkout")
    with pytest.raises(ConfigError, match="other checkouts may share it"):
        collect_garbage(checkout, State(checkout / ".state"))
    assert others.exists()


def test_garbage_collection_leaves_the_scratch_of_a_stage_that_runs(checkout: Path) -> None:
    state = State(checkout / ".state")
    pull_text(checkout, a="one")
    with stage_scratch(checkout, state, "candidates") as busy, stage_scratch(checkout, state, "warmup") as left:
        (busy / "checkpoint").write_text("half")
        (left / "checkpoint").write_text("half")
    with stage_scratch(checkout, state, "candidates") as busy:
        collect_garbage(checkout, state)
        assert (busy / "checkpoint").read_text() == "half"
        assert not left.exists()

"""A git worktree of the user's own: its pulls and its stages mean the same files by a relative path."""

from __future__ import annotations

from pathlib import Path

from flows.chain import pull_from_source
from flows.session import Session
from pivotrl_core.config.loading import load_config
from tasks.graph import Workplace
from tasks.provenance import Snapshot
from tasks.pull.manifest import read_manifest
from tasks.settings import child_environment, find_state, main_checkout

from .conftest import git

ROW = '{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}\n'


def test_a_pull_takes_relative_paths_from_where_stages_take_them(checkout: Path, tmp_path: Path) -> None:
    (checkout / "mine").mkdir()
    (checkout / "mine" / "a.jsonl").write_text(ROW)
    own = tmp_path / "own"
    git(checkout, "worktree", "add", "-q", "--detach", str(own))
    (own / "params.yaml").write_text("source: {kind: folder, path: mine}\nmodel: {kind: bundled}\narms: {base: {}}\n")
    state = find_state(own)
    environment = child_environment(own, state, offline=True)
    place = Workplace(own, environment, state.runs / "run-1" / "logs")
    session = Session("run", "run-1", own, state, load_config(own / "params.yaml"), Snapshot("", b""), place)
    assert main_checkout(own) == checkout
    pull_from_source(session)
    manifest = read_manifest(own / "data" / "pulled")
    assert manifest is not None
    assert [file.origin_key for file in manifest.files] == ["a.jsonl"]

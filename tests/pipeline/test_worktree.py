"""Worktrees carry a dirty checkout over and leave it as it is; records are commits on refs of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pivotrl_core.config.loading import load_config
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import write_json
from tasks.dvc_lock import LockFileError
from tasks.provenance import changed_since, collect_provenance, record_run, take_snapshot
from tasks.records import RecordNotFoundError, find_record
from tasks.repository import RUN_REFS, GitError, Repository
from tasks.settings import State, find_state, main_checkout
from tasks.worktree import private_worktree, remove_worktree, seed_from, sweep_worktrees

from .conftest import git, make_checkout, pull_text


def _make_dirty(checkout: Path) -> None:
    (checkout / "program.py").write_text("print('changed')\n")
    (checkout / "new file ü.txt").write_text("new\n")
    (checkout / "binary").write_bytes(bytes(range(256)))
    (checkout / "ignored").mkdir()
    (checkout / ".gitignore").write_text((checkout / ".gitignore").read_text() + "/ignored/\n")
    (checkout / "ignored" / "x").write_text("never carried")
    (checkout / "params.yaml").write_text((checkout / "params.yaml").read_text() + "# a remark\n")
    git(checkout, "rm", "-q", "--cached", "dvc.yaml")
    (checkout / "staged").write_text("staged\n")
    git(checkout, "add", "staged")


def _everything(root: Path) -> dict[str, bytes]:
    """Every file of a checkout but git's objects and our state, and git's own view of index, refs and worktrees."""
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not {".git", ".state"} & set(path.relative_to(root).parts)
    }
    views = [
        ("status", "--porcelain"),
        ("branch", "-a"),
        ("log", "--oneline"),
        ("worktree", "list"),
        ("ls-files", "-s"),
    ]
    return files | {" ".join(view): git(root, *view).encode() for view in views}


def test_a_worktree_has_the_uncommitted_changes_and_parameters_of_its_own(checkout: Path) -> None:
    _make_dirty(checkout)
    before, state = _everything(checkout), State(checkout / ".state")
    snapshot = take_snapshot(checkout)
    with private_worktree(checkout, state, "run-1", snapshot, {"params.yaml": "own: 1\n"}) as root:
        assert (root / "program.py").read_text() == "print('changed')\n"
        assert (root / "new file ü.txt").read_text() == "new\n"
        assert (root / "binary").read_bytes() == bytes(range(256))
        assert (root / "staged").read_text() == "staged\n"
        assert (root / "params.yaml").read_text() == "own: 1\n"
        assert not (root / "ignored").exists()
        local = root / ".dvc" / "config.local"
        assert local.stat().st_mode & 0o077 == 0  # it may hold keys
        settings = local.read_text()
        assert str(state.cache) in settings
        assert str(checkout / ".state" / "dvc-remote") in settings
        assert main_checkout(root) == checkout
        assert find_state(root).root == checkout / ".state"
        (root / "program.py").write_text("print('changed in the worktree')\n")
    assert not root.exists()
    assert _everything(checkout) == before


KEY = "AKIA" + "ABCDEFGH23456789"  # put together here, so that no scanner takes this file for one with a key


def test_large_files_and_files_that_hold_keys_or_data_are_not_recorded_but_named(checkout: Path) -> None:
    keys = {
        "credentials.json", "aws-keys.sh", "deploy/server.pem", "api_key.txt", ".env.local.txt", "hf_token",
        "secrets/a.yaml", "prod.env", ".npmrc", ".pgpass", "service-account.yaml", ".dvc/config.local.bak.key",
    }  # fmt: skip
    data = {"my.jsonl", "trajectories/a.json.gz", "plain.json"}
    code = {"tokens.py", "tokenizer.model", "monkey.txt", "secretary/notes.md"}
    for name in keys | data:
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text("hunter2")
    for name in code:
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text("code")
    (checkout / "weights.bin").write_bytes(bytes((10 << 20) + 1))
    snapshot = take_snapshot(checkout)
    assert b"hunter2" not in snapshot.diff
    left = {f"{name} (named as files are that hold keys)" for name in keys}
    left |= {f"{name} (named as data is)" for name in data} | {"weights.bin (above 10 MiB)"}
    assert set(snapshot.left_out) == left
    for name in code:
        assert f"b/{name}".encode() in snapshot.diff
    provenance = collect_provenance(checkout, load_config(checkout / "params.yaml"), "run-1", snapshot)
    commit = record_run(checkout, provenance, snapshot, {})
    facts = json.loads(Repository(checkout).read(commit, "run.json") or b"")
    assert set(facts["left_out"]) == left


@pytest.mark.parametrize("text", [
    f"id: {KEY}", "-----BEGIN RSA " + "PRIVATE KEY-----", "url: https://me:hunter2@example.org/", "hf_" + "a1" * 17,
    "password = correct-horse", "secret_access_key: 'abcdefgh'", "sk-" + "a1b2" * 6,
])  # fmt: skip
def test_a_file_with_a_key_in_it_is_not_recorded_but_named(checkout: Path, text: str) -> None:
    (checkout / "notes.yaml").write_text(f"a: 1\n{text}\n")
    snapshot = take_snapshot(checkout)
    assert (snapshot.diff, snapshot.left_out) == (b"", ("notes.yaml (a key is in it)",))


@pytest.mark.parametrize("text", [
    "password: ${POSTGRES_PASSWORD:?set it}", "key_variable: OPENAI_API_KEY", "max_tokens: 256", "api_key=$KEY_OF_MINE",
    "see https://example.org:8080/a@b", "pad_token: '<|endoftext|>'",
])  # fmt: skip
def test_what_only_speaks_of_keys_is_recorded(checkout: Path, text: str) -> None:
    (checkout / "notes.yaml").write_text(f"{text}\n")
    (checkout / "code.py").write_text("password = getpass('the password: ')\n")
    assert take_snapshot(checkout).left_out == ()


def test_keys_that_a_change_brings_into_a_tracked_file_stay_out_and_a_worktree_has_its_settings(checkout: Path) -> None:
    config = checkout / ".dvc" / "config"
    config.write_text(config.read_text() + f"['remote \"team\"']\n    url = s3://b\n    access_key_id = {KEY}\n")
    (checkout / "program.py").write_text("print('changed')\n")
    snapshot = take_snapshot(checkout)
    assert KEY.encode() not in snapshot.diff
    assert b"program.py" in snapshot.diff
    assert snapshot.left_out == (".dvc/config (a key is in its changes)",)
    with private_worktree(checkout, State(checkout / ".state"), "run-1", snapshot, {}) as root:
        assert KEY in (root / ".dvc" / "config.local").read_text()
        assert KEY not in (root / ".dvc" / "config").read_text()


def test_a_repository_inside_the_checkout_is_named(checkout: Path) -> None:
    make_checkout(checkout / "nested")
    assert take_snapshot(checkout).left_out == ("nested/ (a git repository of its own)",)


def test_files_that_change_while_a_run_works_are_named_in_its_record(checkout: Path) -> None:
    snapshot = take_snapshot(checkout)
    (checkout / "dvc.lock").write_text("schema: '2.0'\nstages: {}\n")  # a run's own writing
    assert changed_since(checkout, snapshot) == []
    (checkout / "params.yaml").write_text((checkout / "params.yaml").read_text() + "# a remark\n")
    (checkout / "program.py").write_text("print('changed')\n")
    git(checkout, "commit", "-q", "-m", "second", "program.py")
    changed = changed_since(checkout, snapshot)
    assert changed == ["params.yaml", "program.py"]
    provenance = collect_provenance(checkout, load_config(checkout / "params.yaml"), "run-1", snapshot)
    record_run(checkout, provenance, snapshot, {}, changed)
    assert find_record(checkout, "run-1").facts["changed_while_running"] == changed


@pytest.mark.parametrize("setting", ["diff.noprefix=true", "diff.context=0", "diff.up.textconv=tr a-z A-Z <"])
def test_the_users_own_settings_of_diffs_change_no_code(checkout: Path, setting: str) -> None:
    name, value = setting.split("=")
    code = checkout / "flows" / "code.py"
    code.parent.mkdir()
    code.write_text("x = 1\n" * 20)
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "second")
    git(checkout, "config", name, value)
    (checkout / ".git" / "info" / "attributes").write_text("*.py diff=up\n")
    code.write_text("x = 1\n" * 10 + "x = 2\n" + "x = 1\n" * 10)
    snapshot = take_snapshot(checkout)
    with private_worktree(checkout, State(checkout / ".state"), "run-1", snapshot, {}) as root:
        assert (root / "flows" / "code.py").read_text() == code.read_text()


def test_a_seed_that_is_used_every_night_keeps_no_data_of_earlier_nights(checkout: Path, tmp_path: Path) -> None:
    for name in ("old", "new"):
        shutil.rmtree(checkout / "data", ignore_errors=True)
        pull_text(checkout, **{name: name})
        seed_from(checkout, tmp_path)
    assert [path.name for path in (tmp_path / "data" / "pulled").iterdir()] == ["new"]


def test_a_checkout_inside_another_repository_is_a_clear_error(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "outer" / "project")
    shutil.rmtree(checkout / ".git")
    git(tmp_path / "outer", "init", "-q")
    git(tmp_path / "outer", "add", ".")
    git(tmp_path / "outer", "commit", "-q", "-m", "first")
    with pytest.raises(GitError, match=r"a folder \(project/\) of another repository"):
        take_snapshot(checkout)


def test_a_worktree_starts_from_no_half_written_lock(checkout: Path, tmp_path: Path) -> None:
    (checkout / "dvc.lock").write_text("schema: '2.0'\nstages:\n  pull:\n    cmd")
    with pytest.raises(LockFileError, match="remove it"):
        seed_from(checkout, tmp_path)
    assert not (tmp_path / "dvc.lock").exists()


def test_a_worktree_of_a_dead_process_is_swept_and_of_a_living_one_not(checkout: Path) -> None:
    state = State(checkout / ".state")
    with private_worktree(checkout, state, "alive", take_snapshot(checkout), {}) as alive:
        git(checkout, "worktree", "add", "-q", "--detach", str(state.worktrees / "dead"))
        write_json(
            state.worktrees / "dead.owner.json", {"host": _host(), "pid": 999999, "started": 1.0, "run_id": "dead"}
        )
        assert sweep_worktrees(checkout, state) == ["dead"]
        assert alive.exists()
    assert not (state.worktrees / "dead").exists()
    assert len(git(checkout, "worktree", "list").splitlines()) == 1


def test_a_worktree_of_a_submodule_belongs_to_the_submodule(checkout: Path, tmp_path: Path) -> None:
    outer = make_checkout(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(checkout), "inner")
    inner = outer / "inner"
    assert main_checkout(inner) == inner
    with private_worktree(inner, find_state(inner), "run-1", take_snapshot(inner), {}) as root:
        assert main_checkout(root) == inner
    assert len(git(inner, "worktree", "list").splitlines()) == 1
    git(outer, "commit", "-qm", "with a submodule")
    (told,) = take_snapshot(outer).left_out
    assert told.startswith("inner/ (a submodule: its commit is recorded, not its files")


def test_a_worktree_of_another_machine_that_shares_the_repository_stays_registered(
    checkout: Path, tmp_path: Path
) -> None:
    """Its folder is not to be seen from here."""
    git(checkout, "worktree", "add", "-q", "--detach", str(tmp_path / "there"))
    (tmp_path / "there").rename(tmp_path / "not to be seen")
    state = State(checkout / ".state")
    with private_worktree(checkout, state, "run-1", take_snapshot(checkout), {}):
        pass
    remove_worktree(checkout, state, state.worktrees / "never-made")
    listed = git(checkout, "worktree", "list", "--porcelain")
    assert f"worktree {tmp_path / 'there'}\n" in listed
    assert "run-1" not in listed
    assert list(state.worktrees.iterdir()) == []


@pytest.mark.parametrize("name", ["../..", ".", "..", "a/b", "/"])
def test_a_folder_that_is_no_worktree_is_never_removed(checkout: Path, name: str) -> None:
    state = State(checkout / ".state")
    (state.worktrees / "a" / "b").mkdir(parents=True)
    for remove in (
        lambda: remove_worktree(checkout, state, state.worktrees / name),
        lambda: private_worktree(checkout, state, name, take_snapshot(checkout), {}).__enter__(),
    ):
        with pytest.raises(ConfigError, match="left alone"):
            remove()
    assert (state.worktrees / "a" / "b").is_dir()
    assert (checkout / "params.yaml").is_file()


def _host() -> str:
    import socket

    return socket.gethostname()


def test_a_record_is_a_commit_on_a_ref_of_its_own_and_touches_nothing_else(checkout: Path) -> None:
    _make_dirty(checkout)
    write_json(checkout / "reports" / "train" / "a" / "report.json", {"metrics": {"m": 1.0}})
    (checkout / "reports" / "train" / "a" / "rows.parquet").write_bytes(b"rows")
    (checkout / "models" / "a").mkdir(parents=True)
    (checkout / "models" / "a" / "weights").write_bytes(b"weights")
    before, snapshot = _everything(checkout), take_snapshot(checkout)
    config = load_config(checkout / "params.yaml")
    commit = record_run(checkout, collect_provenance(checkout, config, "run-1", snapshot), snapshot, {"train": "ran"})
    assert _everything(checkout) == before
    assert git(checkout, "rev-parse", f"{RUN_REFS}run-1", f"{commit}^").split() == [commit, snapshot.commit]
    names = set(git(checkout, "diff", "--name-only", snapshot.commit, commit).split())
    assert names == {"dirty.diff", "params.yaml", "reports/train/a/report.json", "run.json"}
    record = find_record(checkout, "run-1")
    assert record.snapshot == snapshot
    assert record.facts["dirty"] is True
    assert record.reports() == {"reports/train/a/report.json": {"metrics": {"m": 1.0}}}
    assert find_record(checkout, commit[:10]).run_id == "run-1"


def test_run_refs_are_fetched_into_a_clone_that_asks_for_one(checkout: Path, tmp_path: Path) -> None:
    snapshot = take_snapshot(checkout)
    config = load_config(checkout / "params.yaml")
    commit = record_run(checkout, collect_provenance(checkout, config, "run-1", snapshot), snapshot, {})
    git(tmp_path, "clone", "-q", "--no-local", str(checkout), "clone")
    assert Repository(tmp_path / "clone").resolve(commit) is None
    assert find_record(tmp_path / "clone", "run-1").commit == commit
    with pytest.raises(RecordNotFoundError, match="the latest runs are: run-1"):
        find_record(tmp_path / "clone", "no-such-run")


def test_a_folder_without_a_commit_is_a_clear_error(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(GitError, match="commit once"):
        take_snapshot(tmp_path)


def test_a_repository_that_git_does_not_trust_is_told_in_gits_words(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(GitError, match="dubious ownership"):
        take_snapshot(checkout)


def test_a_machine_without_git_is_a_clear_error(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout / "no-programs"))
    assert find_state(checkout).root == checkout / ".state"
    with pytest.raises(GitError, match="install git"):
        take_snapshot(checkout)

"""Pulling from a folder, a single file or the embedded domain."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pivotrl_core.errors import ConfigError, DataError
from tasks.pull import EmbeddedSource, FolderSource, pull, read_manifest

from .test_pull import ROW, listed_and_present, texts


def test_a_folder_is_pulled_by_content_and_its_place_is_told_as_configured(tmp_path):
    for checkout in ("one", "two"):
        (tmp_path / checkout / "in" / "warmup").mkdir(parents=True)
        (tmp_path / checkout / "in" / "a.jsonl").write_text(ROW)
        (tmp_path / checkout / "in" / "warmup" / "b.json.gz").write_bytes(b"gz")
        (tmp_path / checkout / "in" / "manifest.json").write_text("{}")
        pull(FolderSource("in", tmp_path / checkout), tmp_path / checkout / "pulled")
    one, two = ((tmp_path / c / "pulled" / "manifest.json").read_bytes() for c in ("one", "two"))
    assert one == two
    assert read_manifest(tmp_path / "one" / "pulled").source == {"kind": "folder", "path": "in"}
    assert len(read_manifest(tmp_path / "one" / "pulled").files) == 2


@pytest.mark.parametrize("name", ["mine.jsonl", "warmup.json"])
def test_one_file_is_a_source_too(tmp_path, name):
    (tmp_path / name).write_text(ROW)
    manifest = pull(FolderSource(str(tmp_path / name)), tmp_path / "pulled")
    assert texts(tmp_path / "pulled", manifest) == {name: ROW}


@pytest.mark.parametrize("name", ["manifest.json", "model.json", "warmup.json", "workspaces.json"])
def test_what_a_pull_left_that_was_killed_while_it_wrote_is_removed_by_the_next(tmp_path: Path, name: str):
    """A real kill at that moment, of a process that writes as a pull does."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(ROW)
    program = (
        "import os, signal, sys; from pathlib import Path; from pivotrl_core.files import atomic_path\n"
        "with atomic_path(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    target = tmp_path / "pulled"
    subprocess.run([sys.executable, "-c", program, str(target / name)], check=False)
    assert [path.name.startswith(f".{name}.") for path in target.iterdir()] == [True]
    pull(FolderSource("in", tmp_path), target)
    assert sorted(path.name for path in target.iterdir()) == ["manifest.json", "train", "warmup"]


def test_workspaces_come_under_the_names_that_rows_have_for_them(tmp_path: Path) -> None:
    given, target = tmp_path / "in", tmp_path / "pulled"
    (given / "workspaces" / "tree" / ".hidden").mkdir(parents=True)
    (given / "a.jsonl").write_text(ROW)
    (given / "workspaces" / "tree" / ".hidden" / "rows.jsonl").write_text("not trajectories\n")
    (given / "workspaces" / "logs.tar.gz").write_bytes(b"one")
    first = pull(FolderSource("in", tmp_path), target)
    assert [(file.split, file.origin_key) for file in first.files] == [
        ("train", "a.jsonl"),
        ("workspaces", "workspaces/logs.tar.gz"),
        ("workspaces", "workspaces/tree/.hidden/rows.jsonl"),
    ]
    assert all(file.path == file.origin_key for file in first.files[1:])
    assert len(list((target / "train").iterdir())) == 1
    (given / "workspaces" / "logs.tar.gz").write_bytes(b"two")
    (given / "workspaces" / "tree" / ".hidden" / "rows.jsonl").unlink()
    assert [file.gone for file in pull(FolderSource("in", tmp_path), target).files] == [False, False, True]
    assert (target / "workspaces" / "logs.tar.gz").read_bytes() == b"two"
    assert len(pull(FolderSource("in", tmp_path), target, prune=True).files) == 2
    assert not (target / "workspaces" / "tree" / ".hidden" / "rows.jsonl").exists()
    alone = pull(FolderSource("in/a.jsonl", tmp_path), tmp_path / "alone")
    assert [file.origin_key for file in alone.files] == ["a.jsonl", "workspaces/logs.tar.gz"]


def test_a_damaged_workspace_is_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "in" / "workspaces").mkdir(parents=True)
    (tmp_path / "in" / "a.jsonl").write_text(ROW)
    (tmp_path / "in" / "workspaces" / "x.zip").write_bytes(b"one")
    pull(FolderSource("in", tmp_path), tmp_path / "pulled")
    (tmp_path / "pulled" / "workspaces" / "x.zip").write_bytes(b"bad")
    pull(FolderSource("in", tmp_path), tmp_path / "pulled")
    assert (tmp_path / "pulled" / "workspaces" / "x.zip").read_bytes() == b"one"


@pytest.mark.parametrize("names", [("tree", "tree/a.txt"), ("tree/a.txt", "tree")])
def test_a_workspace_may_become_a_folder_and_a_folder_a_file(tmp_path: Path, names: tuple[str, str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(ROW)
    for name in names:
        shutil.rmtree(tmp_path / "in" / "workspaces", ignore_errors=True)
        (tmp_path / "in" / "workspaces" / name).parent.mkdir(parents=True)
        (tmp_path / "in" / "workspaces" / name).write_text(name)
        manifest = pull(FolderSource("in", tmp_path), tmp_path / "pulled", prune=True)
    assert texts(tmp_path / "pulled", manifest) == {"a.jsonl": ROW, f"workspaces/{names[1]}": names[1]}


def test_workspaces_alone_are_nothing_to_train_on(tmp_path: Path) -> None:
    (tmp_path / "in" / "workspaces").mkdir(parents=True)
    (tmp_path / "in" / "workspaces" / "a.jsonl").write_text(ROW)
    with pytest.raises(ConfigError, match="to train on"):
        pull(FolderSource("in", tmp_path), tmp_path / "pulled")


def test_a_missing_folder_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigError, match=r"source\.path 'nowhere'"):
        pull(FolderSource("nowhere", tmp_path), tmp_path / "pulled")


def test_another_source_starts_afresh_and_keeps_no_old_file(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "mine.jsonl").write_text(ROW)
    target = tmp_path / "pulled"
    pull(EmbeddedSource(lambda: {"train/x.jsonl": [{"a": 1}]}, "f1"), target)
    (target / "model.json").write_text("{}")
    manifest = pull(FolderSource("in", tmp_path), target)
    assert [file.origin_key for file in manifest.files] == ["mine.jsonl"]
    assert listed_and_present(target) == ([manifest.files[0].path],) * 2
    assert (target / "model.json").exists()


def test_the_embedded_source_generates_only_when_its_fingerprint_changes(tmp_path):
    calls: list[int] = []

    def generate() -> dict[str, list[dict[str, int]]]:
        calls.append(1)
        return {"train/x.jsonl": [{"a": len(calls) * 0}], "warmup/x.jsonl": [{"a": 1}]}

    first = pull(EmbeddedSource(generate, "f1"), tmp_path / "pulled")
    assert len(calls) == 1
    assert pull(EmbeddedSource(generate, "f1"), tmp_path / "pulled") == first
    assert len(calls) == 1
    assert pull(EmbeddedSource(generate, "f2"), tmp_path / "pulled").revision == "f2"
    assert len(calls) == 2


def test_a_manifest_that_is_none_is_refused_with_its_path(tmp_path):
    (tmp_path / "manifest.json").write_text('{"schema_version": 99}')
    with pytest.raises(DataError, match=r"manifest\.json.*schema_version is 99"):
        read_manifest(tmp_path)


def test_a_long_key_of_wide_letters_fits_a_file_name(tmp_path: Path):
    place = tmp_path / "source" / ("数据" * 20) / ("训练集合" * 15)
    place.mkdir(parents=True)
    (place / "轨迹.jsonl").write_text("{}\n")
    manifest = pull(FolderSource(str(tmp_path / "source")), tmp_path / "pulled")
    assert (tmp_path / "pulled" / manifest.files[0].path).read_text() == "{}\n"
    assert manifest.files[0].path.partition(".")[0].endswith("集合--轨迹")


def test_what_a_killed_pull_of_another_source_brought_is_left_to_it(tmp_path: Path):
    other = tmp_path / "staging" / "other" / "half.jsonl"
    other.parent.mkdir(parents=True)
    other.write_text(ROW)
    (tmp_path / "mine.jsonl").write_text(ROW)
    pull(FolderSource(str(tmp_path / "mine.jsonl")), tmp_path / "pulled", staging=tmp_path / "staging")
    assert [path.name for path in (tmp_path / "staging").iterdir()] == ["other"]
    assert other.is_file()

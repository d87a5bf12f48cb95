"""The configuration's source and model become data/pulled, and the warm-up depends on its own files alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pivotrl_core.config.loading import parse_config
from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import file_digest, read_json, read_jsonl
from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.stages.context import StageContext
from pivotrl_core.stages.verification import configured_verifier
from pivotrl_core.trajectories.loading import load_trajectories
from pivotrl_core.types import Action, Split
from pivotrl_core.verifiers import sandbox
from tasks.sources import build_source, pull_inputs

needs_sandbox = pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")


def _config(**sections: object) -> Config:
    return parse_config({"arms": {"base": {}}, **sections})


def _bytes(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): file_digest(path) for path in root.rglob("*") if path.is_file()}


def test_the_embedded_domain_gives_the_same_files_at_every_pull(tmp_path: Path) -> None:
    config = _config(source={"kind": "embedded", "trajectories": 3, "warmup_trajectories": 2})
    for name in ("one", "two", "one"):
        pull_inputs(config, tmp_path / name, tmp_path)
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")
    pulled = tmp_path / "one" / "data" / "pulled"
    assert [len(read_jsonl(path)) for path in sorted(pulled.glob("*/*.jsonl"))] == [3, 2]
    assert read_json(pulled / "model.json")["kind"] == "bundled"


def test_new_training_files_change_neither_the_model_nor_the_warmup(tmp_path: Path) -> None:
    for name in ("data/a.jsonl", "warm/w.jsonl", "model/config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"name": "' + name + '"}\n')
    source = {"kind": "folder", "path": "data", "warmup_path": "warm"}
    config = _config(source=source, model={"kind": "folder", "path": "model"})
    pulled = tmp_path / "root" / "data" / "pulled"

    def pull() -> tuple[dict[str, str], list[str]]:
        pull_inputs(config, tmp_path / "root", tmp_path)
        files = [str(path.relative_to(pulled)).split(".")[0] for path in sorted(pulled.glob("*/*.jsonl"))]
        return {name: file_digest(pulled / name) for name in ("model.json", "warmup.json")}, files

    before, files = pull()
    assert files == ["train/a", "warmup/w"]
    (tmp_path / "data" / "b.jsonl").write_text("{}\n")
    after, files = pull()
    assert files == ["train/a", "train/b", "warmup/w"]
    assert after == before
    (tmp_path / "warm" / "w.jsonl").write_text('{"changed": 1}\n')
    (tmp_path / "model" / "config.json").write_text('{"changed": 1}\n')
    changed, _ = pull()
    assert all(changed[name] != before[name] for name in before)


def test_workspaces_are_listed_for_the_stages_that_execute_in_them_and_the_verifier_finds_them(tmp_path: Path) -> None:
    (tmp_path / "data" / "workspaces").mkdir(parents=True)
    (tmp_path / "data" / "a.jsonl").write_text("{}\n")
    config = _config(source={"kind": "folder", "path": "data"})
    root = tmp_path / "root"
    pulled = root / "data" / "pulled"
    context = StageContext(config, root, tmp_path / "scratch", tmp_path / "store", tmp_path / "models", root)
    pull_inputs(config, root, tmp_path)
    assert read_json(pulled / "workspaces.json") == []
    assert context.places.workspaces is None
    without = configured_verifier(config, context.places).version
    before = {name: file_digest(pulled / name) for name in ("model.json", "warmup.json")}
    (tmp_path / "data" / "workspaces" / "one.tar").write_bytes(b"1")
    pull_inputs(config, root, tmp_path)
    assert [key for key, _ in read_json(pulled / "workspaces.json")] == ["workspaces/one.tar"]
    assert context.places.workspaces == pulled
    assert (pulled / "workspaces" / "one.tar").is_file()
    assert configured_verifier(config, context.places).version != without
    assert {name: file_digest(pulled / name) for name in before} == before


@needs_sandbox
def test_a_profile_s_verifier_executes_commands_in_the_workspace_that_was_pulled(tmp_path: Path) -> None:
    tree = tmp_path / "data" / "workspaces" / "tree"
    tree.mkdir(parents=True)
    (tree / "a.txt").write_text("one\ntwo\n")
    row = {
        "responses_create_params": {"input": [{"role": "user", "content": "show it"}]},
        "expected_answer": _terminus("cat a.txt\n"),
        "metadata": {"harness": "terminus_2"},
        "workspace": "workspaces/tree",
    }
    (tmp_path / "data" / "a.jsonl").write_text(json.dumps(row) + "\n")
    config = _config(source={"kind": "folder", "path": "data"})
    root = tmp_path / "root"
    pull_inputs(config, root, tmp_path)
    context = StageContext(config, root, tmp_path / "scratch", tmp_path / "store", tmp_path / "models", root)
    verifier = configured_verifier(config, context.places)
    (trajectory,) = load_trajectories([next((root / "data/pulled/train").iterdir())]).trajectories
    (candidate,) = iterate_candidates(trajectory, Split.TRAIN)
    answers = {text: Action(_terminus(text)) for text in ("tail -n 2 a.txt\n", "head -n 1 a.txt\n")}
    reasons = [verifier.verify(candidate, answer).reason for answer in answers.values()]
    assert reasons == ["same_effect", "effect_differs"]


def _terminus(keystrokes: str) -> str:
    return json.dumps({"analysis": "a", "plan": "p", "commands": [{"keystrokes": keystrokes}]})


@pytest.mark.parametrize("warm", ["data/warm", "data/warm/", "./data/../data/warm", "data/warm/w.jsonl"])
def test_warmup_files_inside_of_the_training_folder_are_for_the_warmup_alone(tmp_path: Path, warm: str) -> None:
    for name in ("data/a.jsonl", "data/warm/w.jsonl", "data/warmer.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"name": "' + name + '"}\n')
    config = _config(source={"kind": "folder", "path": "data", "warmup_path": warm})
    manifest = pull_inputs(config, tmp_path / "root", tmp_path)
    assert [file.origin_key for file in manifest.files] == ["a.jsonl", "warmer.jsonl", "warmup/w.jsonl"]


@pytest.mark.parametrize(
    ("prefix", "warmup_prefix", "inner"),
    [("a", "a/warm/", "warm"), ("a/", "ab", None), ("", "/a/b", "a/b"), ("a", "a", "."), ("a/b", "a", None)],
)
def test_a_warmup_prefix_inside_of_the_training_prefix_is_known(prefix: str, warmup_prefix: str, inner: str) -> None:
    s3 = {"kind": "s3", "bucket": "b", "prefix": prefix, "warmup_prefix": warmup_prefix}
    assert build_source(_config(source=s3), Path()).inner == inner  # type: ignore[attr-defined]


def test_what_lies_under_warmup_beside_a_warmup_of_its_own_is_left_out_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("data/a.jsonl", "data/warmup/old.jsonl", "data/warmup/new/w.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"name": "' + name + '"}\n')
    config = _config(source={"kind": "folder", "path": "data", "warmup_path": "data/warmup/new"})
    manifest = pull_inputs(config, tmp_path / "root", tmp_path)
    assert [file.origin_key for file in manifest.files] == ["a.jsonl", "warmup/w.jsonl"]
    (told,) = [one.getMessage() for one in caplog.records if one.name == "tasks.sources"]
    assert told.startswith("1 files below ")


def test_an_emptied_training_folder_is_an_error_beside_a_warmup_folder_that_is_not(tmp_path: Path) -> None:
    for name in ("data/a.jsonl", "warm/w.jsonl"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("{}\n")
    config = _config(source={"kind": "folder", "path": "data", "warmup_path": "warm"})
    pull_inputs(config, tmp_path / "root", tmp_path)
    before = _bytes(tmp_path / "root")
    (tmp_path / "data" / "a.jsonl").unlink()
    with pytest.raises(ConfigError, match="to train on"):
        pull_inputs(config, tmp_path / "root", tmp_path, prune=True)
    assert _bytes(tmp_path / "root") == before


def test_a_folder_that_is_not_there_is_told_by_the_key_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.jsonl").write_text("{}\n")
    for source, key in (({"path": "none"}, "path"), ({"path": "data", "warmup_path": "none"}, "warmup_path")):
        with pytest.raises(ConfigError, match=rf"^source\.{key} 'none': "):
            pull_inputs(_config(source={"kind": "folder", **source}), tmp_path / "root", tmp_path)


def test_what_another_checkout_pulled_is_a_source_of_trajectories_alone(tmp_path: Path) -> None:
    pull_inputs(_config(source={"kind": "embedded", "trajectories": 2, "warmup_trajectories": 1}), tmp_path, tmp_path)
    pulled = tmp_path / "data" / "pulled"
    manifest = pull_inputs(_config(source={"kind": "folder", "path": str(pulled)}), tmp_path / "second", tmp_path)
    assert [file.origin_key for file in manifest.files] == sorted(
        path.relative_to(pulled).as_posix() for path in pulled.glob("*/*")
    )


def test_a_folder_that_holds_no_model_is_refused(tmp_path: Path) -> None:
    config = _config(
        source={"kind": "embedded", "trajectories": 1, "warmup_trajectories": 0}, model={"kind": "folder", "path": "."}
    )
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        pull_inputs(config, tmp_path / "root", tmp_path)


def test_generated_warmup_that_is_no_longer_asked_for_does_not_stay_in_use(tmp_path: Path) -> None:
    for count, files in ((2, 1), (0, 0)):
        source = {"kind": "embedded", "trajectories": 2, "warmup_trajectories": count}
        pull_inputs(_config(source=source), tmp_path, tmp_path)
        assert len(read_json(tmp_path / "data" / "pulled" / "warmup.json")) == files


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("runs/*/trajectory.json", ["a/trajectory.json", "b/trajectory.json"]),
        ("runs/**/*.jsonl.zst", ["b/deep/c.jsonl.zst"]),
        ("runs/[b]*", ["b/deep/c.jsonl.zst", "b/trajectory.json"]),
        ("runs/x[1]", ["d.traj"]),  # a folder of this very name
    ],
)
def test_a_pattern_takes_the_files_that_match_and_those_in_folders_that_match(
    tmp_path: Path, path: str, keys: list[str]
) -> None:
    names = ("a/trajectory.json", "a/notes.txt", "b/trajectory.json", "b/deep/c.jsonl.zst", "x[1]/d.traj")
    for name in names:
        (tmp_path / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "runs" / name).write_text('{"name": "' + name + '"}\n')
    manifest = pull_inputs(_config(source={"kind": "folder", "path": path}), tmp_path / "root", tmp_path)
    assert [file.origin_key for file in manifest.files] == keys
    pulled = tmp_path / "root" / "data" / "pulled" / "train"
    assert len(list(pulled.iterdir())) == len(keys)


def test_a_pattern_that_nothing_matches_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for path in ("runs/*.jsonl", "walks/*.jsonl"):
        with pytest.raises(ConfigError, match=r"jsonl"):
            pull_inputs(_config(source={"kind": "folder", "path": path}), tmp_path / "root", tmp_path)

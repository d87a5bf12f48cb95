"""Stored rollouts under another rule: decided anew where that is enough, graded anew where it is not."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.reverifying import reverify_text
from pivotrl_core.config.loading import load_config
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import load_tokenizer
from pivotrl_core.errors import ConfigError, DataError
from pivotrl_core.files import read_json, write_json
from pivotrl_core.pivots.profile_record import ProfileRow, read_profile, write_profile
from pivotrl_core.pivots.profiling import Rollout, read_rollouts, write_rollouts
from pivotrl_core.stages.context import Places
from pivotrl_core.stages.verification import configured_verifier, grading_id
from pivotrl_core.types import Candidate, Message, Role, Tool, ToolCall
from tasks.stored import copy_output, link_output

NOTE = "please cancel my order because it came too late"
NEAR = NOTE.replace("came", "was")  # the same words that matter: similarity at least 0.9
FAR = "the weather is quite nice today in town"
TOOL = Tool("note", "", {"type": "object", "properties": {"text": {"type": "string"}}})


def call(text: str) -> str:
    return f"@note {json.dumps({'text': text})}"


@pytest.fixture
def run(tmp_path: Path, tiny_llama: Path) -> Path:
    """A checkout with one profile of one candidate: four rollouts, judged at 0.8."""
    root = tmp_path / "run"
    (root / "models").mkdir(parents=True)
    (root / "models" / "base").symlink_to(tiny_llama)
    values = {"arms": {"base": {}}, "source": {"kind": "folder", "path": "x"}, "data": {"tool_format": "compact"}}
    (root / "params.yaml").write_text(yaml.safe_dump(values))
    config = load_config(root / "params.yaml")
    renderer = ChatRenderer(load_tokenizer(tiny_llama, tiny_llama), "compact")
    expert = Message(Role.ASSISTANT, tool_calls=(ToolCall("note", json.dumps({"text": NOTE})),))
    candidate = Candidate((Message(Role.USER, "Please."),), (TOOL,), expert, "t", 0)
    places = Places(root, tmp_path / "store")
    verifier = configured_verifier(config, places)
    rollouts = []
    for index, text in enumerate((call(NOTE), call(NEAR), call(FAR), "Hello.")):
        ids = (*renderer.encode(text), renderer.eos_id)
        verdict = verifier.verify(candidate, renderer.parse(ids, candidate.tools))
        rollouts.append(Rollout(candidate.id, index, ids, -1.0, "stop", verdict))
    profile = root / "data/profiles/base"
    write_rollouts(profile / "rollouts.parquet", rollouts)
    write_profile(profile / "profile.parquet", [ProfileRow(candidate, tuple(one.verdict for one in rollouts))])
    write_json(profile / "report.json", {"grading": grading_id(config, places)})
    return root


def reverify(run: Path, rule: str = "", settings: Sequence[str] = ()) -> tuple[dict[str, Any], list[float]]:
    out = run.parent / "out"
    (found,) = json.loads(reverify_text(run, str(run), rule, settings, out, as_json=True))
    (row,) = read_profile(out / "base" / "profile.parquet").to_dict("records")
    rewards = [rollout.verdict.reward for rollout in read_rollouts(out / "base" / "rollouts.parquet")]
    assert [verdict["reward"] for verdict in json.loads(row["components"])] == rewards
    assert row["successes"] == sum(reward >= 1.0 for reward in rewards)
    return found, rewards


def test_the_runs_own_rule_changes_nothing_and_grades_nothing(run: Path) -> None:
    found, rewards = reverify(run)
    assert rewards == [1.0, 1.0, 0.0, 0.0]
    assert (found["rollouts"], found["graded_again"], found["rewards_changed"]) == (4, 0, 0)
    assert (found["pivots_before"], found["pivots_after"]) == (1, 1)


def test_another_threshold_or_reward_is_decided_on_what_is_stored(run: Path) -> None:
    found, rewards = reverify(run, settings=["verifier.text_threshold=0.999"])
    assert rewards == [1.0, 0.0, 0.0, 0.0]
    assert (found["graded_again"], found["rewards_changed"]) == (0, 1)
    assert (found["mean_reward_before"], found["mean_reward_after"]) == (0.5, 0.25)
    found, rewards = reverify(run, settings=["verifier.reward.failure=0.1"])
    assert (rewards, found["graded_again"]) == ([1.0, 1.0, 0.1, 0.1], 0)


def test_another_verifier_or_comparator_grades_again(run: Path) -> None:
    found, rewards = reverify(run, rule="exact")
    assert (rewards, found["graded_again"]) == ([1.0, 0.0, 0.0, 0.0], 4)
    found, rewards = reverify(run, settings=["verifier.comparators={note: {text: exact}}"])
    assert (rewards, found["graded_again"]) == ([1.0, 0.0, 0.0, 0.0], 4)
    found, rewards = reverify(run, rule="nemo-gym", settings=["verifier.nemo_gym.word_count_similarity_threshold=0.0"])
    assert (rewards, found["graded_again"]) == ([1.0, 1.0, 1.0, 0.0], 4)


def test_a_profile_of_other_code_is_graded_again(run: Path) -> None:
    write_json(run / "data/profiles/base/report.json", {"grading": "that of other rules"})
    assert reverify(run)[0]["graded_again"] == 4
    (run / "data/profiles/base/report.json").unlink()
    assert reverify(run)[0]["graded_again"] == 4


def test_what_cannot_be_done_is_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="only settings of the verifier"):
        reverify(run, settings=["profile.samples=4"])
    with pytest.raises(ConfigError, match="kind"):
        reverify(run, rule="fuzzy")
    (run / "data/profiles/base/rollouts.parquet").unlink()
    with pytest.raises(DataError, match="name it by its id"):
        reverify_text(tmp_path, str(tmp_path), "", [], tmp_path / "out", as_json=False)
    with pytest.raises(DataError, match="no profile under data/profiles"):
        reverify(run)


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, "-C", str(root), *arguments], check=True, capture_output=True)


def cached(cache: Path, content: bytes, suffix: str = "") -> str:
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest() + suffix
    path = cache / "files" / "md5" / md5[:2] / md5[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return md5


def test_a_recorded_run_is_read_from_git_and_the_cache(run: Path) -> None:
    write_json(run / "data/pulled/workspaces/shop/prices.json", {"tea": 3})
    write_json(run / "data/pulled/manifest.json", {})
    outs = []
    for name in ("data/profiles/base", "models/base", "data/pulled"):
        files = [
            {
                "md5": cached(run / ".dvc/cache", path.read_bytes()),
                "relpath": path.relative_to(run / name).as_posix(),
            }
            for path in (run / name).rglob("*")
            if path.is_file()
        ]
        listing = cached(run / ".dvc/cache", json.dumps(files).encode(), ".dir")
        outs.append({"path": name, "md5": listing})
    (run / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": {"all": {"cmd": "run", "outs": outs}}}))
    (run / "run.json").write_text(json.dumps({"run_id": "night", "commit": "0"}))
    git(run, "init", "--quiet")
    git(run, "add", "params.yaml", "dvc.lock", "run.json")
    git(run, "commit", "--quiet", "--message", "night")
    git(run, "update-ref", "refs/pivotrl/runs/night", "HEAD")
    (run / "data").rename(run / "elsewhere")
    (found,) = json.loads(reverify_text(run, "night", "exact", [], run.parent / "out", as_json=True))
    assert (found["profile"], found["graded_again"], found["mean_reward_after"]) == ("base", 4, 0.25)
    text = reverify_text(run, "night", "", ["verifier.text_threshold=0.999"], run.parent / "out", as_json=False)
    assert "base: 4 rollouts, 4 graded again, 1 rewards changed" in text
    # All of them, as the profile was graded where no workspace was.
    copy_output(run / ".dvc/cache", outs[-1]["md5"], run.parent / "copy", "workspaces")
    (copied,) = (path for path in (run.parent / "copy").rglob("*") if path.is_file())
    assert (copied.name, copied.is_symlink(), read_json(copied)) == ("prices.json", False, {"tea": 3})


def test_a_record_that_is_not_whole_or_not_to_be_trusted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="dvc fetch"):
        link_output(tmp_path, "cc3.dir", tmp_path / "out")
    for name in ("../escaped", "/etc/escaped"):
        listing = cached(tmp_path, json.dumps([{"md5": cached(tmp_path, b"x"), "relpath": name}]).encode(), ".dir")
        with pytest.raises(DataError, match="do not trust it"):
            link_output(tmp_path, listing, tmp_path / "out")

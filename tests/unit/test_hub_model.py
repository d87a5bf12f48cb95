"""A hub model is pinned once, at the pull: model.json holds the commit, and every stage loads exactly that one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx2
import huggingface_hub
import pytest
from huggingface_hub import errors

from flows.inspecting import inspect_text
from pivotrl_core.config.loading import parse_config
from pivotrl_core.engines.hub import MODEL_FILES, TOKENIZER_FILES, HubRepository
from pivotrl_core.engines.model import load_policy, load_tokenizer, resolve_folder
from pivotrl_core.errors import EXIT_CONFIG, EXIT_TEMPORARY, ConfigError, TemporaryError
from pivotrl_core.files import read_json, write_json
from pivotrl_core.stages.candidates import run_candidates
from pivotrl_core.stages.context import StageContext
from pivotrl_core.stages.models import policy_digest, source_model
from pivotrl_core.stages.warmup import run_warmup
from tasks.pull.retry import retry
from tasks.sources import pull_inputs
from tests.tiny_models import COMPUTE
from tests.toy_training import pull_toys, toy_trajectories

FIRST, SECOND = "a" * 40, "b" * 40


class Hub:
    """The two calls of the hub's library that are used, with one model whose branch `main` moves."""

    def __init__(self, cache: Path) -> None:
        self.main = FIRST
        self.cache = cache
        self.failures: list[Exception] = []
        self.downloads: list[str] = []
        self.patterns: list[tuple[str, ...]] = []

    def __call__(self, endpoint: str | None) -> Hub:
        return self

    def repo_info(self, name: str, *, revision: str, repo_type: str) -> Any:
        assert (name, revision, repo_type) == ("owner/name", "main", "model")
        if self.failures:
            raise self.failures.pop(0)
        return huggingface_hub.hf_api.ModelInfo(id=name, sha=self.main)

    def snapshot_download(
        self, name: str, *, revision: str, repo_type: str, allow_patterns: list[str], **_: Any
    ) -> str:
        assert (name, repo_type) == ("owner/name", "model")
        self.patterns.append(tuple(allow_patterns))
        if self.failures:
            raise self.failures.pop(0)
        self.downloads.append(revision)
        return str(self.cache / revision)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub(tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub, "HfApi", hub)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
    monkeypatch.setattr(retry, "__defaults__", ((0.0, 0.0), lambda _: None))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return hub


def context_of(root: Path, revision: str = "main") -> StageContext:
    config = parse_config({
        "model": {"kind": "hub", "repo": "owner/name", "revision": revision},
        "source": {"kind": "embedded", "trajectories": 1, "warmup_trajectories": 0},
        "warmup": {"epochs": 0},
        "arms": {"base": {}},
    })  # fmt: skip
    return StageContext(config, root, root / "scratch", root / "store", root / "cache", root)


def test_a_branch_that_moves_on_after_the_pull_changes_no_stage(hub: Hub, tmp_path: Path) -> None:
    context = context_of(tmp_path)
    pull_inputs(context.config, tmp_path, tmp_path)
    assert read_json(tmp_path / "data/pulled/model.json") == {"kind": "hub", "repo": "owner/name", "revision": FIRST}
    hub.main = SECOND
    assert source_model(context) == hub.cache / FIRST
    run_warmup(context)
    assert read_json(tmp_path / "models/base/policy.json")["revision"] == FIRST
    assert resolve_folder(tmp_path / "models/base") == hub.cache / FIRST
    assert set(hub.downloads) == {FIRST}
    pull_inputs(context.config, tmp_path, tmp_path)
    assert source_model(context) == hub.cache / SECOND


def test_no_weights_are_downloaded_before_a_stage_computes_with_them(
    hub: Hub, tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(tmp_path, revision=FIRST)
    (hub.cache).mkdir()
    (hub.cache / FIRST).symlink_to(tiny_llama)
    pull_toys(tmp_path, toy_trajectories(20))
    write_json(tmp_path / "data/pulled/model.json", {"kind": "hub", "repo": "owner/name", "revision": FIRST})
    run_warmup(context)
    run_candidates(context)
    load_tokenizer(tmp_path / "models/base", tmp_path / "models/base")
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "params.yaml", context.config.model_dump(mode="json"))
    (tmp_path / "dvc.yaml").touch()
    assert "state_tokens" in inspect_text([tmp_path / "data/pulled/train"], as_json=True)
    assert policy_digest(tmp_path / "models/base", tmp_path / "models/base")  # the commit says it
    assert hub.patterns == [TOKENIZER_FILES] * 3
    load_policy(tmp_path / "models/base", tmp_path / "models/base", COMPUTE)
    assert hub.patterns[3:] == [MODEL_FILES]


def test_a_model_without_safetensors_says_so(tiny_llama: Path, tmp_path: Path) -> None:
    shutil.copy(tiny_llama / "config.json", tmp_path / "config.json")
    (tmp_path / "pytorch_model.bin").write_bytes(b"never read")
    with pytest.raises(ConfigError, match="no safetensors file here"):
        load_policy(tmp_path, tmp_path, COMPUTE)


def test_a_damaged_model_is_named_with_a_remedy(tiny_llama: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_llama, tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(b"?" * 64)
    with pytest.raises(ConfigError, match=r"model: not a causal language model .*bring its files anew"):
        load_policy(tmp_path / "model", tmp_path / "model", COMPUTE)


def test_turns_longer_than_the_model_s_context_stop_before_anything_trains(tiny_llama: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_llama, tmp_path / "model")
    made = read_json(tmp_path / "model/config.json")
    write_json(tmp_path / "model/config.json", made | {"max_position_embeddings": 999})
    pull_toys(tmp_path, toy_trajectories(20))
    config = parse_config({
        "model": {"kind": "folder", "path": str(tmp_path / "model")},
        "source": {"kind": "embedded", "trajectories": 1, "warmup_trajectories": 1},
        "data": {"max_state_tokens": 936, "max_action_tokens": 64},
        "arms": {"base": {}},
    })  # fmt: skip
    context = StageContext(config, tmp_path, tmp_path / "scratch", tmp_path / "store", tmp_path / "cache", tmp_path)
    for stage in (run_warmup, run_candidates):
        with pytest.raises(ConfigError, match=r"max_action_tokens is 1000, and the model's context has 999 tokens"):
            stage(context)


def test_before_a_pull_and_for_another_model_the_configured_revision_counts(hub: Hub, tmp_path: Path) -> None:
    source_model(context_of(tmp_path))
    write_json(tmp_path / "data/pulled/model.json", {"kind": "hub", "repo": "owner/other", "revision": SECOND})
    source_model(context_of(tmp_path))
    write_json(tmp_path / "data/pulled/model.json", {"kind": "hub", "repo": "owner/name", "revision": SECOND})
    source_model(context_of(tmp_path, revision=FIRST))
    assert hub.downloads == ["main", "main", FIRST]


def test_a_commit_is_recorded_without_asking_the_hub(hub: Hub, tmp_path: Path) -> None:
    hub.failures.append(AssertionError("asked"))
    pull_inputs(context_of(tmp_path, revision=SECOND).config, tmp_path, tmp_path)
    assert read_json(tmp_path / "data/pulled/model.json")["revision"] == SECOND


def answer(status: int) -> httpx2.Response:
    return httpx2.Response(status, request=httpx2.Request("GET", "http://hub"))


PASSING = [
    httpx2.ConnectError("no route"),
    httpx2.ReadTimeout("slow"),
    errors.HfHubHTTPError("busy", response=answer(503)),
    errors.HfHubHTTPError("too many", response=answer(429)),
    errors.LocalEntryNotFoundError("unreachable, and nothing in the cache"),
    ConnectionError("broken off"),
]
LASTING = [
    errors.RepositoryNotFoundError("none", response=answer(404)),
    errors.RevisionNotFoundError("none", response=answer(404)),
    errors.GatedRepoError("gated", response=answer(403)),
    errors.HfHubHTTPError("no", response=answer(401)),
    errors.OfflineModeIsEnabled("off"),
]


@pytest.mark.parametrize("failure", PASSING, ids=repr)
def test_a_failure_that_may_pass_is_tried_again_by_a_pull_and_worth_a_retry_of_a_stage(
    hub: Hub, tmp_path: Path, failure: Exception
) -> None:
    hub.failures += [failure, failure]
    pull_inputs(context_of(tmp_path).config, tmp_path, tmp_path)
    assert read_json(tmp_path / "data/pulled/model.json")["revision"] == FIRST
    write_json(tmp_path / "models/base/policy.json", {"repo": "owner/name", "revision": FIRST})
    for load in (lambda: source_model(context_of(tmp_path)), lambda: resolve_folder(tmp_path / "models/base")):
        hub.failures.append(failure)
        with pytest.raises(TemporaryError, match=f"hub model owner/name at {FIRST}") as told:
            load()
        assert told.value.exit_code == EXIT_TEMPORARY


@pytest.mark.parametrize("failure", LASTING, ids=repr)
def test_a_model_that_is_not_there_is_a_configuration_error_at_once(
    hub: Hub, tmp_path: Path, failure: Exception
) -> None:
    for load in (HubRepository("model", "owner/name", "main").resolve, lambda: source_model(context_of(tmp_path))):
        hub.failures.append(failure)
        with pytest.raises(ConfigError, match="hub model owner/name at main: ") as told:
            load()
        assert told.value.exit_code == EXIT_CONFIG
    hub.failures += [failure, failure]
    with pytest.raises(ConfigError):
        pull_inputs(context_of(tmp_path).config, tmp_path, tmp_path)
    assert hub.failures == [failure]

"""The stages that sample, through servers: results are those of the embedded engine, and what cannot be is refused."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import Gemma3Config, GPT2Config, LlamaConfig, MambaConfig

from pivotrl_core.engines.model import context_tokens, load_policy
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import read_json, read_jsonl, write_json
from pivotrl_core.pivots.profiling import read_rollouts
from pivotrl_core.pivots.tables import read_table, records
from pivotrl_core.stages.candidates import run_candidates
from pivotrl_core.stages.context import StageContext
from pivotrl_core.stages.evaluate import run_evaluate
from pivotrl_core.stages.profile import run_profile
from pivotrl_core.stages.select import run_select
from pivotrl_core.stages.train import run_train
from pivotrl_core.stages.warmup import run_warmup
from tests.completions_server import CompletionsServer
from tests.invariant.test_stages import GRPO, configuration
from tests.tiny_models import COMPUTE
from tests.toy_training import pull_toys, toy_trajectories
from tests.vllm_stand_in import StandIn

pytestmark = pytest.mark.usefixtures("deterministic")

ARMS = {"base": {}, "all-turns": {"select": {"rule": "all"}, "train": GRPO | {"group_size": 4}}}
EPISODES = {"max_tokens": 4, "turns": 4, "items": 2, "drift_texts": 2, "benchmarks": ["mmlu-pro"]}


def context(root: Path, model: Path, **sections: Any) -> StageContext:
    config = configuration(model, **{"arms": ARMS, "evaluate": EPISODES} | sections)
    return StageContext(config, root, root / "scratch", root / "store", root / "cache", root)


@pytest.fixture(scope="module")
def embedded(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which every stage sampled in its own process."""
    root = tmp_path_factory.mktemp("embedded")
    pull_toys(root, toy_trajectories(20))
    own = context(root, tiny_llama)
    run_warmup(own)
    run_candidates(own)
    run_profile(own, "base", "models/base")
    run_select(own, "all-turns", "all-turns", "base")
    run_train(own, "all-turns", 0, "models/base", "all-turns")
    run_evaluate(own, "all-turns", 0, "models/all-turns/0")
    run_evaluate(own, "base", 0, "models/base")
    return root


@pytest.fixture
def checkout(embedded: Path, tmp_path: Path) -> Path:
    """A copy without what a stage keeps for its next start."""
    shutil.copytree(embedded, tmp_path / "copy", ignore=shutil.ignore_patterns("scratch", "store"))
    return tmp_path / "copy"


@pytest.fixture
def server(embedded: Path) -> Iterator[CompletionsServer]:
    base = embedded / "models/base"
    with CompletionsServer(load_policy(base, base, COMPUTE)) as one:
        yield one


def openai(server: CompletionsServer, **changes: Any) -> dict[str, Any]:
    return {"kind": "openai", "model": "policy", "endpoints": [server.url], **changes}


def test_a_profile_through_servers_is_the_embedded_one(
    checkout: Path, embedded: Path, tiny_llama: Path, server: CompletionsServer
) -> None:
    run_profile(context(checkout, tiny_llama, engine=openai(server)), "base", "models/base")
    found, expected = (read_rollouts(root / "data/profiles/base/rollouts.parquet") for root in (checkout, embedded))
    assert [(one.ids, one.finish, one.verdict) for one in found] == [
        (one.ids, one.finish, one.verdict) for one in expected
    ]
    assert [one.logprob for one in found] == pytest.approx([one.logprob for one in expected], abs=1e-3)
    reports = [read_json(root / "data/profiles/base/report.json") for root in (checkout, embedded)]
    assert [report["engine"] for report in reports] == ["openai", "transformers"]
    assert len(server.asked) - 1 == reports[0]["metrics"]["cost/rollout_turns"]
    # A second one with the same weights and engine costs nothing.
    before = len(server.asked)
    run_profile(context(checkout, tiny_llama, engine=openai(server)), "base", "models/base")
    assert len(server.asked) == before + 1  # the greeting


def test_servers_that_serve_another_policy_are_not_asked(
    checkout: Path, tiny_llama: Path, server: CompletionsServer
) -> None:
    other = context(checkout, tiny_llama, engine=openai(server, serves="models/all-turns/0"))
    with pytest.raises(ConfigError, match=r"engine\.serves: .* this is models/base; leave 'profile' out"):
        run_profile(other, "base", "models/base")
    own = context(checkout, tiny_llama, engine=openai(server, stages=["evaluate"]))
    with pytest.raises(ConfigError, match=r"serve models/base, and this is models/all-turns/0"):
        run_evaluate(own, "all-turns", 0, "models/all-turns/0")
    assert server.asked == []


@pytest.mark.parametrize(("config", "tokens"), [
    (LlamaConfig(max_position_embeddings=77), 77),
    (GPT2Config(n_positions=77), 77),
    (Gemma3Config(text_config={"max_position_embeddings": 77}), 77),
    (MambaConfig(), sys.maxsize),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_the_context_that_a_model_was_made_for_is_found_by_whatever_name_its_family_has(
    config: Any, tokens: int
) -> None:
    assert context_tokens(config) == tokens


def test_a_config_that_names_no_context_stops_no_stage_that_samples_through_servers(
    checkout: Path, tiny_llama: Path, server: CompletionsServer
) -> None:
    file = checkout / "models/base/config.json"
    write_json(file, {key: value for key, value in read_json(file).items() if key != "max_position_embeddings"})
    run_profile(context(checkout, tiny_llama, engine=openai(server)), "base", "models/base")
    assert server.asked


@pytest.mark.parametrize("ids", [True, False])
def test_evaluation_through_servers_scores_alike_with_ids_and_with_texts(
    ids: bool, checkout: Path, embedded: Path, tiny_llama: Path, server: CompletionsServer
) -> None:
    server.ids = ids
    own = context(checkout, tiny_llama, engine=openai(server, stages=["evaluate"]))
    run_evaluate(own, "base", 0, "models/base")
    files = [root / "reports/evaluate/base-0" for root in (checkout, embedded)]
    items = [
        [
            (row["item_id"], row["score"], row["extracted"])
            for row in records(read_table(one / "items.parquet", "items"))
        ]
        for one in files
    ]
    assert items[0] == items[1]
    found, expected = (read_json(one / "report.json")["metrics"] for one in files)
    assert found["eval/drift/kl_neutral"] == expected["eval/drift/kl_neutral"]
    assert found["eval/turns/accuracy_greedy"] == expected["eval/turns/accuracy_greedy"]
    assert found["cost/rollout_turns"] == expected["cost/rollout_turns"]


def test_training_and_evaluation_through_a_server_of_our_own(
    checkout: Path, embedded: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = StandIn(checkout / ".vllm", monkeypatch, "serving")
    own = context(checkout, tiny_llama, engine={"kind": "vllm"})
    run_train(own, "all-turns", 0, "models/base", "all-turns")
    assert stand_in.is_gone()
    found, expected = (read_jsonl(root / "reports/train/all-turns-0/metrics.jsonl") for root in (checkout, embedded))
    assert len(found) == len(expected) == GRPO["steps"]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours["metrics"]["train/reward_mean"] == theirs["metrics"]["train/reward_mean"]
    assert read_json(checkout / "reports/train/all-turns-0/report.json")["engine"] == "vllm"
    assert not any((checkout / "scratch/vllm-weights").glob("*/model.safetensors"))
    (stand_in.folder / "pids").unlink()
    run_evaluate(own, "all-turns", 0, "models/all-turns/0")  # an adapter on the base policy
    assert stand_in.is_gone()
    found, expected = (
        read_json(root / "reports/evaluate/all-turns-0/report.json")["metrics"] for root in (checkout, embedded)
    )
    assert found["eval/turns/accuracy_t1"] == expected["eval/turns/accuracy_t1"]
    assert found["eval/drift/kl_neutral"] == pytest.approx(expected["eval/drift/kl_neutral"], abs=1e-6)


def test_without_vllm_a_stage_says_how_to_get_it(
    checkout: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIVOTRL_VLLM", raising=False)
    with pytest.raises(ConfigError, match=r"`make vllm` builds one"):
        run_profile(context(checkout, tiny_llama, engine={"kind": "vllm"}), "base", "models/base")

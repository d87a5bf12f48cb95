"""The chain of stages on a tiny model: every promised file is there, and two checkouts end in the same bytes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.config.graph import derive_graph
from pivotrl_core.config.loading import parse_config
from pivotrl_core.config.tree import Config
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import load_tokenizer
from pivotrl_core.engines.protocol import FinishReason, Request, Sample, TokenCount
from pivotrl_core.errors import ConfigError, DataError, NoPivotsError
from pivotrl_core.files import file_digest, read_json, read_jsonl, write_json
from pivotrl_core.pivots.pool import read_pool
from pivotrl_core.stages.candidates import run_candidates
from pivotrl_core.stages.compare import run_compare
from pivotrl_core.stages.context import StageContext
from pivotrl_core.stages.evaluate import run_evaluate
from pivotrl_core.stages.models import policy_digest, source_model
from pivotrl_core.stages.profile import make_profiler, run_profile, training_candidates, write_profile_of
from pivotrl_core.stages.select import run_select
from pivotrl_core.stages.train import run_train
from pivotrl_core.stages.warmup import run_warmup
from pivotrl_core.trajectories.formatting import format_turn
from pivotrl_core.types import Message, Role, ToolCall
from tasks.report.definitions import SECTIONS
from tasks.sources import model_identity
from tests.tiny_models import tiny_model, tiny_tokenizer
from tests.toy_training import pull_toys, toy_trajectories

pytestmark = pytest.mark.usefixtures("deterministic")

LOW_RANK = {"kind": "lora", "rank": 4, "alpha": 8.0}
GRPO = {
    "method": "grpo", "steps": 2, "prompts_per_step": 2, "group_size": 2, "max_tokens": 4, "parameters": LOW_RANK,
}  # fmt: skip


def configuration(model: Path, **sections: Any) -> Config:
    plain = {
        "model": {"kind": "folder", "path": str(model)},
        "source": {"kind": "folder", "path": "unused: the data are pulled already"},
        "data": {"validation_share": 0.3, "test_share": 0.3},
        "compute": {"threads": 1, "dtype": "float32"},
        "warmup": {"epochs": 1, "batch_trajectories": 2},
        "profile": {"samples": 2, "max_tokens": 4, "block_trajectories": 3},
        "evaluate": {"max_tokens": 4, "turns": 4, "items": 2, "drift_texts": 2, "benchmarks": ["ifbench", "mmlu-pro"]},
        "arms": {
            "base": {},
            "sft": {
                "select": {"rule": "all"},
                "train": {"method": "sft", "epochs": 1, "batch_trajectories": 2, "parameters": LOW_RANK},
            },
            "all-turns": {"select": {"rule": "all"}, "train": GRPO},
            "sft-all": {"select": {"rule": "all"}, "train": GRPO | {"start": "sft"}},
        },
    }
    return parse_config(plain | sections)


def run_chain(root: Path, config: Config) -> StageContext:
    """Every stage in the order of the graph."""
    context = StageContext(config, root, root / "scratch", root / "store", root / "cache", root)
    graph = derive_graph(config)
    run_warmup(context)
    run_candidates(context)

    def policy_of(key: str) -> None:
        train = graph["trains"][key]
        profile = graph["selects"][train["pool"]]["profile"]
        run_profile(context, profile, graph["profiles"][profile]["policy"])
        run_select(context, train["pool"], train["arm"], profile)
        stage = StageContext(config, root, root / "scratch" / key, root / "store", root / "cache", root)
        run_train(stage, train["arm"], train["seed"], train["start"], train["pool"])

    for key in graph["trains"]:
        policy_of(key)
    for key, entry in graph["evaluates"].items():
        stage = StageContext(config, root, root / f"scratch/evaluate-{key}", root / "store", root / "cache", root)
        run_evaluate(stage, entry["arm"], entry["seed"], entry["policy"])
    run_compare(context)
    return context


def outputs(root: Path) -> dict[str, str]:
    """Digests of everything a run leaves, but for wall-clock figures."""
    files = [path for folder in ("data", "models", "reports") for path in (root / folder).rglob("*") if path.is_file()]
    names = {path.relative_to(root).as_posix(): file_digest(path) for path in files}
    return {name: digest for name, digest in names.items() if not name.startswith("reports/timings/")}


@pytest.fixture(scope="module")
def chain(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("first")
    pull_toys(root, toy_trajectories(20))
    run_chain(root, configuration(tiny_llama))
    return root


def test_another_checkout_ends_in_the_same_bytes(chain: Path, tiny_llama: Path, tmp_path: Path) -> None:
    pull_toys(tmp_path / "another/place", toy_trajectories(20))
    run_chain(tmp_path / "another/place", configuration(tiny_llama))
    assert outputs(tmp_path / "another/place") == outputs(chain)


def test_a_policy_is_another_with_another_tokenizer(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "vocab.json", "merges.txt", "tokenizer.model"):
        (tmp_path / name).write_text("one")
    digests = {policy_digest(tmp_path, tmp_path)}
    for name in ("merges.txt", "tokenizer.model"):
        (tmp_path / name).write_text("two")
        digests.add(policy_digest(tmp_path, tmp_path))
    assert len(digests) == 3


def test_drift_on_no_text_is_no_number(chain: Path, tiny_llama: Path, tmp_path: Path) -> None:
    evaluate = {"max_tokens": 4, "turns": 4, "items": 2, "drift_texts": 2, "benchmarks": []}
    shutil.copytree(chain, tmp_path / "chain")
    root = tmp_path / "chain"
    context = StageContext(
        configuration(tiny_llama, evaluate=evaluate), root, root / "scratch", root / "store", root / "cache", root
    )
    run_evaluate(context, "base", 0, "models/base")
    metrics = read_json(root / "reports/evaluate/base-0/report.json")["metrics"]
    assert "eval/drift/kl_neutral" in metrics
    assert "eval/drift/kl_instructions" not in metrics


def test_the_kl_of_a_training_that_goes_on_from_a_descendant_is_to_the_profiled_policy(
    chain: Path, tiny_llama: Path, tmp_path: Path
) -> None:
    shutil.copytree(chain, tmp_path / "chain")
    root = tmp_path / "chain"
    anchored = {"select": {"rule": "all"}, "train": GRPO | {"kl": {"weight": 0.1}}}
    config = configuration(tiny_llama, arms={"base": {}, "all-turns": anchored})
    first = {}
    for start in ("models/base", "models/sft/0"):
        context = StageContext(config, root, root / "fresh" / start, root / "store", root / "cache", root)
        run_train(context, "all-turns", 0, start, "all-turns")
        first[start] = read_jsonl(root / "reports/train/all-turns-0/metrics.jsonl")[0]["metrics"]["train/kl"]
    assert first["models/base"] == pytest.approx(0.0, abs=1e-7)
    assert first["models/sft/0"] > 1e-6


def test_a_training_without_a_lesson_says_that_it_trained_on_no_tokens(
    chain: Path, tiny_llama: Path, tmp_path: Path
) -> None:
    shutil.copytree(chain, tmp_path / "chain")
    root = tmp_path / "chain"
    exact = {"select": {"rule": "all"}, "train": GRPO | {"reward": "exact"}}  # which nothing earns here
    config = configuration(tiny_llama, arms={"base": {}, "all-turns": exact})
    context = StageContext(config, root, root / "fresh", root / "store", root / "cache", root)
    run_train(context, "all-turns", 0, "models/base", "all-turns")
    metrics = read_json(root / "reports/train/all-turns-0/report.json")["metrics"]
    assert metrics["train/reward_mean"] == 0.0
    assert metrics["cost/trained_tokens"] == 0


def with_profile(chain: Path, model: Path, root: Path, profile: dict[str, Any], **select: Any) -> StageContext:
    """The chain's checkout with another profile, and an arm `other` that selects by `select`."""
    shutil.copytree(chain, root)
    profile = {"samples": 2, "max_tokens": 4, "block_trajectories": 3, **profile}
    arms = {"base": {}, "other": {"select": select, "train": GRPO}}
    config = configuration(model, profile=profile, arms=arms)
    return StageContext(config, root, root / "scratch", root / "store", root / "cache", root)


@pytest.mark.parametrize("how", [{"curtail": True}, {"staged": {"waves": [1]}}], ids=["curtailed", "staged"])
def test_a_shortened_profile_says_what_it_left_out_and_serves_the_rules_it_was_made_for(
    how: dict[str, Any], chain: Path, tiny_llama: Path, tmp_path: Path
) -> None:
    curtailed = {**how, "decides_for": [{"rule": "all"}]}
    context = with_profile(chain, tiny_llama, tmp_path / "a", curtailed, rule="all")
    run_profile(context, "base", "models/base")
    run_select(context, "other", "other", "base")
    metrics = read_json(tmp_path / "a/data/profiles/base/report.json")["metrics"]
    assert (metrics["profile/saved_share"], metrics["profile/censored_share"]) == (0.5, 1.0)
    assert metrics["cost/rollout_turns"] == metrics["profile/candidates"]
    assert "profile/mean_reward" not in metrics  # a mean of censored means would be of nothing
    pool = read_json(tmp_path / "a/data/pools/other/report.json")
    assert pool["censored"] == pool["kept"] == metrics["profile/candidates"]
    assert pool["mean_reward_histogram"] is None
    assert all(pivot.censored for pivot in read_pool(tmp_path / "a/data/pools/other/pool.parquet"))
    other = with_profile(chain, tiny_llama, tmp_path / "b", curtailed, rule="sigma")
    run_profile(other, "base", "models/base")
    with pytest.raises(DataError, match=r"'sigma .*add the rule to profile\.decides_for"):
        run_select(other, "other", "other", "base")


class Scripted:
    """Writes the same text at every state."""

    version = "1"

    def __init__(self, ids: tuple[int, ...]) -> None:
        self.ids = ids
        self.count = TokenCount()

    def sample(self, requests: Sequence[Request], *_: Any) -> list[list[Sample]]:
        zeros = (0.0,) * len(self.ids)
        return [[Sample(self.ids, zeros, FinishReason.STOP) for _ in request.seeds] for request in requests]


def test_a_profile_of_a_model_that_writes_calls_in_the_other_format_names_the_setting(
    chain: Path, tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = with_profile(chain, tiny_llama, tmp_path / "a", {}, rule="pivots")
    renderer = ChatRenderer(load_tokenizer(tiny_llama, tiny_llama), "compact")
    call = Message(Role.ASSISTANT, tool_calls=(ToolCall("find", "{}"),))
    engine = Scripted((*renderer.encode(format_turn(call, "hermes")), renderer.eos_id))
    profiler = make_profiler(context, engine, renderer, tiny_llama)
    candidates = training_candidates(context)
    write_profile_of(context, profiler, candidates, tmp_path / "a/data/profiles/base", "profile")
    count = len(candidates) * profiler.samples
    said = f"{count} of {count} samples call tools in the format 'hermes' and count as failures: data.tool_format is"
    assert said in capsys.readouterr().out
    with pytest.raises(NoPivotsError, match=f"{count} of them calls in the other format: change data.tool_format"):
        run_select(context, "other", "other", "base")


def test_experts_that_no_sample_can_write_are_told(
    chain: Path, tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = with_profile(chain, tiny_llama, tmp_path / "a", {"max_tokens": 3}, rule="pivots")
    renderer = ChatRenderer(load_tokenizer(tiny_llama, tiny_llama), "compact")
    profiler = make_profiler(context, Scripted((renderer.eos_id,)), renderer, tiny_llama)
    candidates = training_candidates(context)
    long = sum(len(renderer.action_ids(candidate.expert)) > 3 for candidate in candidates)
    write_profile_of(context, profiler, candidates, tmp_path / "a/data/profiles/base", "profile")
    assert long > 0
    said = f"{long} of {len(candidates)} candidates have an expert whose action is longer than profile.max_tokens, 3"
    assert said in capsys.readouterr().out


def test_a_cut_for_a_domain_that_no_candidate_has_is_told(chain: Path, tiny_llama: Path, tmp_path: Path) -> None:
    rule = {"rule": "pivots", "lambda_by_domain": {"terminal": 0.4}}
    context = with_profile(chain, tiny_llama, tmp_path / "a", {}, **rule)
    with pytest.raises(ConfigError, match=r"arms\.other\.select\.lambda_by_domain: .*'terminal'; there are: tool"):
        run_select(context, "other", "other", "base")
    context = with_profile(chain, tiny_llama, tmp_path / "b", {"curtail": True, "decides_for": [rule]}, **rule)
    with pytest.raises(ConfigError, match=r"profile\.decides_for\.0\.lambda_by_domain: "):
        run_profile(context, "base", "models/base")


def test_every_metric_of_a_report_is_defined(chain: Path) -> None:
    defined = [definition.name for definitions in SECTIONS.values() for definition in definitions]
    patterns = [re.compile(re.sub(r"<\w+>", r"[\\w-]+", name)) for name in defined]
    reports = [*(chain / "data").rglob("report.json"), *(chain / "reports").rglob("report.json")]
    names = {name for path in reports for name in read_json(path).get("metrics", {})}
    assert len(names) > 20
    assert sorted(name for name in names if not any(pattern.fullmatch(name) for pattern in patterns)) == []


def test_every_stage_leaves_a_report_and_a_timing(chain: Path) -> None:
    names = [
        "reports/warmup", "data/candidates", "data/profiles/base", "data/profiles/sft-0", "data/pools/sft",
        "data/pools/sft-all-0", "reports/train/all-turns-0", "reports/train/sft-all-0", "reports/evaluate/base-0",
        "reports/evaluate/sft-all-0", "reports/compare",
    ]  # fmt: skip
    for name in names:
        report = read_json(chain / name / "report.json")
        assert report["schema_version"] == 1, name
        assert report["stage"] in name or report["stage"] in ("candidates", "profile", "select"), name
    timings = {path.stem for path in (chain / "reports/timings").glob("*.json")}
    assert {
        "warmup",
        "candidates",
        "profile-base",
        "select-sft",
        "train-sft-0",
        "evaluate-base-0",
        "compare",
    } <= timings
    timing = read_json(chain / "reports/timings/train-sft-0.json")
    assert timing["seconds"] > 0
    assert timing["machine"]["threads"] == 1


def test_a_broken_line_is_a_drop_with_its_place(chain: Path) -> None:
    from pivotrl_core.pivots.tables import read_table

    drops = read_table(chain / "data/candidates/drops.parquet", "drops")
    (row,) = drops[drops["kind"] == "row"].to_dict("records")
    assert row["place"] == "b.jsonl:1"
    reading = read_json(chain / "data/candidates/report.json")["reading"]
    assert (reading["read"], reading["kept"]) == (17, 16)


def test_files_without_a_row_are_named(tiny_llama: Path, tmp_path: Path) -> None:
    pull_toys(tmp_path, toy_trajectories(20))
    (tmp_path / "data/pulled/warmup/w.jsonl").write_text("")
    context = StageContext(configuration(tiny_llama), *[tmp_path] * 5)
    with pytest.raises(DataError, match=r"no trajectory row was read from .*warmup/w\.jsonl; give"):
        run_warmup(context)


def test_metrics_come_by_step_and_under_their_names(chain: Path) -> None:
    lines = read_jsonl(chain / "reports/train/all-turns-0/metrics.jsonl")
    assert [line["step"] for line in lines] == [0, 1]
    assert "train/reward_mean" in lines[0]["metrics"]
    metrics = read_json(chain / "reports/evaluate/all-turns-0/report.json")["metrics"]
    expected = {
        "eval/turns/accuracy_greedy", "eval/turns/accuracy_t1", "eval/ifbench-embedded/score",
        "eval/ifbench-embedded/parse_failure_rate", "eval/drift/kl_neutral", "eval/drift/kl_instructions",
        "eval/drift/kl_other_turns", "eval/drift/order_agreement", "eval/drift/reference_logprob_change",
        "cost/rollout_turns", "cost/prefilled_tokens", "cost/generated_tokens",
    }  # fmt: skip
    assert expected <= metrics.keys()


def test_the_base_policy_does_not_drift_from_itself_and_a_trained_one_does(chain: Path) -> None:
    def drift(arm: str) -> dict[str, float]:
        metrics = read_json(chain / f"reports/evaluate/{arm}-0/report.json")["metrics"]
        return {name: value for name, value in metrics.items() if name.startswith("eval/drift/kl_")}

    assert all(value == 0.0 for value in drift("base").values())
    assert all(value > 0.0 for value in drift("sft").values())


def test_a_killed_stage_carries_on_to_the_same_files(
    chain: Path, tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stages themselves, killed as their second step is told."""
    from pivotrl_core.stages import context as stage_context

    told = stage_context.MetricsFile.append

    def killed(self: Any, step: int, metrics: Any) -> None:
        told(self, step, metrics)
        if step == 1:
            raise KeyboardInterrupt

    config = configuration(tiny_llama)
    sections = config.model_dump(mode="json")
    for arm in ("sft", "all-turns"):
        sections["arms"][arm]["train"]["checkpoint_every"] = 1
    config = parse_config(sections)
    pull_toys(tmp_path, toy_trajectories(20))
    context = StageContext(config, tmp_path, tmp_path / "scratch", tmp_path / "store", tmp_path / "cache", tmp_path)
    run_warmup(context)
    run_candidates(context)
    run_profile(context, "base", "models/base")
    for arm in ("sft", "all-turns"):
        run_select(context, arm, arm, "base")
        stage = StageContext(
            config, tmp_path, tmp_path / "scratch" / arm, tmp_path / "store", tmp_path / "cache", tmp_path
        )
        with monkeypatch.context() as patch:
            patch.setattr(stage_context.MetricsFile, "append", killed)
            with pytest.raises(KeyboardInterrupt):
                run_train(stage, arm, 0, "models/base", arm)
        assert list((stage.scratch / "checkpoints").glob("step-*"))
        run_train(stage, arm, 0, "models/base", arm)
    own, undisturbed = outputs(tmp_path), outputs(chain)
    assert own == {name: undisturbed[name] for name in own}
    assert any(name.startswith("models/sft/0/") for name in own)


def test_without_warm_up_the_base_policy_is_a_pointer(tiny_llama: Path, tmp_path: Path) -> None:
    config = configuration(Path("mine"), warmup={"epochs": 0})
    pull_toys(tmp_path, toy_trajectories(20))
    pointers = []
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "mine").symlink_to(tiny_llama)
        context = replace(
            StageContext(config, tmp_path, tmp_path / "scratch", tmp_path / "store", tmp_path / "cache", tmp_path),
            checkout=tmp_path / place,
        )
        write_json(tmp_path / "data/pulled/model.json", model_identity(config.model, tmp_path / place))
        run_warmup(context)
        assert [path.name for path in (tmp_path / "models/base").iterdir()] == ["policy.json"]
        pointers.append((tmp_path / "models/base/policy.json").read_bytes())
    assert pointers[0] == pointers[1]  # so that a reproduction in another clone can come out equal
    # Another model in the same folder is another pointer: what depends on models/base must not be taken for current.
    assert json.loads(pointers[0])["digest"] == model_identity(configuration(tiny_llama).model, tmp_path)["digest"]
    run_candidates(context)
    run_profile(context, "base", "models/base")
    run_select(context, "sft", "sft", "base")
    run_train(context, "sft", 0, "models/base", "sft")
    run_evaluate(context, "sft", 0, "models/sft/0")
    assert read_json(tmp_path / "reports/evaluate/sft-0/report.json")["metrics"]["eval/drift/kl_neutral"] > 0.0


def test_a_relative_model_path_is_relative_to_the_checkout_wherever_a_stage_works(
    tiny_llama: Path, tmp_path: Path
) -> None:
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout/mine").symlink_to(tiny_llama)
    config = configuration(Path("mine"))
    worktree = tmp_path / "worktree"
    context = StageContext(config, worktree, worktree, worktree, worktree, tmp_path / "checkout")
    assert (source_model(context) / "config.json").is_file()


def test_a_mixture_of_experts_whose_template_opens_the_thinking_goes_through_all_stages(tmp_path: Path) -> None:
    model = tmp_path / "model"
    tiny_model("qwen3_moe").save_pretrained(model)
    template = (files("trl") / "chat_templates" / "qwen3_5_think.jinja").read_text(encoding="utf-8")  # Qwen's own
    tiny_tokenizer(template).save_pretrained(model)
    pull_toys(tmp_path, toy_trajectories(20))
    thinking = {"max_tokens": 4, "turns": 4, "items": 2, "drift_texts": 2, "benchmarks": ["ifbench"]}
    config = configuration(
        model,
        data={"validation_share": 0.3, "test_share": 0.3, "tool_format": "hermes"},
        evaluate=thinking | {"thinking_tokens": 8},
        compute={"threads": 2, "lanes": 2, "dtype": "float32"},
    )
    run_chain(tmp_path, config)
    metrics = read_json(tmp_path / "reports/evaluate/sft-all-0/report.json")["metrics"]
    assert metrics["eval/drift/kl_neutral"] > 0.0
    with pytest.raises(ConfigError, match=r"evaluate\.thinking_tokens"):
        run_chain(tmp_path, configuration(model, evaluate=thinking))

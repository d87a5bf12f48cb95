"""params.yaml: what ships loads, what is wrong is named with its key, and one number has one digest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pivotrl_core.config.arms import GRPOTrain, PivotRuleConfig, SFTTrain
from pivotrl_core.config.engine import OpenAIEngineConfig, VLLMEngineConfig
from pivotrl_core.config.graph import check_served, derive_graph, graph_text, write_graph
from pivotrl_core.config.loading import config_digest, load_config, parse_config
from pivotrl_core.config.stages import BENCHMARKS
from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError
from pivotrl_core.evaluation.benchmarks.registry import BENCHMARKS as REGISTERED

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = [ROOT / "params.yaml", *sorted((ROOT / "params").glob("*.yaml"))]
GRPO = {"method": "grpo"}
OPENAI = {"kind": "openai", "model": "policy"}
PIVOTS = {"rule": "pivots"}


def tree(**sections: Any) -> dict[str, Any]:
    return {"arms": {"base": {}}, **sections}


def with_train(**train: Any) -> dict[str, Any]:
    return tree(arms={"base": {}, "x": {"select": PIVOTS, "train": GRPO | train}})


def with_select(**select: Any) -> dict[str, Any]:
    return tree(arms={"base": {}, "x": {"select": select, "train": GRPO}})


def refused(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(values, "params.yaml")
    return str(caught.value)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_parameter_file_that_ships_loads(path: Path) -> None:
    config = load_config(path)
    assert "base" in config.arms
    derive_graph(config)


def test_the_demo_compares_base_sft_and_pivotrl() -> None:
    config = load_config(ROOT / "params.yaml")
    assert {"base", "sft", "pivotrl"} <= config.arms.keys()
    assert isinstance(config.arms["sft"].train, SFTTrain)
    assert isinstance(config.arms["pivotrl"].train, GRPOTrain)
    assert isinstance(config.arms["pivotrl"].select, PivotRuleConfig)


def test_the_papers_setting_is_the_papers() -> None:
    config = load_config(ROOT / "params/paper.yaml")
    train = config.arms["pivotrl"].train
    assert isinstance(train, GRPOTrain)
    assert (train.prompts_per_step, train.group_size, train.optimiser.learning_rate) == (64, 16, 1e-6)
    assert config.model.model_dump()["repo"] == "Qwen/Qwen3-30B-A3B-Thinking-2507"


def test_the_committed_graph_is_that_of_the_committed_parameters() -> None:
    text = (ROOT / "graph.yaml").read_text(encoding="utf-8")
    assert text == graph_text(load_config(ROOT / "params.yaml")), "run `pivotrl graph`"


@pytest.mark.parametrize(
    ("values", "key", "nearest"),
    [
        (tree(profle={}), "profle", "profile"),
        (tree(profile={"sampels": 4}), "profile.sampels", "samples"),
        (tree(source={"kind": "s3", "bukket": "x"}), "'source.bukket", "bucket"),
        (tree(model={"kind": "hub", "repo": "a/b", "revison": "c"}), "'model.revison", "revision"),
        (with_train(group_sise=8), ".train.group_sise", "group_size"),
        (with_train(optimiser={"learning_rat": 0.1}), "learning_rat", "learning_rate"),
        (with_train(parameters={"kind": "lora", "rnak": 8}), ".train.parameters.rnak", "rank"),
        (with_train(kl={"wieght": 0.1}), "wieght", "weight"),
        (with_select(rule="pivots", lamda_diff=0.4), "lamda_diff", "lambda_diff"),
        (with_select(rule="bootstrap", lambda_by_domain={}), "lambda_by_domain", "lambda_diff"),  # of another
    ],
)  # fmt: skip
def test_an_unknown_key_is_named_with_the_nearest_known_one(values: dict[str, Any], key: str, nearest: str) -> None:
    message = refused(values)
    (line,) = [line for line in message.splitlines() if "unknown key" in line]
    assert line.startswith("params.yaml: unknown key '")
    assert line.endswith(f"{key}'; did you mean '{nearest}'?")


def test_variables_of_a_template_are_none_of_the_pipelines_own() -> None:
    config = parse_config(tree(data={"chat_template_kwargs": {"enable_thinking": False, "date_string": "today"}}))
    assert config.data.chat_template_kwargs == {"enable_thinking": False, "date_string": "today"}
    message = refused(tree(data={"chat_template_kwargs": {"tools": "x", "enable_thinking": True}}))
    assert "'data.chat_template_kwargs': tools: set by the pipeline itself" in message


def test_benchmarks_are_known_before_anything_runs() -> None:
    assert parse_config(tree(evaluate={"benchmarks": ["aime25", "wmt24pp-embedded"]})).evaluate.benchmarks
    message = refused(tree(evaluate={"benchmarks": ["aime", "scicode", "mmlu"]}))
    assert "'evaluate.benchmarks': no benchmark is called aime, mmlu; known: ifbench" in message
    assert [f"{name}-embedded" for name in BENCHMARKS] == list(REGISTERED)


def test_a_section_without_its_kind_is_told_so() -> None:
    assert "'source': 'kind' is missing" in refused(tree(source={"path": "x"}))


def test_a_key_that_is_like_no_other_gets_no_hint_and_all_faults_are_told_at_once() -> None:
    message = refused(tree(xyzzy=1, profile={"samples": 1, "temperature": 0}))
    assert len(message.splitlines()) == 3
    assert "did you mean" not in message
    assert "'profile.samples': " in message
    assert "(found 1)" in message


@pytest.mark.parametrize(
    ("values", "key"),
    [
        (tree(profile={"samples": 1}), "profile.samples"),
        (tree(profile={"samples": 257}), "profile.samples"),
        (tree(profile={"temperature": 0.0}), "profile.temperature"),
        (tree(profile={"success_threshold": 1.1}), "profile.success_threshold"),
        (tree(data={"max_drop_share": -0.1}), "data.max_drop_share"),
        (tree(data={"max_state_tokens": 0}), "data.max_state_tokens"),
        (tree(data={"tool_format": "xml"}), "data.tool_format"),
        (tree(data={"validation_share": 0.5, "test_share": 0.5}), "nothing to train on"),
        (with_select(rule="adaptive-eta", low_share=0.3), "low_share is above high_share"),
        (with_select(rule="adaptive-eta", eta=0.0), "eta"),
        (with_select(rule="pivots", lambda_diff=1.2), "lambda_diff"),
        (with_select(rule="magic"), "select"),
        (tree(compute={"threads": 0}), "compute.threads"),
        (tree(compute={"dtype": "float16"}), "compute.dtype"),
        (tree(warmup={"epochs": -1}), "warmup.epochs"),
        (tree(warmup={"learning_rate": 0.0}), "warmup.learning_rate"),
        (tree(evaluate={"split": "train"}), "evaluate.split"),
        (tree(seeds=[]), "seeds"),
        (tree(model={"kind": "magic"}), "model"),
        (with_train(group_size=1), "group_size"),
        (with_train(steps=0), "steps"),
        (with_train(clip={"low": 1.0}), "clip.low"),
        (with_train(kl={"weight": -1.0}), "kl.weight"),
        (with_train(kl={"weight": float("inf")}), "kl.weight"),
        (with_train(optimiser={"learning_rate": float("nan")}), "optimiser.learning_rate"),
        (with_train(optimiser={"betas": [0.9, 1.0]}), "optimiser.betas"),
        (with_train(optimiser={"max_grad_norm": float("inf")}), "optimiser.max_grad_norm"),
        (with_train(loss="mean"), "loss"),
        (with_train(method="ppo"), "train"),
        (tree(tracking={"experiment": "bob's"}), "tracking.experiment"),
        (with_train(temperature=0.5, temperatures=[1.0]), "temperature does nothing beside temperatures"),
        (with_train(truncation="sequence"), "truncation does nothing without truncation_cap"),
        (with_train(rest_share=0.5), "rest_share does nothing without rest_passes"),
        (tree(arms={"base": {}, "Bad Name": {}}), "Bad Name"),
    ],
)
def test_a_value_out_of_bounds_is_named_with_its_key(values: dict[str, Any], key: str) -> None:
    message = refused(values)
    assert key in message
    assert "(found " in message


CHAIN = {
    "seeds": [0, 1],
    "arms": {
        "base": {},
        "sft": {"select": {"rule": "all"}, "train": {"method": "sft"}},
        "sft-pivotrl": {"select": PIVOTS, "train": GRPO | {"start": "sft"}},
    },
}


@pytest.mark.parametrize(
    ("arms", "fault"),
    [
        ({"x": {}}, "'base' is missing"),
        ({"base": {"select": PIVOTS, "train": GRPO}}, "only evaluated"),
        ({"base": {}, "x": {}}, "give both (only base has neither)"),
        ({"base": {}, "x": {"train": GRPO}}, "'select' and 'train' go together"),
        ({"base": {}, "x": {"select": PIVOTS}}, "'select' and 'train' go together"),
        ({"base": {}, "x": {"select": PIVOTS, "train": GRPO | {"start": "y"}}}, "'y' is no trained arm; one of ['x']"),
        ({"base": {}, "x": {"select": PIVOTS, "train": GRPO | {"start": "x"}}}, "does not start from base itself"),
        (CHAIN["arms"] | {"sft-pivotrl-0": {"select": PIVOTS, "train": GRPO}}, "a pool of arm 'sft-pivotrl' has this"),
    ],
)  # fmt: skip
def test_arms_that_do_not_fit_together_are_refused(arms: dict[str, Any], fault: str) -> None:
    assert fault in refused({"arms": arms})


LARGE, FULL = {"kind": "lora", "rank": 64}, {"kind": "full"}


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [({}, {}, True), ({}, LARGE, False), (LARGE, LARGE, True), (FULL, {}, False), ({}, FULL, True), (FULL, FULL, True)],
)
def test_an_adapter_goes_on_from_an_equal_one_only(first: dict[str, Any], second: dict[str, Any], fits: bool) -> None:
    sft = {"method": "sft"} | ({"parameters": first} if first else {})
    grpo = GRPO | {"start": "sft"} | ({"parameters": second} if second else {})
    arms = {
        "base": {}, "sft": {"select": PIVOTS, "train": sft}, "sft-pivotrl": {"select": PIVOTS, "train": grpo},
    }  # fmt: skip
    if fits:
        parse_config({"arms": arms})
    else:
        assert "arms.sft-pivotrl.train.parameters" in refused({"arms": arms})


def test_a_seed_stands_once() -> None:
    assert "names one twice" in refused(tree(seeds=[0, 1, 0]))


NUMBERS = ("1e-5", "1.0e-5", "0.00001", "1E-05", "10.0e-6")


def write(path: Path, rate: str) -> Config:
    path.write_text(f"arms: {{base: {{}}}}\nwarmup: {{learning_rate: {rate}}}\n", encoding="utf-8")
    return load_config(path)


def test_a_number_is_one_number_and_one_digest_however_it_is_written(tmp_path: Path) -> None:
    configs = [write(tmp_path / "params.yaml", rate) for rate in NUMBERS]
    assert {config.warmup.learning_rate for config in configs} == {1e-5}
    assert len({config_digest(config) for config in configs}) == 1
    assert config_digest(write(tmp_path / "params.yaml", "2e-5")) != config_digest(configs[0])


def test_a_default_that_is_written_out_is_the_same_configuration() -> None:
    plain, full = parse_config(tree()), parse_config(tree(profile={"samples": 8, "temperature": 1}))
    assert config_digest(plain) == config_digest(full)
    assert parse_config(yaml.safe_load(yaml.safe_dump(plain.model_dump(mode="json")))) == plain


@pytest.mark.parametrize(
    ("text", "fault"),
    [("- a\n- b\n", "expected a mapping"), ("", "expected a mapping"), ("a: [1\n", "not readable as YAML"),
     ("a: 1\na: 2\n", "not readable as YAML")],
)  # fmt: skip
def test_a_file_that_is_no_mapping_is_named(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=fault) as caught:
        load_config(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_says_where_to_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not found; run from the project's root"):
        load_config(tmp_path / "params.yaml")


def test_an_arm_that_starts_from_another_has_a_profile_and_a_pool_of_each_seed() -> None:
    graph = derive_graph(parse_config(CHAIN))
    assert graph["profiles"] == {
        "base": {"policy": "models/base"}, "sft-0": {"policy": "models/sft/0"}, "sft-1": {"policy": "models/sft/1"},
    }  # fmt: skip
    assert graph["selects"] == {
        "sft": {"arm": "sft", "profile": "base"},
        "sft-pivotrl-0": {"arm": "sft-pivotrl", "profile": "sft-0"},
        "sft-pivotrl-1": {"arm": "sft-pivotrl", "profile": "sft-1"},
    }
    assert graph["trains"]["sft-pivotrl-1"] == {
        "arm": "sft-pivotrl", "seed": 1, "start": "models/sft/1", "pool": "sft-pivotrl-1",
        "turns": "data/pools/sft-pivotrl-1", "sampling": "arms.sft-pivotrl.train",
    }  # fmt: skip
    assert list(graph["evaluates"]) == ["base-0", "base-1", "sft-0", "sft-1", "sft-pivotrl-0", "sft-pivotrl-1"]


def test_the_graph_is_written_only_where_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "graph.yaml"
    assert write_graph(parse_config(CHAIN), path)
    assert not write_graph(parse_config(CHAIN), path)
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == derive_graph(parse_config(CHAIN))
    assert write_graph(parse_config(tree()), path)


def test_the_engine_is_the_model_in_the_process_unless_another_is_asked_for() -> None:
    assert parse_config(tree()).engine.kind == "transformers"
    vllm = parse_config(tree(engine={"kind": "vllm"})).engine
    assert isinstance(vllm, VLLMEngineConfig)
    assert vllm.stages == ("profile", "train", "evaluate")
    openai = parse_config(tree(engine=OPENAI | {"endpoints": ["http://127.0.0.1:8000/v1/"]})).engine
    assert isinstance(openai, OpenAIEngineConfig)
    assert (openai.endpoints, openai.stages) == (("http://127.0.0.1:8000/v1",), ("profile",))


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"stages": ["profile", "evaluate"]}, r"'evaluate' samples from models/pivotrl/0 too; leave 'evaluate' out"),
        ({"serves": "models/pivotrl/0"}, "'profile' samples from models/base too"),
        ({"serves": "models/base/"}, ""),
    ],
)
def test_servers_that_serve_another_policy_are_refused_before_anything_runs(engine, words):
    arms = {"base": {}, "pivotrl": {"select": PIVOTS, "train": GRPO}}
    config = parse_config(tree(engine=OPENAI | engine, seeds=[0], arms=arms))
    if not words:
        check_served(config)
        return
    with pytest.raises(ConfigError, match=words):
        check_served(config)


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"kind": "sglang"}, "'engine'.*'transformers', 'vllm', 'openai'"),
        ({"kind": "vllm", "concurrence": 3}, "'engine.concurrence'; did you mean 'concurrency'"),
        ({"kind": "vllm", "stages": []}, "'engine.stages'"),
        (OPENAI | {"model": ""}, "'engine.model'"),
        (OPENAI | {"endpoints": ["127.0.0.1:8000"]}, "give one such as http://127.0.0.1:8000/v1"),
        (OPENAI | {"endpoints": ["http://localhost:port/v1"]}, "no address of a server"),
        (OPENAI | {"endpoints": ["http://a b/v1"]}, "no address of a server"),
        (OPENAI | {"endpoints": ["http://[bad/v1"]}, "no address of a server"),
        (OPENAI | {"stages": ["train"]}, "leave train out, or take kind: vllm"),
        (OPENAI | {"key_variable": "sk-123 456"}, "'engine.key_variable'"),
    ],
)
def test_a_wrong_engine_is_named_with_its_key_and_a_remedy(engine: dict[str, Any], words: str) -> None:
    assert re.search(words, refused(tree(engine=engine)))


def test_a_password_in_an_endpoint_is_refused_and_not_repeated() -> None:
    said = refused(tree(engine=OPENAI | {"endpoints": ["https://me:hid-den@host/v1"]}))
    assert "the key belongs into what key_variable names" in said
    assert "hid-den" not in said


TURNS = {"select": {"rule": "all"}, "train": {"method": "grpo"}}
ROUNDS = {"select": {"rule": "all"}, "train": {"method": "grpo", "reprofile": {}}}


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"compute": {"processes": 0}}, "compute.processes"),
        ({"compute": {"offload": True}}, "offload: .* set processes to 2 or more"),
        ({"compute": {"processes": 2, "collective_minutes": 0}}, "compute.collective_minutes"),
        (
            {"compute": {"processes": 2}, "arms": {"base": {}, "rounds": ROUNDS}},
            "arms.rounds.train: reprofile profiles in one process; or set compute.processes to 1",
        ),
        (
            {"compute": {"processes": 2}, "engine": {"kind": "vllm"}, "arms": {"base": {}, "pivotrl": TURNS}},
            "arms.pivotrl.train: engine.kind vllm follows .*: leave train out of engine.stages",
        ),
    ],
)
def test_what_several_processes_cannot_do_is_refused(sections: dict[str, Any], words: str) -> None:
    assert re.search(words, refused(tree(**sections)))


def test_several_processes_train_every_method_and_sample_elsewhere_before() -> None:
    engine = {"kind": "vllm", "stages": ["profile", "evaluate"]}
    arms = {"base": {}, "e2e": {"select": {"rule": "all"}, "train": {"method": "e2e"}}}
    compute = {"processes": 2, "offload": True}
    assert parse_config(tree(compute=compute, engine=engine, arms=arms)).compute.processes == 2

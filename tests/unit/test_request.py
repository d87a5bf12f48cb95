"""What a command asks for beyond params.yaml is put into plain values, and wrong requests are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from flows.ablation import sweep_arms
from flows.launch import make_request
from flows.request import (
    NO_WARMUP,
    Request,
    model_settings,
    parse_setting,
    read_values,
    trajectory_settings,
    values_text,
)
from flows.sections import section
from flows.session import load_request
from flows.sweep import sweep_request, with_arms
from pivotrl_core.config.loading import config_digest, parse_config
from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError

PARAMS = Path(__file__).resolve().parents[2] / "params.yaml"


def test_a_setting_is_a_dotted_key_and_a_yaml_value() -> None:
    assert parse_setting("profile.samples=16") == ("profile.samples", 16)
    assert parse_setting("warmup.learning_rate=1e-5") == ("warmup.learning_rate", 0.00001)
    assert parse_setting("seeds=[0, 1]") == ("seeds", [0, 1])
    with pytest.raises(ConfigError, match="expected key=value"):
        parse_setting("profile.samples")


def test_a_request_changes_a_copy_and_travels_as_plain_values() -> None:
    values = {"profile": {"samples": 8}}
    request = Request({"profile.samples": 4, "compute.threads": 1})
    assert request.apply(values) == {"profile": {"samples": 4}, "compute": {"threads": 1}}
    assert values == {"profile": {"samples": 8}}
    assert Request.from_json(request.to_json()) == request
    assert not request.is_plain
    assert Request().is_plain
    with pytest.raises(ConfigError, match="unknown part 'armz'"):
        Request.from_json({"armz": []})


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"arms": "sft"}, "arms: expected a list of names, found 'sft'"),
        ({"arms": ["sft", 1]}, "arms: expected a list of names, found 1 in it"),
        ({"quick": "false"}, "quick: expected true or false, found 'false'"),
        ({"settings": [["a", 1]]}, "settings: expected values by dotted key"),
        ({"params": None}, "params: expected the path of a parameter file, found None"),
        ({"sweep": True}, "sweep: expected lambdas and controls, found True"),
        ({"sweep": {"lambdas": 0.4}}, r"sweep: lambdas: expected a list of numbers, found 0\.4"),
        ({"sweep": {"lambdas": ["0.4"]}}, r"sweep: lambdas: expected numbers, found '0\.4' in it"),
        ({"sweep": {"controls": 0}}, "sweep: controls: expected true or false, found 0"),
        ("quick", "request: expected parts and their values, found 'quick'"),
    ],
)
def test_a_part_of_a_request_of_the_wrong_type_is_named(value: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Request.from_json(value)


def test_a_setting_of_one_arm_leaves_those_alone_that_share_its_section_by_an_anchor() -> None:
    shared = {"method": "grpo", "steps": 40, "kl": {"weight": 0.0}}
    values = {"arms": {"a": {"train": shared}, "b": {"train": shared}}, "source": {"kind": "embedded"}}
    out = Request({"arms.a.train.steps": 5, "arms.a.train.kl.weight": 0.1}).apply(values)
    assert out["arms"]["a"]["train"] == {"method": "grpo", "steps": 5, "kl": {"weight": 0.1}}
    assert out["arms"]["b"]["train"] == {"method": "grpo", "steps": 40, "kl": {"weight": 0.0}}


def test_chosen_arms_bring_base_and_what_they_start_from() -> None:
    arms = {"base": {}, "sft": {"train": {"method": "sft"}}, "x": {"train": {"start": "sft"}}, "y": {}}
    assert list(Request(arms=("x",)).apply({"arms": arms})["arms"]) == ["base", "sft", "x"]
    with pytest.raises(ConfigError, match="no such arm; there are: base, sft, x, y"):
        Request(arms=("z",)).apply({"arms": arms})


def test_a_quick_request_of_the_shipped_parameters_is_valid_and_smaller() -> None:
    values = read_values(PARAMS)
    quick = parse_config(Request(quick=True).apply(values))
    full = parse_config(values)
    assert quick.evaluate.episodes < full.evaluate.episodes
    assert quick.arms.keys() == full.arms.keys()


def test_a_quick_request_of_ones_own_trajectories_is_valid(tmp_path: Path) -> None:
    settings = trajectory_settings(tmp_path)
    config = parse_config(Request(settings, quick=True).apply(read_values(PARAMS)))
    assert config.source.kind == "folder"
    assert config.warmup.epochs == 0


def _folder(root: Path, *files: str) -> Path:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}\n")
    return root / files[0] if len(files) == 1 else root


def test_there_is_no_warm_up_without_trajectories_for_it(tmp_path: Path) -> None:
    alone, both = _folder(tmp_path / "a", "x.jsonl"), _folder(tmp_path / "b", "x.jsonl", "warmup/y.jsonl")
    values = read_values(PARAMS)
    out, lines = make_request(trajectories=alone).fit(values)
    assert out["source"] == {"kind": "folder", "path": str(alone)}
    assert out["warmup"]["epochs"] == 0
    assert len(lines) == 1
    assert lines[0].startswith("warmup.epochs: 0")
    for request in (
        make_request(trajectories=both),
        make_request(trajectories=alone, settings=["warmup.epochs=1"]),
        make_request(trajectories=alone, settings=[f"source.warmup_path={both / 'warmup'}"]),
    ):
        out, lines = request.fit(values)
        assert (out["warmup"]["epochs"], lines) == (1, [])


def test_arms_that_play_episodes_are_left_out_where_there_is_no_environment(tmp_path: Path) -> None:
    base = make_request(trajectories=_folder(tmp_path, "x.jsonl"), settings=["warmup.epochs=1"])
    request = sweep_request(base)
    config, lines = request.fit(read_values(PARAMS))
    arms = parse_config(config).arms
    assert "e2e" not in arms
    assert "sft-pivotrl" in arms
    assert lines == ["arms left out, because source.environment names none to play in: e2e"]
    swept = sweep_request(Request()).apply(read_values(PARAMS))
    assert "e2e" in swept["arms"]  # the embedded domain has an environment
    plain, lines = Request().fit({**swept, "source": {"kind": "folder", "path": "x"}})  # as a deployment asks
    assert list(plain["arms"]) == [name for name in swept["arms"] if name != "e2e"]
    played, none = Request().fit({**swept, "source": {"kind": "folder", "path": "x", "environment": "helpdesk"}})
    assert (list(played["arms"]), none) == (list(swept["arms"]), [])
    assert lines == ["arms left out, because source.environment names none to play in: e2e"]


def test_a_sweep_can_be_quick_and_chooses_among_its_own_arms() -> None:
    request = sweep_request(Request(arms=("lambda-04", "e2e"), quick=True))
    config = parse_config(request.apply(read_values(PARAMS)))
    assert list(config.arms) == ["base", "lambda-04", "e2e"]
    assert config.arms["e2e"].model_dump()["train"]["steps"] == 3


def test_a_sweep_compares_its_arms_at_the_settings_that_were_asked_for() -> None:
    settings = ["arms.pivotrl.train.steps=5", "arms.sft.train.epochs=7", "arms.lambda-08.train.steps=9"]
    own = read_values(PARAMS)["arms"]["pivotrl"]["train"]["group_size"]
    for quick, group in ((False, own), (True, 4)):
        base = make_request(settings=settings, quick=quick)
        arms = parse_config(sweep_request(base, seeds=[0, 1]).apply(read_values(PARAMS))).arms
        trains = {name: arm.train.model_dump() for name, arm in arms.items() if arm.train is not None}
        assert trains.pop("sft")["epochs"] == 7
        steps = {name: train["steps"] for name, train in trains.items()}
        assert steps.pop("lambda-08") == 9  # named itself, and a sweep's own arm
        assert set(steps) >= {"pivotrl", "lambda-04", "random-turns", "all-turns", "exact-reward", "sft-pivotrl", "e2e"}
        assert set(steps.values()) == {5}
        assert {train["group_size"] for train in trains.values()} == {group}


def test_a_sweep_starts_from_the_arms_and_seeds_that_were_asked_for() -> None:
    own = "arms={base: {}, pivotrl: {select: {rule: pivots}, train: {method: grpo, steps: 2}}}"
    request = sweep_request(make_request(settings=[own]), [0.4], [3, 4], controls=False)
    config = parse_config(request.apply(read_values(PARAMS)))
    assert (list(config.arms), config.seeds) == (["base", "pivotrl", "lambda-04"], (3, 4))
    assert Request.from_json(request.to_json()) == request


def test_a_deployed_sweep_without_a_request_has_the_arms_of_the_command() -> None:
    values = read_values(PARAMS)
    deployed = with_arms(Request.from_json({}))
    assert deployed.apply(values) == sweep_request(Request()).apply(values)
    assert not deployed.is_plain
    named = Request.from_json({"sweep": {"lambdas": [0.3], "controls": False}})
    assert list(with_arms(named).apply(values)["arms"]) == ["base", "sft", "pivotrl", "lambda-03"]
    brought = Request({"arms": values["arms"]})
    assert with_arms(brought) == brought
    with pytest.raises(ConfigError, match="unknown part 'lambda'"):
        Request.from_json({"sweep": {"lambda": [0.3]}})


def test_a_setting_of_an_arm_that_is_left_out_or_misspelt_is_refused() -> None:
    request = make_request(arms="sft", settings=["arms.pivotlr.train.steps=5"])
    with pytest.raises(ConfigError, match=r"arms\.pivotlr\.train\.steps: --arms leaves this arm out"):
        request.apply(read_values(PARAMS))


def test_another_parameter_file_is_taken_in_a_worktree_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    text = "arms: {base: {}, pivotrl: {select: {rule: pivots}, train: {method: grpo}}}\nprofile: {samples: 5}\n"
    file.write_text(text)
    request = make_request(settings=["profile.max_tokens=9"], params=file)
    assert not request.is_plain
    assert Request.from_json(request.to_json()) == request
    _, config = load_request(PARAMS.parent, request)
    assert (config.profile.samples, config.profile.max_tokens, list(config.arms)) == (5, 9, ["base", "pivotrl"])
    _, swept = load_request(PARAMS.parent, sweep_request(request, [0.4]))
    assert swept.profile.samples == 5
    assert "lambda-04" in swept.arms
    _, paper = load_request(PARAMS.parent, Request(params="params/paper.yaml"))  # relative to the checkout
    assert paper.model.kind == "hub"
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read"):
        load_request(PARAMS.parent, Request(params="none.yaml"))


def test_a_sweep_of_the_shipped_parameters_is_valid_and_has_every_arm_of_the_comparison() -> None:
    values = read_values(PARAMS)
    arms = sweep_arms(values["arms"], [0.2, values["arms"]["pivotrl"]["select"]["lambda_diff"]])
    config = parse_config({**values, "arms": arms})
    assert set(config.arms) >= {
        "base", "sft", "pivotrl", "lambda-02", "random-turns", "all-turns", "exact-reward", "sft-pivotrl", "e2e",
    }  # fmt: skip
    assert [name for name in config.arms if name.startswith("lambda")] == ["lambda-02"]  # the other is pivotrl itself


def test_controls_share_whatever_the_pattern_sets_and_they_can_have() -> None:
    values = read_values(PARAMS)
    pattern = values["arms"]["pivotrl"]
    pattern["train"] |= {"rest_passes": 2, "replay": True, "entropy_weight": 0.01}
    pattern["select"] |= {"inclusive": True, "lambda_by_domain": {"tool": 0.5}}
    arms = parse_config({**values, "arms": sweep_arms(values["arms"], [])}).arms
    own, control, e2e = (arms[name] for name in ("pivotrl", "random-turns", "e2e"))
    assert own.select is not None
    assert control.select is not None
    assert e2e.train is not None
    assert control.select.model_dump(exclude={"rule", "seed"}) == own.select.model_dump(exclude={"rule"})
    assert control.train == own.train
    assert e2e.train.model_dump()["entropy_weight"] == 0.01


def test_written_parameters_read_back_as_the_same_configuration(tmp_path: Path) -> None:
    values = read_values(PARAMS)
    path = tmp_path / "params.yaml"
    path.write_text(values_text(values))
    assert config_digest(parse_config(read_values(path))) == config_digest(parse_config(values))


def test_a_model_is_the_bundled_one_a_folder_or_a_pinned_hub_id(tmp_path: Path) -> None:
    assert model_settings("bundled") == {"model": {"kind": "bundled"}}
    assert model_settings(str(tmp_path)) == {"model": {"kind": "folder", "path": str(tmp_path)}}
    assert model_settings("a/b@c0ffee")["model"] == {"kind": "hub", "repo": "a/b", "revision": "c0ffee"}
    with pytest.raises(ConfigError, match="@revision"):
        model_settings("a/b")


def test_every_value_of_lambda_has_an_arm_of_its_own() -> None:
    pattern = {"pivotrl": {"select": {"rule": "pivots", "lambda_diff": 0.6}, "train": {"method": "grpo"}}}
    arms = sweep_arms(pattern, [0.2, 0.4, 0.45, 0.05, 1], controls=False)
    cuts = {name: arm["select"]["lambda_diff"] for name, arm in arms.items() if name.startswith("lambda-")}
    assert cuts == {"lambda-02": 0.2, "lambda-04": 0.4, "lambda-045": 0.45, "lambda-005": 0.05, "lambda-10": 1}


@pytest.mark.parametrize(
    "values",
    [{"arms": [1]}, {"arms": {"pivotrl": 5}}, {"arms": {"pivotrl": {"train": 5}}}, {"source": "x"}, {"warmup": 5}],
)
@pytest.mark.parametrize(
    "request_", [Request(quick=True), Request({"compute.threads": 1, "warmup.epochs": 0}), Request(arms=("pivotrl",))]
)
def test_a_parameter_file_of_the_wrong_shape_is_a_clear_error(values: dict[str, object], request_: Request) -> None:
    with pytest.raises(ConfigError):
        parse_config(request_.apply(values))
    with pytest.raises(ConfigError):
        sweep_arms(section(values, "arms"))


def test_ones_own_trajectories_are_a_file_a_folder_or_a_pattern(tmp_path: Path) -> None:
    for name in ("mine/a.jsonl", "mine/warmup/w.jsonl.zst", "other/b.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def asked(place: str) -> tuple[str, bool]:
        settings = trajectory_settings(tmp_path / place)
        return settings["source"]["path"].removeprefix(f"{tmp_path}/"), NO_WARMUP in settings

    assert asked("mine") == ("mine", False)
    assert asked("other") == ("other", True)
    assert asked("mine/a.jsonl") == ("mine/a.jsonl", True)
    assert asked("*/*.jsonl") == ("*/*.jsonl", True)
    for place in ("none", "mine/*.traj"):
        with pytest.raises(ConfigError, match="no such file or folder"):
            trajectory_settings(tmp_path / place)


def _curtailed(settings: Mapping[str, Any] = MappingProxyType({}), arms: tuple[str, ...] = ()) -> Config:
    return parse_config(Request(settings, arms, curtail=True).apply(read_values(PARAMS)), "params.yaml")


def test_a_curtailed_request_decides_for_the_rules_of_its_arms() -> None:
    config = _curtailed()
    assert config.profile.curtail
    assert [rule.rule for rule in config.profile.decides_for] == ["all"]
    assert [rule.rule for rule in config.profile.complete_for] == ["pivots"]  # the arm replays what it finds
    plain = _curtailed({"arms.pivotrl.train.replay": False})
    assert [rule.rule for rule in plain.profile.decides_for] == ["all", "pivots"]
    assert plain.profile.complete_for == ()
    few = _curtailed(arms=("sft",))
    assert [rule.rule for rule in few.profile.decides_for] == ["all"]


@pytest.mark.parametrize(
    "settings",
    [
        {"profile.curtail": False},
        {"arms.pivotrl.select": {"rule": "random"}},
        {"arms.pivotrl.select": {"rule": "adaptive-eta"}},
    ],
    ids=["said otherwise", "replay of random turns", "adaptive"],
)
def test_a_curtailed_request_leaves_alone_what_needs_all_samples(settings: dict[str, Any]) -> None:
    assert not _curtailed(settings).profile.curtail


@pytest.mark.parametrize("curtail", [False, True], ids=["by day", "by night"])
@pytest.mark.parametrize("name", sorted(path.name for path in (PARAMS.parent / "params").glob("*.yaml")))
def test_every_shipped_parameter_file_is_valid_by_day_and_by_night(name: str, curtail: bool) -> None:
    values = read_values(PARAMS.parent / "params" / name)
    assert parse_config(Request(curtail=curtail).apply(values), name).arms


def test_an_arm_that_profiles_again_needs_its_rule_among_those_that_a_short_profile_decides() -> None:
    values = Request(curtail=True).apply(read_values(PARAMS.parent / "params/rounds.yaml"))
    values["profile"]["complete_for"] = []
    values["profile"]["decides_for"] = [{"rule": "all"}]
    with pytest.raises(ConfigError, match="decides_for does not have this arm's rule"):
        parse_config(values, "rounds.yaml")

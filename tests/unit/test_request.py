"""What a command asks for beyond params.yaml is put into plain values, and wrong requests are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.ablation import sweep_arms
from flows.request import Request, model_settings, parse_setting, read_values, trajectory_settings, values_text
from pivotrl_core.config.loading import config_digest, parse_config
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


def test_chosen_arms_bring_base_and_what_they_start_from() -> None:
    arms = {"base": {}, "sft": {"train": {"method": "sft"}}, "x": {"train": {"start": "sft"}}, "y": {}}
    assert list(Request(arms=("x",)).apply({"arms": arms})["arms"]) == ["base", "sft", "x"]
    with pytest.raises(ConfigError, match="no such arm; it has: base, sft, x, y"):
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


def test_a_sweep_of_the_shipped_parameters_is_valid_and_has_every_arm_of_the_comparison() -> None:
    values = read_values(PARAMS)
    arms = sweep_arms(values["arms"], [0.2, 0.6])
    config = parse_config({**values, "arms": arms})
    assert set(config.arms) >= {
        "base", "sft", "pivotrl", "lambda-02", "random-turns", "all-turns", "exact-reward", "sft-pivotrl", "e2e",
    }  # fmt: skip
    assert "lambda-06" not in config.arms  # that is pivotrl itself


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

"""Models that the next night trains from: only good ones, and only on the base policy that they stand on."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pivotrl_core.config.loading import parse_config
from pivotrl_core.config.tree import Config
from pivotrl_core.files import read_json, write_json
from pivotrl_core.types import canonical_json
from tasks.last_good import good_arms, keep_good, keep_starts, offer_good

LOCK = "stages:\n  warmup:\n    cmd: x\n    outs:\n    - {path: models/base, md5: MD5}\n"


def _report(low: float, high: float, metric: str = "eval/d/success_greedy") -> dict[str, Any]:
    paired = [
        {"a": "x", "b": "base", "metric": metric, "low": low, "high": high},
        {"a": "y", "b": "base", "metric": "eval/d/success_greedy", "low": -0.1, "high": 0.3},
        {"a": "z", "b": "x", "metric": "eval/d/success_greedy", "low": -0.3, "high": -0.1},
    ]
    return {"rows": [{"arm": arm} for arm in ("base", "x", "y", "z")], "paired": paired}


def test_an_arm_that_an_interval_puts_below_base_is_not_good() -> None:
    assert good_arms(_report(-0.2, 0.1)) == {"x", "y"}
    assert good_arms(_report(-0.2, -0.1)) == {"y"}
    assert good_arms(_report(-0.2, -0.1, "eval/turns/accuracy_greedy")) == {"y"}
    base_first = {"a": "base", "b": "x", "metric": "eval/d/success_t1", "low": 0.1, "high": 0.2}
    assert good_arms({"paired": [base_first]}) == set()


def test_an_arm_that_was_not_compared_with_base_in_the_domain_is_not_good() -> None:
    assert good_arms(_report(0.1, 0.2, "eval/ifbench-embedded/score")) == {"y"}
    assert good_arms({"rows": [{"arm": "x"}], "paired": []}) == set()


def _root(root: Path, base: str) -> Path:
    root.mkdir()
    graph = {
        "trains": {
            "x-0": {"arm": "x", "start": "models/base"},
            "z-0": {"arm": "z", "start": "models/x/0"},
        },
        "evaluates": {"x-0": {"policy": "models/x/0"}, "z-0": {"policy": "models/z/0"}},
    }
    (root / "graph.yaml").write_text(yaml.safe_dump(graph))
    (root / "dvc.lock").write_text(LOCK.replace("MD5", base))
    for arm in ("x", "z"):
        (root / "models" / arm / "0").mkdir(parents=True)
        (root / "models" / arm / "0" / "weights").write_text(f"{arm} on {base}")
    paired = [{"a": arm, "b": "base", "metric": "eval/d/success_greedy", "low": 0.0, "high": 0.2} for arm in "xz"]
    write_json(root / "reports" / "compare" / "report.json", {"paired": paired})
    return root


def _config(**parameters: Any) -> Config:
    train = {"method": "sft", "parameters": parameters or {"kind": "full"}}
    x = {"select": {"rule": "all"}, "train": train}
    return parse_config({"arms": {"base": {}, "x": x, "z": {**x, "train": {**train, "start": "x"}}}})


FULL = _config()


def test_kept_models_are_offered_to_arms_that_start_from_base(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert offer_good(_root(tmp_path / "first", "m1"), kept, FULL) == ([], [])
    assert keep_good(tmp_path / "first", kept, FULL) == ["x-0", "z-0"]
    second = _root(tmp_path / "second", "m1")
    assert offer_good(second, kept, FULL) == (["last-good/x-0"], [])
    assert (second / "last-good" / "x-0" / "weights").read_text() == "x on m1"
    trains = yaml.safe_load((second / "graph.yaml").read_text())["trains"]
    assert {key: train["start"] for key, train in trains.items()} == {"x-0": "last-good/x-0", "z-0": "models/x/0"}
    # What it started from is offered again to a night without new data, under the same condition.
    keep_starts(second, tmp_path / "started", FULL)
    third = _root(tmp_path / "third", "m1")
    assert offer_good(third, tmp_path / "started", _config(kind="lora"))[0] == []
    assert offer_good(third, tmp_path / "started", FULL) == (["last-good/x-0"], [])


def test_nothing_is_offered_on_another_base(tmp_path: Path) -> None:
    keep_good(_root(tmp_path / "first", "m1"), tmp_path / "kept", FULL)
    third = _root(tmp_path / "third", "m2")
    assert offer_good(third, tmp_path / "kept", FULL) == ([], [])
    assert "last-good" not in (third / "graph.yaml").read_text()


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ({"kind": "full"}, {"kind": "lora", "rank": 32, "alpha": 64.0}),
        ({"kind": "lora", "rank": 32, "alpha": 64.0}, {"kind": "lora", "rank": 16, "alpha": 64.0}),
        ({"kind": "lora", "rank": 32, "alpha": 64.0}, {"kind": "lora", "rank": 32, "alpha": 32.0}),
    ],
)
def test_a_model_trained_with_other_parameters_is_not_offered_and_that_is_said(
    tmp_path: Path, then: dict[str, Any], now: dict[str, Any]
) -> None:
    keep_good(_root(tmp_path / "first", "m1"), tmp_path / "kept", _config(**then))
    second = _root(tmp_path / "second", "m1")
    paths, lines = offer_good(second, tmp_path / "kept", _config(**now))
    assert paths == []
    assert [line.split(",")[0] for line in lines] == ["x-0: starts from the base policy"]
    assert f"{canonical_json(then)}, not {canonical_json(now)}" in lines[0]
    assert "last-good" not in (second / "graph.yaml").read_text()
    assert not (second / "last-good").exists()
    # The night's own model takes its place; one that this night did not find good stays with its own parameters.
    keep_good(second, tmp_path / "kept", _config(**now))
    assert offer_good(_root(tmp_path / "third", "m1"), tmp_path / "kept", _config(**now))[0] == ["last-good/x-0"]


def test_an_index_that_does_not_say_with_which_parameters_offers_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    keep_good(_root(tmp_path / "first", "m1"), kept, FULL)
    index = read_json(kept / "last-good.json")
    write_json(kept / "last-good.json", {"base": index["base"], "keys": index["keys"]})
    paths, lines = offer_good(_root(tmp_path / "second", "m1"), kept, FULL)
    assert paths == []
    assert "unknown parameters" in lines[0]


@pytest.mark.parametrize("call", ["copytree", "rename", "rmtree"])
def test_a_night_that_is_killed_while_it_keeps_a_model_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The k-th call of what changes files is the last one, for every k."""
    kept, first, second = tmp_path / "kept", _root(tmp_path / "first", "m1"), _root(tmp_path / "second", "m1")
    (second / "models" / "x" / "0" / "weights").write_text("newer")
    owner = Path if call == "rename" else shutil
    real = getattr(owner, call)
    for last in range(4):
        shutil.rmtree(kept, ignore_errors=True)
        keep_good(first, kept, FULL)
        left = last

        def killed(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            return real(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(owner, call, killed)
            with contextlib.suppress(KeyboardInterrupt):
                keep_good(second, kept, FULL)
        third = _root(tmp_path / f"{last}", "m1")
        assert offer_good(third, kept, FULL) == (["last-good/x-0"], [])
        assert (third / "last-good" / "x-0" / "weights").read_text() in ("x on m1", "newer")

"""What is left of a stage that the graph no longer has goes from the checkout; all else stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pivotrl_core.config.graph import derive_graph
from pivotrl_core.config.loading import parse_config
from pivotrl_core.errors import ConfigError
from tasks.leftovers import remove_leftovers
from tasks.stored import is_cached, place_in_cache

OUTS = {
    "warmup": ["models/base", "reports/timings/warmup.json"],
    "profile@base": ["data/profiles/base"],
    "profile@old-0": ["data/profiles/old-0"],
    "select@pivotrl": ["data/pools/pivotrl"],
    "select@old": ["data/pools/old", "reports/timings/select-old.json"],
    "train@old-0": ["models/old/0", "reports/train/old-0", "reports/timings/train-old-0.json"],
    "evaluate@old-0": ["reports/evaluate/old-0"],
    "evaluate@base-0": ["reports/evaluate/base-0"],
    "compare": ["reports/compare"],
}
GONE = [
    "data/pools/old", "data/profiles/old-0", "models/old/0", "reports/evaluate/old-0",
    "reports/timings/select-old.json", "reports/timings/train-old-0.json", "reports/train/old-0",
]  # fmt: skip


def graph(*arms: str) -> dict[str, Any]:
    arm = {"select": {"rule": "pivots"}, "train": {"method": "grpo"}}
    return derive_graph(parse_config({"arms": {"base": {}, **dict.fromkeys(arms, arm)}}))


def make(root: Path) -> list[str]:
    """A checkout with all of these outputs and their lock, and a file that no stage made."""
    lock = {name: {"cmd": "x", "outs": [{"path": p, "md5": "0"} for p in paths]} for name, paths in OUTS.items()}
    (root / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": lock}))
    for path in [path for paths in OUTS.values() for path in paths] + ["models/mine"]:
        place = root / path if path.endswith(".json") else root / path / "file"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(path)
    return files(root)


def files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_outputs_of_an_arm_that_left_the_graph_are_removed(tmp_path: Path) -> None:
    before = make(tmp_path)
    assert remove_leftovers(tmp_path, graph("pivotrl")) == GONE
    assert files(tmp_path) == [path for path in before if not path.startswith(tuple(GONE))]
    assert not (tmp_path / "models/old").exists()  # nor are empty folders left
    assert (tmp_path / "models/mine/file").exists()
    assert remove_leftovers(tmp_path, graph("pivotrl")) == []


def test_what_dvc_s_cache_lost_is_not_removed(tmp_path: Path) -> None:
    checkout, cache = tmp_path / "checkout", tmp_path / "cache"
    checkout.mkdir()
    before = make(checkout)
    with pytest.raises(ConfigError, match=r"data/pools/old: its arm left params.yaml, and DVC's cache \(.*\) does not"):
        remove_leftovers(checkout, graph("pivotrl"), cache)
    assert files(checkout) == before
    place = place_in_cache(cache, "0")
    place.parent.mkdir(parents=True)
    place.touch()
    assert remove_leftovers(checkout, graph("pivotrl"), cache) == GONE


def test_a_folder_is_cached_where_all_its_files_are(tmp_path: Path) -> None:
    listed, file = "a" * 32 + ".dir", "b" * 32
    assert not is_cached(tmp_path, listed)
    for md5, text in ((listed, json.dumps([{"md5": file, "relpath": "x"}])), (file, "x")):
        assert not is_cached(tmp_path, listed)
        place_in_cache(tmp_path, md5).parent.mkdir(parents=True, exist_ok=True)
        place_in_cache(tmp_path, md5).write_text(text)
    assert is_cached(tmp_path, listed)


def test_nothing_is_removed_while_the_graph_has_it_or_nothing_was_run(tmp_path: Path) -> None:
    assert remove_leftovers(tmp_path, graph("pivotrl")) == []
    before = make(tmp_path)
    assert remove_leftovers(tmp_path, graph("pivotrl", "old")) == ["data/profiles/old-0"]  # old starts from base now
    assert files(tmp_path) == [path for path in before if not path.startswith("data/profiles/old-0")]

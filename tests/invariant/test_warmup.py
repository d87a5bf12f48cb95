"""What the warm-up reads: each row of its files is trained on, or a drop that says where it was and why."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.config.loading import parse_config
from pivotrl_core.errors import DataError, TooManyDropsError
from pivotrl_core.files import read_json, read_jsonl, write_json, write_jsonl
from pivotrl_core.pivots.tables import read_table
from pivotrl_core.stages.candidates import run_candidates
from pivotrl_core.stages.context import StageContext
from pivotrl_core.stages.warmup import run_warmup
from tests.toy_training import pull_toys, toy_trajectories

pytestmark = pytest.mark.usefixtures("deterministic")


def context_of(model: Path, root: Path, **data: Any) -> StageContext:
    config = parse_config({
        "model": {"kind": "folder", "path": str(model)},
        "source": {"kind": "folder", "path": "unused: the data are pulled already"},
        "data": data,
        "compute": {"threads": 1, "dtype": "float32"},
        "warmup": {"epochs": 1, "batch_trajectories": 2},
        "arms": {"base": {}},
    })  # fmt: skip
    return StageContext(config, root, root / "scratch", root / "store", root / "cache", root)


def test_every_row_of_the_warm_up_is_trained_on_or_a_drop_with_its_place(tiny_llama: Path, tmp_path: Path) -> None:
    pull_toys(tmp_path, toy_trajectories(20))
    file = tmp_path / "data/pulled/warmup/w.jsonl"
    rows = read_jsonl(file)
    rows[1]["messages"][1]["content"] *= 500
    rows[2]["messages"][1]["role"] = "wizard"
    write_jsonl(file, rows)
    run_warmup(context_of(tiny_llama, tmp_path, max_state_tokens=1000, max_drop_share=0.3))
    drops = read_table(tmp_path / "reports/warmup/drops.parquet", "drops").to_dict("records")
    assert [(row["kind"], row["place"], row["field"], row["reason"]) for row in drops] == [
        ("row", "w.jsonl:3", "messages[1].role", "unknown_role"),
        ("row", "w.jsonl:2", "", "too_long"),
    ]
    assert drops[1]["detail"].endswith("the limit is 1128")
    report = read_json(tmp_path / "reports/warmup/report.json")
    assert report["trajectories"] == 2
    assert report["reading"] == {"read": 4, "kept": 2, "by_reason": {"too_long": 1, "unknown_role": 1}}


def test_a_warm_up_whose_trajectories_are_all_too_long_says_what_to_raise(tiny_llama: Path, tmp_path: Path) -> None:
    pull_toys(tmp_path, toy_trajectories(20))
    wanted = r"'too_long': 4.*max_state_tokens \+ data.max_action_tokens is 20, the shortest has [1-9]\d+ tokens"
    with pytest.raises(DataError, match=wanted):
        run_warmup(context_of(tiny_llama, tmp_path, max_state_tokens=10, max_action_tokens=10))


@pytest.mark.parametrize("stage", [run_warmup, run_candidates])
@pytest.mark.parametrize("private", [False, True], ids=["in the checkout", "in a worktree"])
def test_too_many_drops_are_listed_where_they_can_be_found_afterwards(
    tiny_llama: Path, tmp_path: Path, stage: Callable[[StageContext], None], private: bool
) -> None:
    pull_toys(tmp_path, toy_trajectories(20))
    for file in sorted((tmp_path / "data/pulled").glob("*/*.jsonl")):
        lines = file.read_text().splitlines()
        file.write_text("\n".join([*["{broken"] * len(lines), *lines]))
    context = context_of(tiny_llama, tmp_path)
    context = replace(context, checkout=tmp_path / "main") if private else context
    with pytest.raises(TooManyDropsError, match="`pivotrl inspect FILE`") as caught:
        stage(context)
    named = Path(str(re.search(r"(\S+/drops.parquet) has all of them", str(caught.value))[1]))
    assert named.is_relative_to(context.scratch) == private
    drops = read_table(named, "drops").to_dict("records")
    assert [row["reason"] for row in drops] == ["broken_json"] * len(drops)
    assert f"\n  {tmp_path}" in str(caught.value)
    assert str(caught.value).startswith(f"{len(drops)} of ")


def test_drops_name_files_where_they_lie_at_their_source(tiny_llama: Path, tmp_path: Path) -> None:
    for place, key, name in (
        ("/mine/runs", "a/x.jsonl", "/mine/runs/a/x.jsonl"),
        ("/mine/x.jsonl", "x.jsonl", "/mine/x.jsonl"),
        ("runs/*/x.jsonl", "a/x.jsonl", "runs/a/x.jsonl"),
    ):
        root = tmp_path / key.replace("/", "-") / place.replace("/", "-").replace("*", "-")
        pull_toys(root, toy_trajectories(20))
        file = next(iter(sorted((root / "data/pulled/train").glob("*.jsonl"))))
        file.write_text("{broken\n" + file.read_text() * 2)
        files = [{"path": f"train/{file.name}", "origin_key": key}]
        write_json(root / "data/pulled/manifest.json", {"source": {"kind": "folder", "path": place}, "files": files})
        context = context_of(tiny_llama, root, max_drop_share=0.0)
        with pytest.raises(TooManyDropsError) as caught:
            run_candidates(context)
        assert f"\n  {name}:1: broken_json" in str(caught.value)
        drops = read_table(root / "data/candidates/drops.parquet", "drops").to_dict("records")
        assert drops[0]["place"] == f"{name}:1"
        assert any(row["detail"].startswith(f"equals {name}:") for row in drops)

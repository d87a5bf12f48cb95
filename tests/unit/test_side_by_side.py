"""Stages side by side: which one is next, and how those at work share the lanes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.side_by_side import Waiting
from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError
from pivotrl_core.lanes import Lanes, limit_workers
from tasks.graph import StageStatus
from tasks.shares import STAGES_AT_ONCE, Shares, follow_share, stages_at_once


def _status(name: str, *deps: str, frozen: bool = False) -> StageStatus:
    return StageStatus(name, deps, (), changed=True, frozen=frozen)


def _names(waiting: Waiting) -> list[str]:
    names = []
    while (status := waiting.take()) is not None:
        names.append(status.name)
    return names


DEMO = (
    _status("pull", frozen=True),
    _status("warmup", "pull"),
    _status("candidates", "pull"),
    _status("evaluate@base", "warmup", "candidates"),
    _status("profile", "warmup", "candidates"),
    _status("train@sft", "candidates", "warmup"),
    _status("train@pivotrl", "profile"),
    _status("evaluate@pivotrl", "train@pivotrl"),
    _status("compare", "evaluate@base", "evaluate@pivotrl", "train@sft"),
)


def test_what_most_others_wait_for_comes_first() -> None:
    waiting = Waiting(DEMO)
    assert _names(waiting) == ["warmup", "candidates"]
    waiting.settle("warmup")
    assert _names(waiting) == []
    waiting.settle("candidates")
    assert _names(waiting) == ["profile", "evaluate@base", "train@sft"]


def test_nothing_is_next_before_all_that_it_needs_has_come_to_an_end_and_nothing_after_a_drop() -> None:
    waiting = Waiting(DEMO)
    done: list[str] = []
    while names := _names(waiting):
        for name in names:
            needed = next(one for one in DEMO if one.name == name).deps
            assert {*needed} - {"pull"} <= {*done}
            waiting.settle(name)
            done.append(name)
    assert sorted(done) == sorted(one.name for one in DEMO[1:])
    waiting = Waiting(DEMO)
    waiting.drop()
    assert waiting.take() is None


@given(st.integers(1, 8), st.lists(st.booleans(), max_size=20))
def test_shares_add_up_to_the_lanes(tmp_path_factory: pytest.TempPathFactory, lanes: int, moves: list[bool]) -> None:
    folder = tmp_path_factory.mktemp("shares")
    shares, at_work = Shares(folder, lanes), []
    for number, joins in enumerate(moves):
        if joins and len(at_work) < lanes:
            at_work.append(f"train@{number}")
            shares.join(at_work[-1])
        elif at_work:
            shares.leave(at_work.pop(0))
        found = [int((folder / f"{name}.share").read_text()) for name in at_work]
        assert sum(found) == (lanes if at_work else 0)
        assert not found or (min(found) >= 1 and found == sorted(found, reverse=True))
        assert len(list(folder.iterdir())) == len(at_work)


def test_a_lane_more_is_used_as_soon_as_another_stage_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = Shares(tmp_path, 2)
    monkeypatch.setenv("PIVOTRL_SHARE", str(shares.join("train@pivotrl-0")))
    shares.join("train@sft-0")
    begun: list[int] = []

    def compute(item: int) -> int:
        begun.append(item)
        return item

    try:
        follow_share()
        results = Lanes(2, 2).map(compute, range(6))
        assert next(results) == 0
        assert len(begun) <= 2  # the one that was waited for, and the next
        shares.leave("train@sft-0")
        assert [next(results), next(results)] == [1, 2]
        shares.leave("train@pivotrl-0")  # the file has gone: what it said last holds
        assert list(results) == [3, 4, 5]
    finally:
        limit_workers(lambda: 8)


@pytest.mark.parametrize(("settings", "expected"), [
    ({}, 2),
    ({"compute": {"threads": 1}}, 1),
    ({"compute": {"threads": 4}}, 2),
    ({"compute": {"threads": 4, "lanes": 4}}, 4),
    ({"compute": {"processes": 2}}, 1),
    ({"compute": {"device": "cuda"}}, 1),
    ({"engine": {"kind": "vllm"}}, 1),
])  # fmt: skip
def test_as_many_stages_at_once_as_lanes_but_for_those_that_have_something_to_themselves(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], expected: int
) -> None:
    monkeypatch.delenv(STAGES_AT_ONCE, raising=False)
    config = Config.model_validate({"arms": {"base": {}}, **settings})
    assert stages_at_once(config) == expected
    monkeypatch.setenv(STAGES_AT_ONCE, "3")
    assert stages_at_once(config) == min(expected, 3)
    monkeypatch.setenv(STAGES_AT_ONCE, "1")
    assert stages_at_once(config) == 1


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_number_of_stages_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(STAGES_AT_ONCE, text)
    with pytest.raises(ConfigError, match=STAGES_AT_ONCE):
        stages_at_once(Config.model_validate({"arms": {"base": {}}}))

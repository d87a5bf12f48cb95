"""What a benchmark tells: ratios, limits, keys; and that it tells nothing of sides that did not do the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pivotrl_core.bench.gauges import Spent
from pivotrl_core.bench.iterating import check_equal_work
from pivotrl_core.bench.measuring import Measured, Reading
from pivotrl_core.bench.profiling import check_tokens
from pivotrl_core.bench.records import Comparison, compare, skip, token_limit
from pivotrl_core.bench.steps import TOLERANCES, disagreement, draw_group, with_sampled
from pivotrl_core.bench.training import search_group
from pivotrl_core.errors import MeasurementError

SETTING = {"group_size": 16, "state_tokens": 1024, "action_tokens": 64}


def measured(*readings: tuple[float, float | None, int]) -> Measured:
    return Measured([Reading(Spent(wall, cpu, memory), {}) for wall, cpu, memory in readings])


def record(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)
    return found


def test_ratios_are_theirs_over_ours_of_medians_and_of_the_highest_peak() -> None:
    ours = measured((1.0, 2.0, 100), (9.0, 8.0, 300), (2.0, 4.0, 200))  # medians 2 and 4
    theirs = measured((6.0, 30.0, 900), (5.0, 34.0, 600), (7.0, 40.0, 500))  # medians 6 and 34
    told = record(compare("train", "padded", SETTING, ours, theirs, token_limit(16, 1024, 64)).line())
    assert told == {
        "bench": "train", "against": "padded", "setting": SETTING,
        "cpu_ratio": 8.5, "wall_ratio": 3.0, "memory_ratio": 3.0, "of_limit": 1.0,
    }  # fmt: skip


def test_on_a_gpu_time_is_told_and_no_processor_time() -> None:
    ours, theirs = measured((2.0, None, 100)), measured((17.0, None, 50))
    told = record(compare("train", "padded", SETTING, ours, theirs, token_limit(16, 1024, 64)).line())
    assert told == {
        "bench": "train", "against": "padded", "setting": SETTING,
        "wall_ratio": 8.5, "memory_ratio": 0.5, "wall_of_limit": 1.0,
    }  # fmt: skip
    assert (ours.cost, measured((2.0, 3.0, 1)).cost) == (2.0, 3.0)
    one = Measured([Reading(Spent(2.0, None, 100, reserved=400), {}), Reading(Spent(3.0, None, 90, reserved=500), {})])
    amounts = compare("train", "padded", SETTING, one, theirs).amounts()
    assert amounts["ours"] == {"runs": 2, "seconds": 2.5, "peak": 100, "reserved": 500}
    assert amounts["theirs"] == {"runs": 1, "seconds": 17.0, "peak": 50}


def test_the_limit_is_that_of_tokens() -> None:
    assert token_limit(16, 1024, 64) == 16 * 1088 / 2048 == 8.5
    assert token_limit(8, 1024, 64) == pytest.approx(5.667, abs=1e-3)
    assert token_limit(1, 100, 10) == 1.0


def test_a_comparison_that_has_no_other_side_says_why() -> None:
    one = skip("profile", "vllm", SETTING, "not here")
    assert record(one.line()) == {"bench": "profile", "against": "vllm", "setting": SETTING, "skipped": "not here"}
    assert "skipped: not here" in one.text()


def test_our_own_profile_is_against_nothing_and_curtailment_tells_what_it_changed() -> None:
    own = Comparison("profile", None, {}, ms_per_candidate=12.5, shares={"sampling": 0.9, "verifying": 0.1})
    assert record(own.line()) == {
        "bench": "profile", "against": None, "setting": {}, "ms_per_candidate": 12.5,
        "shares": {"sampling": 0.9, "verifying": 0.1},
    }  # fmt: skip
    short = Comparison("curtail", "full-k", {}, changed_decisions=0, saved_share=0.25)
    assert record(short.line())["changed_decisions"] == 0
    assert record(short.line())["saved_share"] == 0.25


def test_sides_that_differ_by_more_than_rounding_are_told_apart() -> None:
    loss, norm = TOLERANCES["float32"]
    ours = {"tokens": 100, "loss": -0.1, "norm": 2.0}
    loss /= 10  # the square root of the tokens
    near = ours | {"loss": -0.1 + 0.5 * loss, "norm": 2.0 * (1 + 0.5 * norm)}
    assert disagreement({"ours": ours, "trl": near}, "float32") == ""
    assert "loss" in disagreement({"ours": ours, "trl": near | {"loss": -0.1 + 2 * loss}}, "float32")
    assert "norm" in disagreement({"ours": ours, "trl": near | {"norm": 2.0 * (1 + 2 * norm)}}, "float32")
    assert "of padded" in disagreement({"ours": ours, "trl": near, "padded": ours | {"loss": 0.1}}, "float32")
    assert "loss" in disagreement({"ours": ours, "trl": ours | {"loss": float("nan")}}, "bfloat16")


def test_unequal_amounts_of_work_are_refused() -> None:
    with pytest.raises(MeasurementError, match=r"equally many tokens.*'ours': 8, 'transformers': 7"):
        check_tokens({"ours": {"generated": 8}, "transformers": {"generated": 7}})
    with pytest.raises(MeasurementError, match="equal work"):
        check_equal_work({"ours": {"generated": 8, "pivots": 2}, "public-tools": {"generated": 8, "pivots": 3}})


def test_actions_share_no_beginning_and_half_of_them_are_rewarded() -> None:
    task = draw_group(16, 32, 4, vocabulary=64)
    assert len({action[0] for action in task.actions}) == 16
    assert sum(task.rewards) == 8
    assert task.trained == 16 * 4
    assert task == draw_group(16, 32, 4, vocabulary=64)
    moved = with_sampled(task, [[-2.0] * 4] * 16)
    for line, reward in zip(moved.sampled, task.rewards, strict=True):
        assert (sum(line) / 4 < -2.0) == bool(reward)


def test_a_setting_is_tried_on_two_micro_batches_or_on_all() -> None:
    assert [search_group(16, micro) for micro in (1, 2, 4, 8, 16)] == [2, 4, 8, 16, 16]

"""When to profile again: the rule on series worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from pivotrl_core.config.arms import Reprofile
from pivotrl_core.config.graph import derive_graph
from pivotrl_core.config.loading import parse_config
from pivotrl_core.errors import ConfigError
from pivotrl_core.pivots.reprofiling import Saturation, SaturationRule, StepSignal, fitted_change, moving_means

EQUAL, REWARD, SPREAD = Saturation.EQUAL_GROUPS, Saturation.REWARD, Saturation.SPREAD


def signals(rewards: Sequence[float], spreads: Sequence[float] = (), shares: Sequence[float] = ()) -> list[StepSignal]:
    count = len(rewards)
    return [
        StepSignal(*line)
        for line in zip(rewards, spreads or [i / 10 for i in range(count)], shares or [0.0] * count, strict=True)
    ]


def test_the_change_is_that_of_the_line_of_least_squares() -> None:
    assert fitted_change([0.1, 0.2, 0.3, 0.4]) == pytest.approx(0.3)
    assert fitted_change([0.5, 0.2]) == pytest.approx(-0.3)
    # Offsets -1.5, -0.5, 0.5, 1.5: slope (-1.5 * 0 - 0.5 * 0.4 + 0.5 * 0 + 1.5 * 0.4) / 5 = 0.08, over 3 steps 0.24.
    assert fitted_change([0.0, 0.4, 0.0, 0.4]) == pytest.approx(0.24)
    assert fitted_change([0.0, 0.4, 0.4, 0.0]) == pytest.approx(0.0)


def test_a_flat_reward_is_one_whose_line_changes_by_no_more_than_the_limit() -> None:
    rule = SaturationRule(window=4, limit=1, reward_change=0.25)
    assert rule.reason(signals([0.0, 0.4, 0.0, 0.4]), 0, 10) is REWARD
    assert rule.reason(signals([0.1, 0.2, 0.3, 0.4]), 0, 10) is None
    assert rule.reason(signals([0.4, 0.3, 0.2, 0.1]), 0, 10) is None  # it falls: not flat either
    assert rule.reason(signals([0.1, 0.2, 0.3, 0.4, 0.4, 0.4, 0.4]), 0, 10) is REWARD  # the newest four alone count
    assert rule.reason(signals([0.4, 0.4, 0.4, 0.1, 0.2, 0.3, 0.4]), 0, 10) is None


def test_the_share_of_zero_variance_groups_is_a_mean_over_the_window_and_has_to_be_above() -> None:
    rule = SaturationRule(window=2, limit=1, zero_variance_share=0.5)
    rising = [0.1, 0.9, 0.1]
    assert rule.reason(signals(rising, shares=[0.9, 0.25, 0.75]), 0, 10) is None  # 0.5 is not above 0.5
    assert rule.reason(signals(rising, shares=[0.0, 0.5, 0.75]), 0, 10) is EQUAL  # 0.625


def test_a_flat_spread_counts_by_its_own_limit_and_the_first_reason_is_told() -> None:
    flat, rising = [0.2, 0.2, 0.2], [0.1, 0.2, 0.3]
    rule = SaturationRule(window=3, limit=1, zero_variance_share=0.9, reward_change=0.01, spread_change=0.05)
    assert rule.reason(signals(rising, spreads=flat), 0, 10) is SPREAD
    assert rule.reason(signals(flat, spreads=flat), 0, 10) is REWARD
    assert rule.reason(signals(flat, spreads=flat, shares=[1.0] * 3), 0, 10) is EQUAL
    assert rule.reason(signals(rising, spreads=[0.1, 0.2, 0.3]), 0, 10) is None


def test_it_waits_for_a_window_and_stops_at_its_limit_and_before_the_end() -> None:
    rule = SaturationRule(window=3, limit=2, reward_change=0.1)
    flat = [0.5] * 3
    assert rule.reason(signals(flat), 0, 3) is REWARD
    assert rule.reason(signals(flat[:2]), 0, 10) is None  # not a window yet since the last profile
    assert rule.reason(signals(flat), 1, 10) is REWARD
    assert rule.reason(signals(flat), 2, 10) is None  # twice, and no more
    assert rule.reason(signals(flat), 0, 2) is None  # a new pool would hardly be used


def test_turns_of_two_temperatures_are_no_change_of_the_reward() -> None:
    rewards = [0.2, 0.6] * 6
    rule = SaturationRule(window=3, limit=1, reward_change=0.02)
    assert (
        rule.reason(signals(rewards), 0, 50) is Saturation.REWARD
    )  # by chance of where the window lies: 0.2, 0.6, 0.2
    rising = [value + 0.02 * step for step, value in enumerate(rewards)]
    means = moving_means(signals(rising), 2)
    assert [one.reward for one in means] == pytest.approx([0.41 + 0.02 * step for step in range(11)])
    assert rule.reason(means, 0, 50) is None
    assert rule.reason(moving_means(signals(rewards), 2), 0, 50) is Saturation.REWARD
    assert moving_means(signals(rewards), 1) == signals(rewards)
    assert moving_means(signals(rewards[:1]), 2) == []


def test_a_setting_that_looks_at_nothing_is_refused() -> None:
    with pytest.raises(ValidationError, match="nothing would ever start it"):
        Reprofile(zero_variance_share=None)


def tree(**train: object) -> dict[str, object]:
    own = {"select": {"rule": "pivots", "lambda_diff": 0.6}, "train": {"method": "grpo", **train}}
    return {"arms": {"base": {}, "again": own}}


def test_only_an_arm_that_profiles_again_depends_on_all_candidates_and_on_how_they_are_profiled() -> None:
    again = derive_graph(parse_config(tree(reprofile={})))["trains"]["again-0"]
    assert (again["turns"], again["sampling"]) == ("data/candidates", "profile")
    never = derive_graph(parse_config(tree()))["trains"]["again-0"]
    assert (never["turns"], never["sampling"]) == ("data/pools/again", "arms.again.train")


@pytest.mark.parametrize("short", [{"curtail": True}, {"staged": {"waves": [4]}}])
def test_a_shortened_profile_has_to_decide_for_an_arm_that_profiles_again(short: dict[str, object]) -> None:
    other, own = ({"rule": "pivots", "lambda_diff": value} for value in (0.4, 0.6))
    with pytest.raises(ConfigError, match=r"arms\.again\.train\.reprofile: profile\.decides_for does not have"):
        parse_config({**tree(reprofile={}), "profile": {**short, "decides_for": [other]}})
    parse_config({**tree(reprofile={}), "profile": {**short, "decides_for": [other, own]}})
    parse_config({**tree(), "profile": {**short, "decides_for": [other]}})

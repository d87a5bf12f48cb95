"""Rules decide as their formulas say, row by row, with the reason."""

from __future__ import annotations

import pandas as pd
import pytest

from pivotrl_core.config.arms import PivotRuleConfig, RandomRuleConfig
from pivotrl_core.pivots.profile_record import mean_and_variance
from pivotrl_core.pivots.selection import (
    AdaptiveEta,
    AllTurns,
    Bootstrap,
    Pivots,
    RandomTurns,
    SigmaThreshold,
    describe,
)
from pivotrl_core.stages.rules import selection_rule


def profile(successes: list[int], k: int = 8, domains: list[str] | None = None) -> pd.DataFrame:
    statistics = [mean_and_variance(s, k) for s in successes]
    return pd.DataFrame({
        "candidate_id": [f"c{i}" for i in range(len(successes))],
        "domain": domains or ["tool"] * len(successes),
        "k": k,
        "planned": k,
        "successes": successes,
        "mu": [mu for mu, _ in statistics],
        "sigma2": [sigma2 for _, sigma2 in statistics],
    })  # fmt: skip


def kept(rule: object, rows: pd.DataFrame) -> list[int]:
    return [i for i, decision in enumerate(rule.decide(rows)) if decision.kept]  # type: ignore[attr-defined]


def test_the_variance_is_the_population_variance() -> None:
    # Two of eight: mu = 1/4, sigma^2 = 1/4 * 3/4 = 3/16 (the sample variance would be 3/14).
    assert mean_and_variance(2, 8) == (0.25, 0.1875)
    assert mean_and_variance(3, 3) == (1.0, 0.0)


def test_pivots_are_mixed_and_below_lambda() -> None:
    decisions = Pivots(0.5).decide(profile([0, 1, 3, 4, 5, 8]))
    assert [decision.reason for decision in decisions] == [
        "all_failed",
        "kept",
        "kept",
        "mu_not_below_lambda",  # 4/8 is not below 0.5
        "mu_not_below_lambda",
        "all_succeeded",
    ]
    assert kept(Pivots(0.5, inclusive=True), profile([3, 4, 5])) == [0, 1]


def test_what_never_succeeded_is_kept_for_training_that_demonstrates() -> None:
    assert kept(Pivots(0.5, keep_failed=True), profile([0, 1, 4, 8])) == [0, 1]
    assert kept(Pivots(1.0, inclusive=True, keep_failed=True), profile([0, 7, 8])) == [0, 1]
    like = selection_rule(RandomRuleConfig(rule="random", lambda_diff=0.5, keep_failed=True))
    assert len(kept(like, profile([0, 1, 4, 8]))) == 2


def test_lambda_is_per_domain_where_the_mapping_names_it() -> None:
    rows = profile([4, 4, 4], domains=["tool", "software", "terminal"])
    assert kept(Pivots(0.6, {"software": 0.4}), rows) == [0, 2]


def test_sigma_threshold_is_strict_and_never_keeps_a_constant_group() -> None:
    # sigma of 1/8: sqrt(7)/8 = .3307; of 2/8: sqrt(12)/8 = .4330; of 4/8: .5
    rows = profile([0, 1, 2, 4, 7, 8])
    assert kept(SigmaThreshold(0.35), rows) == [2, 3]
    assert kept(SigmaThreshold(0.5), rows) == []
    assert kept(SigmaThreshold(0.0), rows) == [1, 2, 3, 4]


def test_adaptive_eta_reaches_the_band_from_both_sides() -> None:
    # 20 of 100 rows have sigma .5, 40 have .4330, 40 are constant.
    rows = profile([4] * 20 + [2] * 40 + [0] * 40)
    for start in (0.05, 0.3, 0.49):
        assert len(kept(AdaptiveEta(eta=start), rows)) == 20
    # From above the largest sigma, 0.9 at a time comes below 0.5 but not below .4330: 0.9, .81, ..., .4783
    assert AdaptiveEta(eta=0.9).settle(rows) == pytest.approx(0.9**7)


def test_adaptive_eta_ends_where_no_eta_reaches_the_band() -> None:
    # All rows alike: the share is 0 or 1, which are .15 and .75 away from the band: nothing is kept, and it says why.
    decisions = AdaptiveEta().decide(profile([4] * 10))
    assert {decision.reason for decision in decisions} == {"sigma_not_above_eta"}
    assert AdaptiveEta().decide(profile([])) == []


def test_bootstrap_keeps_what_resampling_confirms() -> None:
    # 1/8: P(spread) = 1 - (7/8)^8 - (1/8)^8 = .656 < .8. 2/8: 1 - .1001 = .8999, P(Bin(8, 1/4) <= 4) = .9727: kept.
    # 4/8: P(Bin(8, 1/2) <= 4) = 163/256 = .637 < .8.
    reasons = [decision.reason for decision in Bootstrap(0.6, 0.8).decide(profile([0, 1, 2, 4, 8]))]
    expected = ["all_failed", "spread_not_confident", "kept", "difficulty_not_confident", "all_succeeded"]
    assert reasons == expected
    # 5/8 = .625 is not below .6, whatever the resampling says: P(Bin(8, 5/8) <= 4) = .357 > .3.
    assert [decision.reason for decision in Bootstrap(0.6, 0.3).decide(profile([5]))] == ["mu_not_below_lambda"]


def test_random_draws_as_many_as_the_rule_it_controls_whatever_the_order_of_rows() -> None:
    rows = profile([0, 1, 2, 3, 4, 5, 6, 7, 8] * 10)
    rule = RandomTurns(Pivots(0.6), seed=1)
    drawn = set(rows["candidate_id"][kept(rule, rows)])
    assert len(drawn) == len(kept(Pivots(0.6), rows)) == 40
    shuffled = rows.sample(frac=1.0, random_state=0).reset_index(drop=True)
    assert set(shuffled["candidate_id"][kept(rule, shuffled)]) == drawn
    assert set(rows["candidate_id"][kept(RandomTurns(Pivots(0.6), seed=2), rows)]) != drawn


def test_the_random_control_of_an_arm_is_as_large_as_the_arm_s_pool() -> None:
    rows = profile([0, 1, 2, 3, 4, 5, 6, 7, 8] * 10)
    same = {"lambda_diff": 0.5, "lambda_by_domain": {"other": 0.9}, "inclusive": True}
    pool = kept(selection_rule(PivotRuleConfig.model_validate({"rule": "pivots", **same})), rows)
    control = kept(selection_rule(RandomRuleConfig.model_validate({"rule": "random", **same})), rows)
    assert len(control) == len(pool) > len(kept(Pivots(0.5), rows))


def test_all_turns_keeps_every_row() -> None:
    assert kept(AllTurns(), profile([0, 4, 8])) == [0, 1, 2]


def test_rules_are_told_in_words() -> None:
    assert describe(Pivots(0.6)) == "pivots (lambda_diff 0.6)"
    assert describe(Pivots(0.0, {"tool": 0.4}, inclusive=True)) == (
        "pivots (lambda_diff 0.0, lambda_by_domain {'tool': 0.4}, inclusive True)"
    )
    assert describe(RandomTurns(Pivots(0.6), 3)) == "random (like pivots (lambda_diff 0.6), seed 3)"
    assert describe(AllTurns()) == "all"

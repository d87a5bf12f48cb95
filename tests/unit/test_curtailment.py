"""Curtailed sampling decides what all K samples decide, and stops as early as anything that decides so can."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pandas as pd
import pytest
from pydantic import ValidationError

from pivotrl_core.config.stages import ProfileConfig
from pivotrl_core.errors import DataError
from pivotrl_core.pivots.curtailment import Curtailment, stands
from pivotrl_core.pivots.profile_record import mean_and_variance
from pivotrl_core.pivots.selection import (
    AdaptiveEta,
    AllTurns,
    Bootstrap,
    CountRule,
    Pivots,
    RandomTurns,
    SigmaThreshold,
    keeps,
    rule_key,
)
from pivotrl_core.stages.rules import curtailment

RULES: list[CountRule] = [
    *(Pivots(tenths / 10) for tenths in range(11)), *(Pivots(tenths / 10, inclusive=True) for tenths in range(11)),
    Pivots(0.6, {"terminal": 0.25}), Pivots(0.6, keep_failed=True),
    *(SigmaThreshold(eta) for eta in (0.0, 0.3, 0.45, 0.5)),
    *(Bootstrap(0.6, confidence) for confidence in (0.5, 0.8, 0.99)), AllTurns(),
]  # fmt: skip
KS = [2, 3, 4, 8, 16]
COMPLETENESS = ("decides_for", "complete_for")


def drawn(stream: Sequence[bool], rules: Sequence[CountRule], domain: str = "tool") -> int:
    """How many samples of a stream are drawn, in waves."""
    plan = Curtailment({rule_key(rule): keeps(rule) for rule in rules}, len(stream))
    count = 0
    while more := plan.needed(domain, count, sum(stream[:count])):
        count += more
    return count


def one_by_one(stream: Sequence[bool], rules: Sequence[CountRule], domain: str = "tool") -> int:
    """The same, asking after each sample whether any rest of the stream could change any decision."""
    k = len(stream)
    for count in range(1, k):
        ends = [sum(stream[:count]) + rest for rest in range(k - count + 1)]
        if all(len({rule.reason(domain, k, end) == "kept" for end in ends}) == 1 for rule in rules):
            return count
    return k


def rows(streams: Sequence[Sequence[bool]], counts: Sequence[int], domain: str = "tool") -> pd.DataFrame:
    successes = [sum(stream[:count]) for stream, count in zip(streams, counts, strict=True)]
    statistics = [mean_and_variance(s, count) for s, count in zip(successes, counts, strict=True)]
    return pd.DataFrame({
        "candidate_id": [f"c{i}" for i in range(len(streams))], "domain": domain, "planned": len(streams[0]),
        "k": counts, "successes": successes, "mu": [mu for mu, _ in statistics], "sigma2": [v for _, v in statistics],
    })  # fmt: skip


def streams(count: int, k: int, seed: int) -> list[list[bool]]:
    """Candidates of all difficulties, those that always or never succeed among them."""
    source = random.Random(seed)
    rates = [source.choice([0.0, 1.0, source.random()]) for _ in range(count)]
    return [[source.random() < rate for _ in range(k)] for rate in rates]


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_decisions_are_those_of_all_samples_and_no_sample_is_drawn_in_vain(rule: CountRule, k: int) -> None:
    every = streams(200, k, seed=k)
    for domain in ("tool", "terminal"):
        counts = [drawn(stream, [rule], domain) for stream in every]
        assert counts == [one_by_one(stream, [rule], domain) for stream in every]
        short = [decision.kept for decision in rule.decide(rows(every, counts, domain))]
        assert short == [decision.kept for decision in rule.decide(rows(every, [k] * len(every), domain))]


def test_ten_thousand_candidates_decide_a_grid_of_rules_alike() -> None:
    rules = [Pivots(0.4), Pivots(0.6), Pivots(0.8, inclusive=True), Bootstrap(0.6, 0.8)]
    every = streams(10_000, 8, seed=0)
    counts = [drawn(stream, rules) for stream in every]
    assert sum(counts) < 0.96 * 8 * len(every)
    for rule in rules:
        full, short = (rule.decide(rows(every, n)) for n in ([8] * len(every), counts))
        assert [one.kept for one in short] == [one.kept for one in full]


def test_five_successes_of_eight_or_four_failures_beside_one_end_it() -> None:
    rule = [Pivots(0.6)]
    assert drawn([True] * 8, rule) == 5
    assert drawn([False, False, True, False, False, True, True, True], rule) == 5
    assert drawn([False] * 8, rule) == 8  # only the last can say that there is no success
    assert Curtailment({rule_key(rule[0]): keeps(rule[0])}, 8).needed("tool", 0, 0) == 5  # the first wave


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("rule", [Pivots(0.6), Pivots(0.6, keep_failed=True), SigmaThreshold(0.3)], ids=repr)
def test_what_a_complete_rule_keeps_has_all_samples_and_what_it_drops_as_few_as_before(rule: CountRule, k: int) -> None:
    key = rule_key(rule)
    plan = Curtailment({key: keeps(rule), "all": keeps(AllTurns())}, k, frozenset({key}))
    for stream in streams(200, k, seed=k):
        count = 0
        while more := plan.needed("tool", count, sum(stream[:count])):
            count += more
        assert count == (k if keeps(rule)("tool", k, sum(stream)) else drawn(stream, [rule]))


def test_a_profile_that_leaves_what_is_kept_whole_is_another_profile() -> None:
    rule = {"rule": "pivots", "lambda_diff": 0.6}
    some, whole = (curtailment(ProfileConfig.model_validate({"curtail": True, key: [rule]})) for key in COMPLETENESS)
    assert some is not None
    assert whole is not None
    assert some.identity != whole.identity
    for wrong in ({"complete_for": [rule]}, {"curtail": True, "complete_for": [{"rule": "all"}]}):
        with pytest.raises(ValidationError, match="complete_for"):
            ProfileConfig.model_validate(wrong)


def test_a_rule_that_needs_more_says_what_to_do() -> None:
    every = streams(50, 8, seed=3)
    short = rows(every, [drawn(stream, [Pivots(0.4)]) for stream in every])
    with pytest.raises(
        DataError, match=r"of 50 candidates .* 'pivots \(lambda_diff 0.8.*add the rule to profile.decides_for"
    ):
        Pivots(0.8).decide(short)
    with pytest.raises(
        DataError, match=r"adaptive-eta looks at the spread of all of them; set profile\.curtail to false"
    ):
        AdaptiveEta().decide(short)


def test_random_turns_are_as_many_as_with_all_samples_and_the_same() -> None:
    every = streams(300, 8, seed=4)
    rule = RandomTurns(Pivots(0.6), seed=1)
    counts = [drawn(stream, [Pivots(0.6)]) for stream in every]
    assert rule.decide(rows(every, counts)) == rule.decide(rows(every, [8] * len(every)))


def test_every_candidate_has_a_sample_even_where_nothing_is_asked() -> None:
    assert drawn([True] * 8, [AllTurns()]) == drawn([False] * 8, []) == 1
    assert stands(keeps(AllTurns()), "tool", 8, 0, 0)


def test_the_configuration_names_rules_that_can_be_decided_early() -> None:
    decided = [{"rule": "random", "lambda_diff": 0.5}, {"rule": "sigma", "eta": 0.4}, {"rule": "all"}]
    plan = curtailment(ProfileConfig.model_validate({"samples": 8, "curtail": True, "decides_for": decided}))
    assert plan is not None
    assert sorted(plan.rules) == sorted(map(rule_key, [Pivots(0.5), SigmaThreshold(0.4), AllTurns()]))
    assert curtailment(ProfileConfig.model_validate({"decides_for": decided})) is None
    with pytest.raises(ValidationError, match="curtail needs decides_for"):
        ProfileConfig.model_validate({"curtail": True})
    with pytest.raises(ValidationError, match="adaptive-eta, which looks at all candidates"):
        ProfileConfig.model_validate({"decides_for": [{"rule": "adaptive-eta"}]})

"""Staged profiling: counted over all orders of samples, no decision is another one more often than stated."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from math import comb

import pandas as pd
import pytest
from pydantic import ValidationError

from pivotrl_core.config.stages import ProfileConfig
from pivotrl_core.errors import DataError
from pivotrl_core.pivots.selection import (
    AdaptiveEta,
    Bootstrap,
    CountRule,
    Decision,
    Pivots,
    RandomTurns,
    SigmaThreshold,
    keeps,
    rule_key,
)
from pivotrl_core.pivots.staging import Staging
from pivotrl_core.stages.rules import curtailment, selection_rule


def staging(rules: list[CountRule], k: int, waves: tuple[int, ...], error: float) -> Staging:
    return Staging({rule_key(rule): keeps(rule) for rule in rules}, k, waves, error)


def drawn(plan: Staging, stream: list[bool]) -> int:
    count = 0
    while more := plan.needed("tool", count, sum(stream[:count])):
        count += more
    return count


def changed(plan: Staging, rules: list[CountRule]) -> dict[tuple[str, int], float]:
    """By rule and S, the share of all orders of K samples with S successes in which another decision is taken."""
    wrong: Counter[tuple[str, int]] = Counter()
    for s in range(plan.k + 1):
        for places in combinations(range(plan.k), s):
            stream = [place in places for place in range(plan.k)]
            count = drawn(plan, stream)
            for rule in rules if count < plan.k else ():
                decided = plan.decided("tool", count, sum(stream[:count]))[rule_key(rule)]
                wrong[rule_key(rule), s] += decided != keeps(rule)("tool", plan.k, s)
    return {(rule, s): count / comb(plan.k, s) for (rule, s), count in wrong.items()}


@pytest.mark.parametrize("error", [0.01, 0.1, 0.3])
@pytest.mark.parametrize(
    "rules",
    [[Pivots(0.6)], [Pivots(0.4), Pivots(0.8, inclusive=True)], [SigmaThreshold(0.4)], [Bootstrap(0.6, 0.8)]],
    ids=repr,
)
def test_no_outcome_of_all_samples_is_decided_otherwise_more_often_than_stated(
    rules: list[CountRule], error: float
) -> None:
    shares = changed(staging(rules, 10, (3, 6), error), rules)
    assert max(shares.values(), default=0.0) <= error


def test_the_bound_is_used_up_where_it_can_be() -> None:
    rules: list[CountRule] = [Pivots(0.6)]
    assert max(changed(staging(rules, 10, (3, 6), 0.2), rules).values()) > 0.09


def test_four_of_four_are_dropped_where_one_in_seven_may_be_wrong() -> None:
    # K = 16: the pool has 1 to 9 successes. Of the 1,820 places for 4 of 16, 9 successes fill all in C(9, 4) = 126:
    # 0.069. With waves after 4 and 8, half of the error is there for the first.
    assert staging([Pivots(0.6)], 16, (4, 8), 0.14).needed("tool", 4, 4) == 0
    assert staging([Pivots(0.6)], 16, (4, 8), 0.13).needed("tool", 4, 4) == 4
    assert staging([Pivots(0.6)], 16, (4,), 0.07).decided("tool", 4, 4) == {rule_key(Pivots(0.6)): False}
    assert staging([Pivots(0.6)], 16, (4,), 0.069).decided("tool", 4, 4) == {}


def test_failures_alone_say_nothing_until_the_last_sample() -> None:
    # One success among 16 is in the second half in every second order: an error of 0.5 after 8 samples.
    assert staging([Pivots(0.6)], 16, (8,), 0.49).needed("tool", 8, 0) == 8


def rows(plan: Staging, streams: list[list[bool]]) -> pd.DataFrame:
    counts = [drawn(plan, stream) for stream in streams]
    successes = [sum(stream[:count]) for stream, count in zip(streams, counts, strict=True)]
    early = [
        json.dumps(dict(plan.decided("tool", count, s))) if count < plan.k else "{}"
        for count, s in zip(counts, successes, strict=True)
    ]
    return pd.DataFrame({
        "candidate_id": [f"c{i}" for i in range(len(streams))], "domain": "tool", "planned": plan.k, "k": counts,
        "successes": successes, "early": early,
    })  # fmt: skip


STREAMS = [[True] * 16, [False, True, False, False] * 4, [False] * 16, [True, True, True, False] * 4]


def test_rules_of_the_profile_take_its_decisions_and_others_refuse_it() -> None:
    plan = staging([Pivots(0.6)], 16, (4, 8), 0.2)
    frame = rows(plan, STREAMS)
    assert frame["k"].tolist() == [4, 8, 16, 8]
    assert Pivots(0.6).decide(frame) == [
        Decision(False, "dropped_early"), Decision(True, "kept"), Decision(False, "all_failed"),
        Decision(False, "dropped_early"),
    ]  # fmt: skip
    assert sum(one.kept for one in RandomTurns(Pivots(0.6)).decide(frame)) == 1  # as many as the rule keeps
    with pytest.raises(DataError, match=r"3 of 4 candidates .* 'pivots \(lambda_diff 0.4.*add the rule"):
        Pivots(0.4).decide(frame)
    with pytest.raises(DataError, match=r"adaptive-eta looks at the spread of all of them"):
        AdaptiveEta().decide(frame)


@pytest.mark.parametrize("rule", ["pivots", "random"])
def test_a_rule_is_the_same_one_in_whatever_order_it_names_domains(rule: str) -> None:
    def named(*domains: tuple[str, float]) -> ProfileConfig:
        rules = [{"rule": rule, "lambda_by_domain": dict(domains)}]
        return ProfileConfig.model_validate({"samples": 16, "staged": {"waves": [4, 8]}, "decides_for": rules})

    profiled, selected = named(("tool", 0.4), ("web", 0.2)), named(("web", 0.2), ("tool", 0.4))
    plan = curtailment(profiled)
    assert isinstance(plan, Staging)
    frame = rows(plan, STREAMS)
    assert (frame["k"] < 16).any()
    decide = selection_rule(selected.decides_for[0]).decide
    assert decide(frame) == selection_rule(profiled.decides_for[0]).decide(frame)


def test_the_configuration_says_waves_and_error_and_for_which_rules() -> None:
    plain = {"samples": 16, "decides_for": [{"rule": "pivots", "lambda_diff": 0.6}]}
    plan = curtailment(ProfileConfig.model_validate({**plain, "staged": {"waves": [4, 8], "error": 0.1}}))
    assert isinstance(plan, Staging)
    assert (plan.k, plan.identity) == (16, [[rule_key(Pivots(0.6))], [4, 8], 0.1])
    assert plan.needed("tool", 0, 0) == 4
    for wrong, fault in (
        ({"staged": {"waves": [8, 4]}}, "each more than the one before"),
        ({"staged": {"waves": [4, 16]}}, "the last wave is always that of all 16"),
        ({"staged": {}, "curtail": True}, "choose one"),
        ({"staged": {}, "decides_for": []}, "staged needs decides_for"),
    ):
        with pytest.raises(ValidationError, match=fault):
            ProfileConfig.model_validate({**plain, **wrong})

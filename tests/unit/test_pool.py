"""A pool holds what the rule kept; its drop report accounts for every other candidate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pivotrl_core.errors import NoPivotsError
from pivotrl_core.evaluation.costs import cost_by_arm
from pivotrl_core.pivots.pool import build_pool, read_pool, write_pool
from pivotrl_core.pivots.profile_record import ProfileRow, read_profile, write_profile
from pivotrl_core.pivots.profiling import Rollout, distinct_successes
from pivotrl_core.pivots.selection import AllTurns, Pivots, RandomTurns
from pivotrl_core.pivots.tables import read_table
from pivotrl_core.trajectories.parsing import parse_action
from pivotrl_core.types import Candidate, Message, Role, Split, ToolCall, Verdict
from pivotrl_core.verifiers.registry import get_verifier


def candidate(number: int, split: Split = Split.TRAIN, domain: str = "tool") -> Candidate:
    state = (Message(Role.USER, f"Question {number}."),)
    return Candidate(state, (), Message(Role.ASSISTANT, "Answer."), f"t{number}", 0, domain, split)


def profiled(number: int, successes: int, split: Split = Split.TRAIN, domain: str = "tool") -> ProfileRow:
    verdicts = tuple(Verdict(float(i < successes), "why \ud800", {"similarity": 0.5}) for i in range(4))
    found = ((number, 7), (number, 8)) if successes else ()
    return ProfileRow(candidate(number, split, domain), verdicts, found=found)


@pytest.fixture
def profile(tmp_path: Path) -> pd.DataFrame:
    rows = [profiled(0, 0), profiled(1, 1), profiled(2, 2, domain="software"), profiled(3, 4)]
    rows.append(profiled(4, 1, split=Split.TEST))
    write_profile(tmp_path / "profile.parquet", rows)
    return read_profile(tmp_path / "profile.parquet")


def test_a_pool_has_the_successes_that_the_profile_found(profile: pd.DataFrame, tmp_path: Path) -> None:
    write_pool(tmp_path, build_pool(profile, AllTurns()))
    assert [row.found for row in read_pool(tmp_path / "pool.parquet")] == [
        (),
        ((1, 7), (1, 8)),
        ((2, 7), (2, 8)),
        ((3, 7), (3, 8)),
    ]


def test_each_distinct_success_is_kept_once_the_likeliest_first() -> None:
    drawn = [(5, 1.0, -5.0), (6, 0.0, -1.0), (7, 1.0, -2.0), (8, 1.0, -2.0), (5, 1.0, -5.0), (9, 0.5, -0.1)]
    rollouts = [
        Rollout("a", index, (token,), logprob, "stop", Verdict(reward, "why", {}))
        for index, (token, reward, logprob) in enumerate(drawn)
    ]
    assert distinct_successes(rollouts, 1.0) == ((7,), (8,), (5,))
    assert distinct_successes(rollouts[1:2], 1.0) == ()


def test_a_profile_row_has_successes_mean_and_population_variance(profile: pd.DataFrame) -> None:
    assert list(profile["successes"]) == [0, 1, 2, 4, 1]
    assert list(profile["mu"]) == [0.0, 0.25, 0.5, 1.0, 0.25]
    assert list(profile["sigma2"]) == [0.0, 0.1875, 0.25, 0.0, 0.1875]
    assert '"reward":1.0' in profile["components"][1]


def test_every_candidate_is_in_the_pool_or_in_the_drop_report(profile: pd.DataFrame, tmp_path: Path) -> None:
    everything = [candidate(i) for i in range(4)] + [candidate(4, Split.TEST), candidate(5), candidate(6, Split.TEST)]
    pool = build_pool(profile, Pivots(0.6), candidates=everything)
    report = pool.report
    assert (report["candidates"], report["kept"], report["dropped"]) == (7, 2, 5)
    assert report["dropped_by_reason"] == {"all_failed": 1, "all_succeeded": 1, "not_profiled": 1, "split_test": 2}
    assert report["by_domain"] == {
        "software": {"profiled": 1, "kept": 1},
        "tool": {"profiled": 3, "kept": 1},
    }
    assert report["by_decision"] == {"reply": {"profiled": 4, "kept": 2}}
    histogram = {"mu": [0.0, 0.25, 0.5, 0.75, 1.0], "profiled": [1, 1, 1, 0, 1], "kept": [0, 1, 1, 0, 0]}
    assert report["mean_reward_histogram"] == histogram
    write_pool(tmp_path, pool)
    rows = read_pool(tmp_path / "pool.parquet")
    assert [row.candidate for row in rows] == [candidate(1), candidate(2, domain="software")]
    assert [(row.k, row.successes, row.mu, row.sigma2) for row in rows] == [(4, 1, 0.25, 0.1875), (4, 2, 0.5, 0.25)]
    assert [row.found for row in rows] == [((1, 7), (1, 8)), ((2, 7), (2, 8))]
    assert not any(row.censored for row in rows)
    drops = read_table(tmp_path / "drops.parquet", "drops")
    assert len(rows) + len(drops) == len(everything)
    assert set(drops["candidate_id"]) | {row.candidate.id for row in rows} == {one.id for one in everything}


def test_no_pivots_left_stops_and_says_which_condition_removed_what(profile: pd.DataFrame) -> None:
    with pytest.raises(NoPivotsError, match=r"all_failed removed 1, all_succeeded removed 1, mu_not_below_lambda rem"):
        build_pool(profile, Pivots(0.1))


@pytest.mark.parametrize(("malformed", "other", "told"), [
    (8, 6, r"8 of 16 samples were malformed, 6 of them calls in the other format: change data\.tool_format \(comp"),
    (8, 0, r"8 of 16 samples were malformed: look at .*; is data\.tool_format the way this model writes calls\? Raise"),
    (7, 7, r"all_failed removed 4\. Raise lambda_diff"),
])  # fmt: skip
def test_no_pivots_left_because_calls_could_not_be_read_names_the_setting(
    malformed: int, other: int, told: str, tmp_path: Path
) -> None:
    block = '<tool_call>{"name": "find", "arguments": {}}</tool_call>'
    texts = [*[block] * other, *["@find {"] * (malformed - other), *["What do you mean?"] * (16 - malformed)]
    caller = Message(Role.ASSISTANT, tool_calls=(ToolCall("find", "{}"),))
    turns = [replace(candidate(number), expert=caller) for number in range(4)]
    judge = get_verifier("functional")
    verdicts = [judge.verify(turns[i // 4], parse_action(text, "compact")) for i, text in enumerate(texts)]
    rows = [ProfileRow(turn, tuple(verdicts[4 * at : 4 * at + 4])) for at, turn in enumerate(turns)]
    write_profile(tmp_path / "profile.parquet", rows)
    with pytest.raises(NoPivotsError, match=told):
        build_pool(read_profile(tmp_path / "profile.parquet"), Pivots(0.6))


def test_a_pool_file_is_the_same_bytes_twice(profile: pd.DataFrame, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_pool(tmp_path / name, build_pool(profile, Pivots(0.6)))
    for file in ("pool.parquet", "drops.parquet"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.parametrize(
    ("rule", "paid"), [(AllTurns(), 0.0), (RandomTurns(Pivots(0.6)), 0.0), (Pivots(0.6), 24.0)], ids=repr
)
def test_an_arm_pays_for_the_profile_where_its_rule_reads_it(profile: pd.DataFrame, rule: Any, paid: float) -> None:
    report = build_pool(profile, rule).report
    profiles = {"base": {"metrics": {"cost/rollout_turns": 24}}}
    cost = cost_by_arm(["x"], {"x": report}, {"x-0": {"arm": "x", "metrics": {}}}, profiles, {})
    assert cost["x"]["profiling_turns"] == paid

"""From components to rewards: thresholds, credit and comparators are decisions and settings, not code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.config.loading import parse_config
from pivotrl_core.errors import ConfigError
from pivotrl_core.stages.context import Places
from pivotrl_core.stages.verification import configured_verifier
from pivotrl_core.types import Action, Candidate, Message, Role, Tool, ToolCall
from pivotrl_core.verifiers.graded import GradedVerifier
from pivotrl_core.verifiers.protocol import GradingDecision, printable
from pivotrl_core.verifiers.registry import GraderSettings, get_verifier
from pivotrl_core.verifiers.rewards import RewardRule
from pivotrl_core.verifiers.settings import CallCredit, FunctionalSettings
from pivotrl_core.verifiers.tool_call import ToolCallGrader

FOLDER = {"kind": "folder", "path": "trajectories"}
NOTES = [
    "please cancel my order because it came too late",
    "send the parcel to my new address in town",
    "tell the shop that the lamp is broken again",
]


def note_calls(*notes: Any) -> tuple[ToolCall, ...]:
    return tuple(ToolCall("note", json.dumps({"text": note})) for note in notes)


def expecting(*notes: Any, schema: Any = None) -> Candidate:
    tool = Tool("note", "", {"type": "object", "properties": {"text": schema or {"type": "string"}}})
    return Candidate((), (tool,), Message(Role.ASSISTANT, tool_calls=note_calls(*notes)), "t", 0)


def test_another_threshold_is_decided_on_what_was_graded_before() -> None:
    near = [note.replace("the", "a").replace("my", "our") for note in NOTES]
    candidate, action = expecting(*NOTES), Action(tool_calls=note_calls(*reversed(near)))
    grader = ToolCallGrader(FunctionalSettings(text_threshold=0.8))
    components = json.loads(json.dumps(grader.grade(candidate, action)))  # as they come back from a file
    lowest = components["similarity"]
    assert 0.8 < lowest < 1.0
    assert components["matching"][-1] == [lowest, 3]
    for threshold in (0.5, 0.8, lowest, lowest + 1e-6, 1.0):
        other = ToolCallGrader(FunctionalSettings(text_threshold=threshold))
        assert other.decide(components) == other.decide(other.grade(candidate, action))
        assert other.decide(components).accepted == (threshold <= lowest)


@pytest.mark.parametrize(
    ("kind", "expected", "actual", "credit"),
    [
        (CallCredit.FRACTIONAL, "ab", "ac", 1 / 2),
        (CallCredit.FRACTIONAL, "ab", "a", 1 / 2),
        (CallCredit.FRACTIONAL, "ab", "abc", 2 / 3),  # a surplus call costs
        (CallCredit.FRACTIONAL, "a", "b", 0.0),
        (CallCredit.F1, "ab", "ac", 1 / 2),  # 2 * 1 / (2 + 2)
        (CallCredit.F1, "ab", "a", 2 / 3),  # 2 * 1 / (2 + 1)
        (CallCredit.F1, "ab", "abc", 4 / 5),
        (CallCredit.F1, "aab", "aba", 1.0),
        (CallCredit.STRICT, "ab", "abc", 0.0),
        (CallCredit.STRICT, "ab", "ba", 1.0),
    ],
)
def test_calls_that_are_partly_right_have_credit_and_earn_it_where_the_rule_says_so(
    kind: CallCredit, expected: str, actual: str, credit: float
) -> None:
    candidate, action = expecting(*expected), Action(tool_calls=note_calls(*actual))
    settings = GraderSettings(FunctionalSettings(call_credit=kind))
    rule = RewardRule(success=0.9, failure=0.1, partial=True)
    earned = get_verifier("functional", settings, rule).verify(candidate, action)
    assert earned.reward == pytest.approx(0.1 + credit * 0.8)
    whole = get_verifier("functional", settings).verify(candidate, action)
    assert whole.reward == float(credit == 1.0)
    assert (whole.components, whole.reason) == (earned.components, earned.reason)


def test_what_cannot_be_read_may_earn_less_than_a_failure() -> None:
    rule = RewardRule(failure=0.2, malformed=0.05, partial=True)
    verifier = get_verifier("functional", None, rule)
    candidate = expecting("a", "b")
    broken = Action(tool_calls=(*note_calls("a"), ToolCall("note", '{"text": "b"')))
    assert verifier.verify(candidate, broken).reward == 0.05  # though one of its calls is right
    assert verifier.verify(candidate, Action(error="cut off")).reward == 0.05
    assert verifier.verify(candidate, Action(content="Hello.")).reward == 0.2
    assert verifier.verify(candidate, Action(tool_calls=note_calls("b", "a"))).reward == 1.0


@pytest.mark.parametrize(
    "values", [(0.5, 0.6, 0.0), (1.0, 0.1, 0.2), (1.5, 0.0, 0.0), (1.0, 0.0, -0.1), (0.0, 0.0, 0.0)]
)
def test_rewards_out_of_order_are_refused(values: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="malformed <= failure < success"):
        RewardRule(**dict(zip(("success", "failure", "malformed"), values, strict=True)))


@pytest.mark.parametrize(
    ("comparator", "expected", "actual", "same"),
    [
        ("exact", "New York", "new york", False),
        ("exact", "A1", " A1", False),  # which would pass without
        ("identifier", "New York", "new york", False),
        ("identifier", "New York", " New York", True),
        ("caseless", "A1", "a1", True),
        ("caseless", "New York", "York New", False),
        ("words", "New York", "york new", True),
        ("text", "two words", "two wordz", True),
        ("date", "2026-05-12", "12 May 2026", True),
        ("date", "2026-05-12", "2026-05-13", False),
        ("date-time", "2026-05-12T10:00:00Z", "2026-05-12T12:00:00+02:00", True),
        ("time", "10:00", "10:00:00", True),
        ("unordered", ["a", "b"], ["b", "a"], True),
        ("unordered", ["a", "b"], ["b", "b"], False),
        ("ignored", "x", 7, True),
        ("date", 5, 5.0, True),  # other values stay compared by the schema
    ],
)
@pytest.mark.parametrize("tool", ["note", "*"])
def test_a_comparator_that_is_set_goes_before_the_schema(
    tool: str, comparator: str, expected: Any, actual: Any, same: bool
) -> None:
    settings = FunctionalSettings(comparators={tool: {"text": comparator}, "other": {"text": "ignored"}})
    verifier = get_verifier("functional", GraderSettings(settings))
    action = Action(tool_calls=note_calls(actual))
    assert verifier.verify(expecting(expected), action).reward == float(same)


def test_comparators_reach_inside_and_a_tools_own_go_first() -> None:
    comparators = {"*": {"text": "exact"}, "note": {"text[].who.name": "caseless", "text[].id": "ignored"}}
    verifier = get_verifier("functional", GraderSettings(FunctionalSettings(comparators=comparators)))
    candidate = expecting([{"who": {"name": "Ada"}, "id": 1}, {"who": {"name": "Bob"}}])
    for names, same in ((("ADA", "bob"), 1.0), (("ADA", "bo"), 0.0)):
        action = Action(tool_calls=note_calls([{"who": {"name": names[0]}}, {"who": {"name": names[1]}, "id": 4}]))
        assert verifier.verify(candidate, action).reward == same
    bad = FunctionalSettings(comparators={"note": {"text": "nearly"}})
    with pytest.raises(ValueError, match="'nearly' is not a valid Comparator"):
        ToolCallGrader(bad)


def test_texts_in_a_list_without_order_are_matched_as_well_as_they_can_be() -> None:
    near = [note.replace("the", "a") for note in NOTES]
    candidate = expecting(NOTES, schema={"type": "array", "uniqueItems": True})
    verdict = get_verifier("functional").verify(candidate, Action(tool_calls=note_calls([near[2], near[0], NOTES[1]])))
    assert verdict.reward == 1.0
    assert 0.8 < verdict.components["similarity"] < 1.0


def test_a_verdict_names_its_verifier_and_its_time_without_being_another_one_for_it() -> None:
    candidate, action = expecting("a"), Action(tool_calls=note_calls("a"))
    first, second = (GradedVerifier(ToolCallGrader()).verify(candidate, action) for _ in range(2))
    assert first == second
    assert first.verifier == GradedVerifier(ToolCallGrader()).version
    assert first.verifier != GradedVerifier(ToolCallGrader(), RewardRule(partial=True)).version
    assert first.timings["grade"] > 0.0


def test_components_can_be_written_whatever_a_policy_wrote() -> None:
    assert printable("\ud800" * 500) == ("\\ud800" * 200)[:200]
    decision = ToolCallGrader().decide(ToolCallGrader().grade(expecting("a"), Action(error="\ud800\x00" * 300)))
    assert decision == GradingDecision(False, "malformed", 0.0)


def test_a_configuration_sets_comparators_and_rewards_and_its_faults_are_named(tmp_path: Path) -> None:
    section = {
        "comparators": {"note": {"text": "caseless"}},
        "call_credit": "f1",
        "reward": {"success": 0.9, "partial": True},
    }
    config = parse_config(
        {"arms": {"base": {}}, "profile": {"success_threshold": 0.9}, "verifier": section, "source": FOLDER}, "params"
    )
    verifier = configured_verifier(config, Places(tmp_path, tmp_path))
    assert verifier.verify(expecting("A", "b"), Action(tool_calls=note_calls("a"))).reward == pytest.approx(0.6)
    for verifier_section, fault in (
        ({"comparators": {"note": {"text": "nearly"}}}, "verifier.comparators.note.text"),
        ({"reward": {"failure": 1.0}}, "malformed <= failure < success"),
        ({"kind": "nemo-gym", "nemo_gym": {"word_count": 1}}, "verifier.word_count: no such setting"),
        ({"reward": {"success": 0.9}}, "profile.success_threshold"),
    ):
        with pytest.raises(ConfigError, match=fault):
            parse_config({"arms": {"base": {}}, "verifier": verifier_section}, "params")

"""Which actions are interchangeable with the expert's: tables of cases, right, wrong, malformed and truncated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.errors import ConfigError
from pivotrl_core.trajectories.loading import load_trajectories
from pivotrl_core.trajectories.parsing import parse_action
from pivotrl_core.trajectories.response_items import read_items
from pivotrl_core.types import Action, Candidate, Message, Role, Tool, ToolCall
from pivotrl_core.verifiers.protocol import Verifier
from pivotrl_core.verifiers.registry import GraderSettings, get_verifier
from pivotrl_core.verifiers.settings import FunctionalSettings
from pivotrl_core.verifiers.values import MAX_COMPARED, Comparison
from tests.candidate_sets import extract_candidates

PIVOT_ROWS = Path(__file__).parents[2].parent / "shared" / "data" / "pivot_rows"
ROLLOUTS = PIVOT_ROWS / "single_step_tool_use_with_argument_comparison" / "example_rollouts.jsonl"
USER = (Message(Role.USER, "Please."),)


def text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def calls(*arguments: Any, name: str = "f") -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name, text(one)) for one in arguments)


def expecting(expert: Message, schema: Any = None) -> Candidate:
    return Candidate(USER, (Tool("f", "", schema or {}),), expert, "t", 0)


def functional(settings: FunctionalSettings | None = None) -> Verifier:
    return get_verifier("functional", GraderSettings(settings or FunctionalSettings()))


EXACT = get_verifier("exact")


def reward(expected: Any, actual: Any, properties: Any = None, required: tuple[str, ...] = ()) -> float:
    schema = {"type": "object", "properties": properties or {}, "required": list(required)}
    candidate = expecting(Message(Role.ASSISTANT, tool_calls=calls(expected)), schema)
    return functional().verify(candidate, Action(tool_calls=calls(actual))).reward


STRING = {"type": "string"}
LONG = "Please cancel my order 1234 because it came too late"

BRANCHES = {"anyOf": [
    {"type": "object", "properties": {"k": {"const": "a"}, "u": {"default": 1}}},
    {"type": "object", "properties": {"k": {"enum": ["b"]}, "v": {"default": 2}}},
]}  # fmt: skip
REQUIRED = {"oneOf": [
    {"type": "object", "properties": {"q": STRING}, "required": ["q"]},
    {"type": "object", "properties": {"n": {"default": 5}}, "required": ["id"]},
]}  # fmt: skip

CASES: list[tuple[str, Any, Any, Any, float]] = [
    # what, expected arguments, actual arguments, schema of x, reward
    ("equal", {"x": 75}, {"x": 75}, None, 1),
    ("spaces and key order", '{"x": 1, "y": 2}', '{"y":2,"x":1}', None, 1),
    ("whole float", {"x": 1}, {"x": 1.0}, {"type": "integer"}, 1),
    ("whole float expected", {"x": 1.0}, {"x": 1}, {"type": "number"}, 1),
    ("true is not 1", {"x": 1}, {"x": True}, None, 0),
    ("1 is not true", {"x": True}, {"x": 1}, None, 0),
    ("text is not a number", {"x": 75}, {"x": "75"}, {"type": "integer"}, 0),
    ("null is not 0", {"x": 0}, {"x": None}, None, 0),
    ("rounding", {"x": 0.3}, '{"x": 0.30000000000000004}', None, 1),
    ("another number", {"x": 0.3}, {"x": 0.3001}, None, 0),
    ("large numbers are exact", '{"x": 9007199254740993}', '{"x": 9007199254740992}', None, 0),
    ("default left out", {"x": "full"}, {}, {"type": "string", "default": "full"}, 1),
    ("default given", {}, {"x": "full"}, {"type": "string", "default": "full"}, 1),
    ("default by value", {}, {"x": 1.0}, {"type": "integer", "default": 1}, 1),
    ("not the default", {}, {"x": "short"}, {"type": "string", "default": "full"}, 0),
    ("surplus argument", {"x": 1}, {"x": 1, "y": 2}, None, 0),
    ("missing argument", {"x": 1, "y": 2}, {"x": 1}, None, 0),
    ("null of an optional nullable", {}, {"x": None}, {"anyOf": [STRING, {"type": "null"}]}, 1),
    ("null of a plain optional", {}, {"x": None}, STRING, 0),
    ("null of an optional that OpenAPI calls nullable", {}, {"x": None}, {**STRING, "nullable": True}, 1),
    ("a default of the branch that its constant names", {"x": {"k": "b"}}, {"x": {"k": "b", "v": 2}}, BRANCHES, 1),
    ("a default of another branch", {"x": {"k": "b"}}, {"x": {"k": "b", "u": 1}}, BRANCHES, 0),
    ("a branch by the name it requires", {"x": {"id": 1}}, {"x": {"id": 1, "n": 5}}, REQUIRED, 1),
    ("a path in another case", {"x": "/home/My Docs/a.txt"}, {"x": "/home/my docs/a.txt"}, STRING, 0),
    ("a relative path in another case", {"x": "My Docs/A.txt"}, {"x": "my docs/a.txt"}, STRING, 0),
    ("a path with spaces, as it is", {"x": "/home/My Docs/a.txt"}, {"x": "/home/My Docs/a.txt "}, STRING, 1),
    ("enum by character", {"x": "card"}, {"x": "Card"}, {"enum": ["card", "credit"]}, 0),
    ("full-width letters", {"x": "card"}, {"x": "ｃａｒｄ"}, {"enum": ["card"]}, 1),
    ("composed accent", {"x": "\u00c9lan"}, {"x": "E\u0301lan"}, STRING, 1),
    ("outer space", {"x": "A1"}, {"x": " A1 "}, STRING, 1),
    ("case of an identifier", {"x": "A1"}, {"x": "a1"}, STRING, 0),
    ("case that the schema ignores", {"x": "A1"}, {"x": "a1"}, {**STRING, "x-ignore-case": True}, 1),
    ("sign that the schema ignores", {"x": "#A1"}, {"x": "A1"}, {**STRING, "x-ignore-prefix": "#"}, 1),
    ("words under a pattern", {"x": "A 1"}, {"x": "a 1"}, {**STRING, "pattern": "^A 1$"}, 0),
    ("email in capitals", {"x": "a@b.c"}, {"x": "A@B.C"}, {**STRING, "format": "email"}, 1),
    ("a name in any case", {"x": "New York"}, {"x": "new  york"}, STRING, 1),
    ("a name without its space", {"x": "New York"}, {"x": "NewYork"}, STRING, 0),
    ("another name", {"x": "red mug"}, {"x": "red rug"}, STRING, 0),
    ("free text, one word changed", {"x": LONG}, {"x": LONG.replace("came", "was")}, STRING, 1),
    ("free text, another number", {"x": LONG}, {"x": LONG.replace("1234", "1235")}, STRING, 0),
    ("free text, another sign", {"x": f"{LONG} -5"}, {"x": f"{LONG} 5"}, STRING, 0),
    ("free text, another minus sign", {"x": f"{LONG} (-5)"}, {"x": f"{LONG} (\u22125)"}, STRING, 1),
    ("free text, a dash is no sign", {"x": f"{LONG} 2026-05-12"}, {"x": f"{LONG} 2026/05/12"}, STRING, 1),
    ("free text, something else", {"x": LONG}, {"x": "The weather in 1234 is quite nice today"}, STRING, 0),
    ("a day as people say it", {"x": "2026-05-12"}, {"x": "12 May"}, {**STRING, "format": "date"}, 1),
    ("a day, month first", {"x": "2026-05-12"}, {"x": "May 12th, 2026"}, {**STRING, "format": "date"}, 1),
    ("another year", {"x": "2026-05-12"}, {"x": "12 May 2025"}, {**STRING, "format": "date"}, 0),
    ("another day", {"x": "2026-05-12"}, {"x": "13 May"}, {**STRING, "format": "date"}, 0),
    ("no such day", {"x": "2026-02-28"}, {"x": "2026-02-30"}, {**STRING, "format": "date"}, 0),
    ("an ambiguous day", {"x": "2026-05-06"}, {"x": "05/06/2026"}, {**STRING, "format": "date"}, 0),
    ("a day without format", {"x": "2026-05-12"}, {"x": "12 May"}, STRING, 0),
    (
        "one instant in two zones",
        {"x": "2026-05-12T10:00:00Z"},
        {"x": "2026-05-12T12:00:00+02:00"},
        {**STRING, "format": "date-time"},
        1,
    ),
    (
        "with and without a zone",
        {"x": "2026-05-12T10:00:00Z"},
        {"x": "2026-05-12T10:00:00"},
        {**STRING, "format": "date-time"},
        0,
    ),
    (
        "an instant in small letters",
        {"x": "2026-05-12T10:00Z"},
        {"x": "2026-05-12t10:00:00z"},
        {**STRING, "format": "date-time"},
        1,
    ),
    ("a time of day", {"x": "10:00"}, {"x": "10:00:00"}, {**STRING, "format": "time"}, 1),
    (
        "numbers that changed places in a text",
        {"x": "move the whole order from shelf 3 to shelf 5 today"},
        {"x": "move the whole order from shelf 5 to shelf 3 today"},
        STRING,
        0,
    ),
    ("a set in another order", {"x": ["a", "b"]}, {"x": ["b", "a"]}, {"type": "array", "uniqueItems": True}, 1),
    ("a set with another member", {"x": ["a", "b"]}, {"x": ["b", "b"]}, {"type": "array", "uniqueItems": True}, 0),
    ("a list without order", {"x": ["a", "b"]}, {"x": ["b", "a"]}, {"type": "array", "x-unordered": True}, 1),
    ("a list in another order", {"x": ["a", "b"]}, {"x": ["b", "a"]}, {"type": "array"}, 0),
    ("a longer list", {"x": ["a"]}, {"x": ["a", "b"]}, {"type": "array"}, 0),
    (
        "a default deep inside",
        {"x": [{"a": 1}]},
        {"x": [{"a": 1, "b": 2}]},
        {"items": {"properties": {"b": {"default": 2}}}},
        1,
    ),
    ("a nested difference", {"x": {"a": {"b": 1}}}, {"x": {"a": {"b": 2}}}, None, 0),
    ("broken JSON", {"x": 1}, '{"x": 1', None, 0),
    ("empty arguments", {}, "", None, 0),
    ("a list of arguments", {}, "[]", None, 0),
    ("a key given twice", {"x": 1}, '{"x": 2, "x": 1}', None, 0),
    ("not a number", {"x": 1}, '{"x": NaN}', None, 0),
]


@pytest.mark.parametrize(
    ("expected", "actual", "schema", "score"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_arguments_are_compared_by_what_they_mean(expected: Any, actual: Any, schema: Any, score: float) -> None:
    assert reward(expected, actual, {"x": schema} if schema else None) == score


def test_a_required_argument_is_never_filled_in() -> None:
    assert reward({"x": "full"}, {}, {"x": {"type": "string", "default": "full"}}, required=("x",)) == 0


def test_a_referenced_schema_is_followed() -> None:
    schema = {
        "properties": {"where": {"$ref": "#/$defs/place"}},
        "$defs": {"place": {"properties": {"unit": {"default": "m"}}}},
    }
    candidate = expecting(Message(Role.ASSISTANT, tool_calls=calls({"where": {"x": 1}})), schema)
    action = Action(tool_calls=calls({"where": {"unit": "m", "x": 1}}))
    assert functional().verify(candidate, action).reward == 1


def test_a_default_that_holds_itself_ends() -> None:
    node = {"type": "object", "properties": {"a": {"$ref": "#/$defs/n", "default": {}}}}
    candidate = expecting(Message(Role.ASSISTANT, tool_calls=calls({})), {**node, "$defs": {"n": node}})
    for arguments, accepted in (("{ }", 1.0), ('{"a": {"a": {}}}', 1.0), ('{"a": {"a": {"b": 1}}}', 0.0)):
        assert functional().verify(candidate, Action(tool_calls=calls(arguments))).reward == accepted


def test_lists_without_order_inside_of_others_are_compared_as_far_as_is_reasonable() -> None:
    schema = {"type": "object", "properties": {"x": {"uniqueItems": True, "items": {"uniqueItems": True}}}}
    rows = [[*range(59), 100 + row] for row in range(60)]
    others = [[*row[:-1], -1] for row in rows]  # every pair of rows would be tried, and of each every pair of items
    comparison = Comparison(schema)
    assert comparison.score({"x": rows}, {"x": [list(row) for row in rows]}, schema) == 1.0
    assert comparison.compared[0] < 10_000  # in order already: no pairs to try
    comparison = Comparison(schema)
    assert not comparison.score({"x": rows}, {"x": others}, schema)
    assert comparison.compared[0] < MAX_COMPARED + 10_000
    distinct = [list(range(60 * row, 60 * row + 60)) for row in range(60)]
    turned = [list(reversed(row)) for row in reversed(distinct)]
    assert Comparison(schema).score({"x": distinct}, {"x": turned}, schema)


@pytest.mark.parametrize(
    "unseen", ["\u2800", "\u3164 \u115f\u1160\uffa0", "\ufe0f\u034f", "\u00ad\u200b\u00a0"], ids=ascii
)
def test_a_message_that_nobody_can_see_is_no_answer(unseen: str) -> None:
    candidate = expecting(Message(Role.ASSISTANT, "It is done."))
    for verifier in (functional(), EXACT):
        assert verifier.verify(candidate, parse_action(unseen, "compact")).reason == "no_answer"
        assert verifier.verify(candidate, parse_action(f"{unseen}e\u0301", "compact")).reason != "no_answer"


@pytest.mark.parametrize("end", ["", "</think>", "</think>\n"])
def test_thinking_in_any_number_of_blocks_says_nothing(end: str) -> None:
    candidate = expecting(Message(Role.ASSISTANT, "It is done."))
    for count in range(1, 5):
        action = parse_action("<think>a</think>\n" * count + f"<think>done{end}", "compact")
        assert functional().verify(candidate, action).reward == 0.0


def test_the_threshold_of_free_text_is_a_setting_and_identical_text_always_passes() -> None:
    strict = functional(FunctionalSettings(text_threshold=1.0))
    candidate = expecting(Message(Role.ASSISTANT, tool_calls=calls({"x": LONG})))
    assert strict.verify(candidate, Action(tool_calls=calls({"x": LONG}))).reward == 1
    near = strict.verify(candidate, Action(tool_calls=calls({"x": LONG.replace("came", "was")})))
    assert near.reward == 0
    assert near.components["difference"] == ".x: value"
    assert 0.9 < near.components["similarity"] < 1.0


A, B = ToolCall("f", '{"x": 1}'), ToolCall("g", '{"x": 2}')
TWO = Message(Role.ASSISTANT, tool_calls=(A, B))
ONE = Message(Role.ASSISTANT, tool_calls=(A,))
WORDS = Message(Role.ASSISTANT, "Which order do you mean?")


@pytest.mark.parametrize(
    ("expert", "action", "score", "reason"),
    [
        (ONE, Action(tool_calls=(A,)), 1, "accepted"),
        (ONE, Action(content="Let me look.", tool_calls=(A,)), 1, "accepted"),
        (ONE, Action(tool_calls=(ToolCall("F", A.arguments),)), 0, "name_differs"),
        (ONE, Action(tool_calls=(ToolCall("f", "{}"),)), 0, "arguments_differ"),
        (ONE, Action(content="Which one?"), 0, "call_expected"),
        (ONE, Action(content=" \n\u200b"), 0, "no_answer"),
        (ONE, Action(text="@f {", error="arguments of f: missing brace"), 0, "malformed"),
        (ONE, Action(tool_calls=(ToolCall("f", '{"x": 1'),)), 0, "malformed"),
        (ONE, Action(tool_calls=(A, B)), 0, "count_differs"),
        (ONE, Action(tool_calls=(A, A)), 0, "count_differs"),
        (TWO, Action(tool_calls=(B, A)), 1, "accepted"),
        (TWO, Action(tool_calls=(A,)), 0, "count_differs"),
        (TWO, Action(tool_calls=(A, A)), 0, "name_differs"),
        (TWO, Action(tool_calls=(A, ToolCall("g", '{"x": 3}'))), 0, "arguments_differ"),
        (WORDS, Action(content="Sure, one moment."), 1, "accepted"),
        (WORDS, Action(content=""), 0, "no_answer"),
        (WORDS, Action(content="", thinking="hm"), 0, "no_answer"),
        (WORDS, Action(content="<think>hm</think>\n"), 0, "no_answer"),
        (WORDS, Action(tool_calls=(A,)), 0, "message_expected"),
        (WORDS, Action(content="Sure.", tool_calls=(A,)), 0, "message_expected"),
    ],
)
def test_the_decision_comes_before_names_and_names_before_arguments(
    expert: Message, action: Action, score: float, reason: str
) -> None:
    verdict = functional().verify(expecting(expert), action)
    assert (verdict.reward, verdict.reason) == (score, reason)


def test_messages_are_compared_where_a_threshold_is_set() -> None:
    verifier = functional(FunctionalSettings(message_threshold=0.8))
    assert verifier.verify(expecting(WORDS), Action(content="which order do you mean")).reward == 1
    verdict = verifier.verify(expecting(WORDS), Action(content="Goodbye."))
    assert (verdict.reward, verdict.reason) == (0, "message_differs")


def test_a_domain_can_name_actions_that_are_the_same_at_a_state() -> None:
    class ByAnyKey:
        name = "shop"

        def same_call(self, candidate: Candidate, expected: ToolCall, actual: ToolCall) -> bool:
            return {expected.name, actual.name} == {"find_by_id", "find_by_email"}

        def same_message(self, candidate: Candidate, expected: str, actual: str) -> bool:
            return expected.endswith("?") == actual.endswith("?")

    candidate = expecting(Message(Role.ASSISTANT, tool_calls=(ToolCall("find_by_id", '{"id": "A1"}'),)))
    action = Action(tool_calls=(ToolCall("find_by_email", '{"email": "a@b.c"}'),))
    assert get_verifier("functional").verify(candidate, action).reward == 0
    verifier = get_verifier("functional", GraderSettings(rules=ByAnyKey()))
    assert verifier.verify(candidate, action).reward == 1
    broken = Action(tool_calls=(ToolCall("find_by_email", '{"email": "x", "email": "a@b.c"}'),))
    verdict = verifier.verify(candidate, broken)
    assert (verdict.reward, verdict.reason) == (0, "malformed")  # a domain is not asked about what cannot be read
    verdict = verifier.verify(expecting(Message(Role.ASSISTANT, "Which one?")), Action(content="It is done."))
    assert (verdict.reward, verdict.reason) == (0, "message_differs")
    assert verifier.verify(expecting(Message(Role.ASSISTANT, "Which one?")), Action(content="What?")).reward == 1
    assert verifier.version != get_verifier("functional").version  # stored verdicts are those of one domain


@pytest.mark.parametrize(
    ("expert", "action", "score"),
    [
        (ONE, Action(tool_calls=(A,)), 1),
        (ONE, Action(tool_calls=(ToolCall("f", '{"x":1}'),)), 0),
        (ONE, Action(content="word", tool_calls=(A,)), 1),
        (TWO, Action(tool_calls=(A, B)), 1),
        (TWO, Action(tool_calls=(B, A)), 0),
        (TWO, Action(tool_calls=(A,)), 0),
        (WORDS, Action(content="\nWhich order do you mean? "), 1),
        (WORDS, Action(content="Which order?"), 0),
        (WORDS, Action(tool_calls=(A,)), 0),
        (ONE, Action(content="@f"), 0),
        (ONE, Action(tool_calls=(A,), error="broken"), 0),
    ],
)
def test_exact_match_is_text_equality(expert: Message, action: Action, score: float) -> None:
    assert EXACT.verify(expecting(expert), action).reward == score


@pytest.mark.skipif(not ROLLOUTS.is_file(), reason="the folder of real files is absent")
def test_real_rollouts_get_the_rewards_that_nemo_gym_gave_them() -> None:
    candidates = extract_candidates(load_trajectories([ROLLOUTS]).trajectories, 0.0, 0.0).candidates
    for candidate in candidates:
        row = candidate.metadata["nemo_row"]
        output = read_items(row["response"]["output"], "response.output")[-1]
        action = Action(content=output.content, tool_calls=output.tool_calls)
        assert functional().verify(candidate, action).reward == row["reward"]
    assert len(candidates) == 5


def test_a_version_changes_with_the_settings_and_an_unknown_kind_is_named() -> None:
    versions = {functional(FunctionalSettings(text_threshold=t)).version for t in (0.7, 0.8)}
    assert len(versions) == 2
    assert functional().version in versions
    assert get_verifier("exact").name == "exact"
    with pytest.raises(ConfigError, match="functional, exact"):
        get_verifier("fuzzy")


def test_a_default_may_stand_behind_a_reference() -> None:
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/D"}}, "$defs": {"D": {**STRING, "default": "q"}}}
    candidate = expecting(Message(Role.ASSISTANT, tool_calls=calls({})), schema)
    assert functional().verify(candidate, Action(tool_calls=calls({"x": "q"}))).reward == 1

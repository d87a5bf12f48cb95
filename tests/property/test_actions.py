"""Whatever a policy writes, and whatever a schema says: parsing and verifying give a verdict and never raise."""

from __future__ import annotations

import json
from typing import Any

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl_core.trajectories.formatting import ToolFormat, format_turn
from pivotrl_core.trajectories.parsing import parse_action
from pivotrl_core.types import Action, Candidate, Message, Role, Tool, ToolCall
from pivotrl_core.verifiers.matching import complete_score, matching_steps, maximum_matching
from pivotrl_core.verifiers.registry import get_verifier

TEXT = st.text(st.characters(), max_size=30)  # surrogates and NUL among them
SCALARS = st.none() | st.booleans() | st.integers() | st.integers(10**300, 10**400) | st.floats() | TEXT
KEYS = st.sampled_from("abc") | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4))
SCHEMA_KEYS = st.sampled_from([
    "type", "properties", "required", "items", "default", "enum", "format", "pattern", "anyOf", "oneOf", "allOf",
    "$ref", "$defs", "uniqueItems", "additionalProperties", "x-ignore-case", "x-ignore-prefix", "a", "b",
])  # fmt: skip
WORDS = st.sampled_from(["string", "integer", "null", "array", "object", "date", "date-time", "time", "#", "#/$defs/a"])
SCHEMAS = st.recursive(
    SCALARS | WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCHEMA_KEYS, inner, max_size=5)
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
NESTED = st.integers(1, 3000).map(lambda depth: '{"a": ' + "[" * depth + "]" * depth + "}")
ARGUMENTS = TEXT | NESTED | OBJECTS.map(json.dumps) | st.just('{"a": 1' + "0" * 5000 + "}")
NAMES = st.sampled_from(["f", "g"]) | TEXT
CALLS = st.lists(st.builds(ToolCall, NAMES, ARGUMENTS), max_size=3).map(tuple)
ACTIONS = st.builds(Action, TEXT, CALLS, TEXT, st.just("") | TEXT)
CLEAN = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
CLEAN_OBJECTS = st.dictionaries(
    CLEAN,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | CLEAN,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CLEAN, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=3,
)


@given(ACTIONS, st.builds(Message, st.just(Role.ASSISTANT), TEXT, CALLS), st.dictionaries(SCHEMA_KEYS, SCHEMAS))
@settings(max_examples=300, deadline=None)
def test_any_action_under_any_schema_gets_a_verdict_that_can_be_stored(
    action: Action, expert: Message, schema: dict[str, Any]
) -> None:
    candidate = Candidate((), (Tool("f", "", schema), Tool("g")), expert, "t", 0)
    for verifier in (get_verifier("functional"), get_verifier("exact")):
        verdict = verifier.verify(candidate, action)
        assert verdict.reward in (0.0, 1.0)
        assert verdict.reason
        json.dumps(dict(verdict.components), allow_nan=False, ensure_ascii=False).encode("utf-8")


@given(CLEAN_OBJECTS, st.dictionaries(SCHEMA_KEYS, SCHEMAS))
@settings(max_examples=200, deadline=None)
def test_the_experts_own_action_is_accepted_under_any_schema_however_it_is_spaced(
    arguments: dict[str, Any], schema: dict[str, Any]
) -> None:
    expert = Message(Role.ASSISTANT, tool_calls=(ToolCall("f", json.dumps(arguments)),))
    candidate = Candidate((), (Tool("f", "", schema),), expert, "t", 0)
    spaced = ToolCall("f", json.dumps(arguments, indent=2, ensure_ascii=False))
    assert get_verifier("functional").verify(candidate, Action(tool_calls=expert.tool_calls)).reward == 1
    assert get_verifier("functional").verify(candidate, Action(tool_calls=(spaced,))).reward == 1


@given(st.text(max_size=60) | st.text("@f {}\"':<>/_tcalhinkomnegur\n", max_size=60), st.sampled_from(ToolFormat))
@settings(max_examples=500)
def test_any_text_is_parsed_to_an_action_that_keeps_it(text: str, tool_format: ToolFormat) -> None:
    action = parse_action(text, tool_format, (Tool("f"),))
    assert action.text == text
    assert not (action.error and action.tool_calls)


@given(
    st.lists(st.tuples(st.from_regex(r"[A-Za-z0-9_.-]{1,12}", fullmatch=True), CLEAN_OBJECTS), min_size=1, max_size=3),
    st.sampled_from(ToolFormat),
    st.sampled_from([None, 1]),
)
@settings(max_examples=300, deadline=None)
def test_what_is_written_as_calls_is_read_as_the_same_calls(
    pairs: list[tuple[str, Any]], tool_format: ToolFormat, indent: int | None
) -> None:
    calls = tuple(ToolCall(name, json.dumps(value, ensure_ascii=False, indent=indent)) for name, value in pairs)
    action = parse_action(format_turn(Message(Role.ASSISTANT, tool_calls=calls), tool_format), tool_format)
    assert (action.error, action.tool_calls) == ("", calls)


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), max_size=6))
@settings(max_examples=200)
def test_matching_is_as_large_as_an_independent_library_finds(matrix: list[list[bool]]) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(("e", e) for e in range(len(matrix)))
    graph.add_edges_from((("e", e), ("a", a)) for e, row in enumerate(matrix) for a, fits in enumerate(row) if fits)
    pairs = nx.bipartite.maximum_matching(graph, top_nodes=[("e", e) for e in range(len(matrix))])
    assert maximum_matching(matrix) == len(pairs) // 2


@given(st.lists(st.lists(st.sampled_from([0.0, 0.3, 0.5, 1.0]), min_size=4, max_size=4), max_size=5))
@settings(max_examples=200)
def test_a_matching_grows_while_the_score_that_it_asks_for_falls(scores: list[list[float]]) -> None:
    steps = matching_steps(scores)
    for threshold in (0.1, 0.3, 0.4, 0.5, 0.9, 1.0):
        reached = maximum_matching([[score >= threshold for score in row] for row in scores])
        assert max((size for score, size in steps if score >= threshold), default=0) == reached
    if len(scores) == 4:
        complete = [score for score, size in steps if size == 4]
        assert complete_score(scores) == max(complete, default=0.0)

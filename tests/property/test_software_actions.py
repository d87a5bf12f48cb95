"""Whatever a coding agent calls: a verdict in bounded time, the same for the same call, and the same both ways."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pivotrl_core.types import Action, Candidate, Message, Role, Tool, ToolCall
from pivotrl_core.verifiers.graded import GradedVerifier
from pivotrl_core.verifiers.software.grader import SoftwareGrader
from pivotrl_core.verifiers.software.source import read_source, same_source

VERIFIER = GradedVerifier(SoftwareGrader())
NAMES = st.sampled_from([
    "str_replace_editor", "edit", "Write", "MultiEdit", "apply_patch", "execute_bash", "bash", "Grep", "Glob", "Read",
    "find_file", "goto", "insert", "think", "finish", "todo_write", "jira",
])  # fmt: skip
KEYS = st.sampled_from([
    "command", "path", "file_path", "view_range", "old_str", "new_str", "file_text", "content", "pattern", "query",
    "insert_line", "start_line", "end_line", "offset", "limit", "edits", "replace_all", "patch", "x", "-i",
])  # fmt: skip
TEXT = st.text(st.characters(), max_size=20)  # surrogates and NUL among them
CODE = st.text("x=(){}[]'\"#\\\n :,1.def\t", max_size=40)
COMMANDS = st.text("ls -a|;&$(){}'\"\\\n<>cdgrep #`", max_size=30) | st.sampled_from(
    ["ls", "cd a && ls", "edit 1:2\nx\n"]
)
WORDS = st.sampled_from(["view", "create", "str_replace", "insert", "a.py", "/w/a.py", "src", "x = 1", "[1, -1]"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | CODE | COMMANDS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
ARGUMENTS = OBJECTS.map(json.dumps) | TEXT
CALLS = st.lists(st.builds(ToolCall, NAMES | TEXT, ARGUMENTS), max_size=3).map(tuple)
ACTIONS = st.builds(Action, TEXT, CALLS, TEXT, st.just("") | TEXT)
TOOLS = st.lists(st.builds(Tool, NAMES, TEXT, st.dictionaries(st.sampled_from(["required", "properties"]), VALUES)))


def verify(expert: tuple[ToolCall, ...], action: Action, tools: tuple[Tool, ...] = ()) -> Any:
    candidate = Candidate((), tools, Message(Role.ASSISTANT, tool_calls=expert), "t", 0, "software")
    return VERIFIER.verify(candidate, action)


@given(CALLS, ACTIONS, TOOLS.map(tuple))
@example(
    (ToolCall("jira", "{}"),), Action(tool_calls=(ToolCall("jira", "{}"),)), (Tool("jira", "", {"required": [[]]}),)
)
@settings(max_examples=150, deadline=None)
def test_any_action_gets_a_verdict_that_can_be_stored(
    expert: tuple[ToolCall, ...], action: Action, tools: tuple[Tool, ...]
) -> None:
    verdict = verify(expert, action, tools)
    assert verdict.reward in (0.0, 1.0)
    stored = json.dumps(dict(verdict.components), allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert len(stored) < 5_000
    assert 0.0 <= verdict.components.get("similarity", 0.0) <= 1.0


@given(NAMES, OBJECTS.filter(lambda value: json.dumps(value).count("NaN") + json.dumps(value).count("Inf") == 0))
@settings(max_examples=100, deadline=None)
def test_the_experts_own_call_is_accepted_with_similarity_1_in_any_order_of_keys(name: str, value: Any) -> None:
    expert = (ToolCall(name, json.dumps(value)),)
    turned = ToolCall(name, json.dumps(dict(reversed(value.items())), indent=1))
    for call in (expert[0], turned):
        verdict = verify(expert, Action(tool_calls=(call,)))
        if value or call is expert[0]:
            assert (verdict.reward, verdict.components["similarity"]) == (1.0, 1.0)


@given(NAMES, NAMES, OBJECTS, st.dictionaries(KEYS, VALUES, max_size=1))
@settings(max_examples=200, deadline=None)
def test_which_side_is_the_experts_makes_no_difference(first: str, second: str, one: Any, changed: Any) -> None:
    calls = (ToolCall(first, json.dumps(one)), ToolCall(second, json.dumps({**one, **changed})))
    forth, back = (verify((calls[i],), Action(tool_calls=(calls[1 - i],))) for i in (0, 1))
    assert forth.reward == back.reward
    assert forth.components["similarity"] == back.components["similarity"]


@given(CODE, CODE, st.sampled_from(["a.py", "a.js", "a.md"]))
@settings(max_examples=300, deadline=None)
def test_sources_are_the_same_both_ways_and_with_white_space_at_their_ends(one: str, two: str, path: str) -> None:
    first, second = read_source(one, path), read_source(two, path)
    assert same_source(first, second) is same_source(second, first)
    assert same_source(first, first)
    if path != "a.py":  # in Python white space at an end may close or open a string
        assert same_source(first, read_source(one + " \n\n", path))


HUGE = 1_000_000
HOSTILE = [
    ("bash", {"command": "(" * 15_000}, {"command": "(" * 15_001}),
    ("bash", {"command": "cd a; " * 100_000}, {"command": "cd b; " * 100_000}),
    ("bash", {"command": "A=1 " * 5_000 + "x"}, {"command": "A=1 " * 5_000 + "y"}),
    ("bash", {"command": "x" * HUGE}, {"command": "y" * HUGE}),
    ("Edit", {"old_string": "a", "new_string": "(" * 50_000}, {"old_string": "a", "new_string": "(" * 50_001}),
    ("Edit", {"old_string": " " * HUGE, "new_string": " "}, {"old_string": " " * HUGE, "new_string": "  "}),
    ("Write", {"path": "a.py", "content": "a," * 24_000}, {"path": "a.py", "content": "a, " * 16_000}),
    ("Write", {"path": "a.py", "content": "a.b" * 6_000}, {"path": "a.py", "content": "(a.b" + "a.b" * 5_999 + ")"}),
    ("Write", {"path": "a.py", "content": '"""' + '\\"""' * 9_000}, {"path": "a.py", "content": "'" * 40_000}),
    ("Write", {"path": "a.js", "content": "\n" * (HUGE // 4)}, {"path": "a.js", "content": "x\n" * (HUGE // 4)}),
    ("Read", {"path": "a/" * 100_000}, {"path": "a//" * 100_000}),
    ("jira", {"a": [[1] * 300] * 300}, {"a": [[2] * 300] * 300}),
]


@pytest.mark.parametrize(("name", "one", "two"), HOSTILE)
def test_no_size_or_shape_takes_long(name: str, one: dict[str, Any], two: dict[str, Any]) -> None:
    first, second = ToolCall(name, json.dumps(one)), ToolCall(name, json.dumps(two))
    started = time.process_time()
    assert verify((first,), Action(tool_calls=(second,))).reward == 0.0
    assert verify((first,), Action(tool_calls=(second,) * 20)).reward == 0.0
    assert time.process_time() - started < 5.0

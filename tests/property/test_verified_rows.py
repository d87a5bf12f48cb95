"""Whatever a row and its answer are: a verdict that can be written, or an error that says why there is none."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pivotrl_core.errors import DataError
from pivotrl_core.types import Action, Candidate, Message, Role, Tool, ToolCall
from pivotrl_core.verifiers.registry import get_verifier
from pivotrl_core.verifiers.rows import verify_row
from pivotrl_core.verifiers.similarity import text_similarity

TEXT = st.text(st.characters(), max_size=20)  # surrogates and NUL among them
KEYS = st.sampled_from(["type", "name", "arguments", "content", "role", "text", "calls", "commands", "path"]) | TEXT
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(["f", "bash", "edit", "grep", "view"])
OBJECTS = st.dictionaries(
    st.sampled_from(["command", "path", "old_str", "new_str", "view_range", "content", "x"]), JSON, max_size=3
)
DEEP = st.integers(1, 3000).map(lambda depth: "[" * depth + "]" * depth)
ARGUMENTS = OBJECTS.map(json.dumps) | TEXT | DEEP | st.just("1" + "0" * 5000)
CALL = st.fixed_dictionaries({"type": st.just("function_call"), "name": NAMES, "arguments": ARGUMENTS})
MESSAGE = st.fixed_dictionaries({"type": st.just("message"), "role": st.just("assistant"), "content": TEXT | JSON})
TERMINUS = st.fixed_dictionaries({
    "analysis": TEXT, "plan": TEXT, "commands": st.lists(st.fixed_dictionaries({"keystrokes": TEXT}), max_size=2),
}).map(json.dumps)  # fmt: skip
BATCH = st.fixed_dictionaries({"type": st.just("function_call_batch"), "calls": st.lists(CALL, max_size=3)})
ROWS = st.fixed_dictionaries(
    {"response": st.lists(CALL | MESSAGE, max_size=3) | TERMINUS | TEXT | JSON},
    optional={
        "expected_action": CALL | MESSAGE | BATCH | JSON,
        "expected_answer": TERMINUS | DEEP | TEXT | CALL.map(json.dumps),
        "metadata": st.just({"harness": "terminus_2"}) | JSON,
        "pivot_tags": JSON,
        "threshold": JSON,
        "verifier": st.just({"mode": "continuous", "parallel_tool_call_rewarding": True}) | JSON,
        "responses_create_params": JSON,
    },
)
WORDS = st.text("ab -5\u00e9\u0301\u2160", max_size=30)


@given(ROWS, st.sampled_from(["", "tool", "software", "terminal", "search", "code"]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_row_has_a_verdict_or_an_error(row: Any, domain: str, compat: bool) -> None:
    try:
        found = verify_row(row, domain, compat)
    except DataError:
        return
    assert 0.0 <= found["reward"] <= 1.0
    json.dumps(found, allow_nan=False)


@given(WORDS, WORDS)
@example("5 a", "-5 a")
@settings(max_examples=300)
def test_similarity_of_texts_is_symmetric_between_0_and_1_and_1_of_the_same(first: str, second: str) -> None:
    assert 0.0 <= text_similarity(first, second) <= 1.0
    assert text_similarity(first, second) == text_similarity(second, first)
    assert text_similarity(first, first) == 1.0


@given(
    st.dictionaries(st.sampled_from("abcd"), st.dictionaries(st.sampled_from("xyz"), JSON, max_size=3)), st.randoms()
)
@settings(max_examples=60, deadline=None)
def test_the_order_of_keys_never_matters(arguments: dict[str, Any], random: Any) -> None:
    def shuffled(value: dict[str, Any]) -> dict[str, Any]:
        return dict(random.sample(sorted(value.items(), key=lambda item: item[0]), len(value)))

    # Infinity is not JSON: the same text passes, and any other is malformed.
    assume(not re.search("NaN|Infinity", json.dumps(arguments)))
    expected = {key: shuffled(value) for key, value in arguments.items()}
    actual = shuffled({key: shuffled(value) for key, value in arguments.items()})
    expert = Message(Role.ASSISTANT, tool_calls=(ToolCall("f", json.dumps(expected)),))
    action = Action(tool_calls=(ToolCall("f", json.dumps(actual)),))
    candidate = Candidate((), (Tool("f"),), expert, "t", 0)
    broken = get_verifier("functional").verify(
        candidate, Action(tool_calls=(ToolCall("f", json.dumps(expected) + " "),))
    )
    assert get_verifier("functional").verify(candidate, action).reward == broken.reward

"""Whatever a browsing agent does: a verdict in bounded time, the same for the same step, and the same both ways."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl_core.types import Action, Candidate, Message, Role, ToolCall
from pivotrl_core.verifiers.graded import GradedVerifier
from pivotrl_core.verifiers.search.answers import marked_answer, plain_answer
from pivotrl_core.verifiers.search.grader import SearchGrader
from pivotrl_core.verifiers.search.urls import plain_url

VERIFIER = GradedVerifier(SearchGrader())
NAMES = st.sampled_from(["search", "web_search", "open", "visit", "find", "final_answer", "calculator"])
KEYS = st.sampled_from(["query", "queries", "url", "id", "cursor", "pattern", "answer", "text", "top_k", "lang"])
TEXT = st.text(st.characters(), max_size=20)  # surrogates and NUL among them
URLS = st.builds(
    "{}{}{}".format, st.sampled_from(["http://", "https://", "", "ftp://"]), st.text("a.b:@[]ü%", max_size=12),
    st.text("/?#&=a%2é+.", max_size=16),
)  # fmt: skip
PHRASES = st.lists(
    st.sampled_from(["river", "rivers", "the", "from", "to", "1990", "-car", "site:a.b", "5%", "$3", "million", "not"]),
    max_size=6,
).map(" ".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | URLS | PHRASES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=5,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
CALLS = st.lists(st.builds(ToolCall, NAMES | TEXT, OBJECTS.map(json.dumps) | TEXT), max_size=3).map(tuple)
ACTIONS = st.builds(Action, TEXT | PHRASES, CALLS, TEXT, st.just("") | TEXT)


def verify(expert: tuple[ToolCall, ...], action: Action, content: str = "") -> Any:
    candidate = Candidate((), (), Message(Role.ASSISTANT, content, expert), "t", 0, "search")
    return VERIFIER.verify(candidate, action)


@given(CALLS, ACTIONS, TEXT | PHRASES)
@settings(max_examples=150, deadline=None)
def test_any_action_gets_a_verdict_that_can_be_stored(
    expert: tuple[ToolCall, ...], action: Action, content: str
) -> None:
    verdict = verify(expert, action, content)
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


@given(TEXT.filter(str.strip) | PHRASES.filter(str.strip))
@settings(max_examples=150, deadline=None)
def test_the_experts_own_words_are_accepted(content: str) -> None:
    verdict = verify((), Action(content), content)
    assert verdict.reward == 1.0 or verdict.reason == "no_answer"


@given(NAMES, NAMES, OBJECTS, st.dictionaries(KEYS, VALUES, max_size=1))
@settings(max_examples=200, deadline=None)
def test_which_side_is_the_experts_makes_no_difference(first: str, second: str, one: Any, changed: Any) -> None:
    calls = (ToolCall(first, json.dumps(one)), ToolCall(second, json.dumps({**one, **changed})))
    forth, back = (verify((calls[i],), Action(tool_calls=(calls[1 - i],))) for i in (0, 1))
    assert forth.reward == back.reward
    assert forth.components["similarity"] == back.components["similarity"]


@given(URLS)
@settings(max_examples=300, deadline=None)
def test_the_form_of_a_url_is_its_own_form(url: str) -> None:
    plain = plain_url(url)
    if plain is not None:
        full = plain if plain.startswith("ftp:") else f"http:{plain}"
        assert plain_url(full) in (plain, None)


HOSTILE = [
    ("search", {"query": "a " * 500_000}, {"query": "b " * 500_000}),
    ("search", {"queries": [f"river {n}" for n in range(500)]}, {"queries": [f"lake {n}" for n in range(500)]}),
    ("open", {"url": "http://a.com/" + "../" * 300_000}, {"url": "http://a.com/" + "%41" * 300_000}),
    ("open", {"url": "a." * 3_000 + "com/x"}, {"url": "http://" + "a-" * 3_000}),
    ("open", {"url": "http://" + "ü" * 3_900}, {"url": "http://" + "ä" * 3_900}),
    ("final_answer", {"answer": "1" * 500_000}, {"answer": "1" * 499_999 + "2"}),
    ("final_answer", {"answer": ["a " * 9_000] * 8}, {"answer": ["b " * 9_000] * 8}),
    ("final_answer", {"answer": ["a " * 240] * 8}, {"answer": ["b " * 240] * 8}),
    ("final_answer", {"answer": "1,111" * 100_000}, {"answer": "1e999 million " * 50_000}),
    ("final_answer", {"answer": "answer" * 80_000}, {"answer": "answer: *" * 80_000}),
    ("final_answer", {"answer": "<answer>" * 80_000}, {"answer": "\\boxed{" * 80_000}),
]


@pytest.mark.parametrize(("name", "one", "two"), HOSTILE)
def test_no_size_or_shape_takes_long(name: str, one: dict[str, Any], two: dict[str, Any]) -> None:
    first, second = ToolCall(name, json.dumps(one)), ToolCall(name, json.dumps(two))
    started = time.process_time()
    assert verify((first,), Action(tool_calls=(second,))).reward == 0.0
    assert verify((first,), Action(tool_calls=(second,) * 20)).reward == 0.0
    assert time.process_time() - started < 5.0


@given(st.text("answer:=*_ \n<>/\\boxed{}$5.,%-milion", max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_has_an_answer(text: str) -> None:
    assert marked_answer(text) in text
    assert plain_answer(text) == plain_answer(f" {text}\n")

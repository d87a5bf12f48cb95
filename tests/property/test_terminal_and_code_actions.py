"""No text raises in the graders of terminal and code turns; equal texts are accepted; similarity is symmetric."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl_core.types import Action, Candidate, Message, Role
from pivotrl_core.verifiers.code_grader import CodeGrader
from pivotrl_core.verifiers.shell import normal_form
from pivotrl_core.verifiers.terminal import TerminalGrader

ANY = st.text(st.characters(codec=None))
SHELL = st.lists(
    st.sampled_from([
        "ls", "-l", "-a", "'a b'", '"$X"', "&&", ";", "|", ">", "f", "\n", "cd", "x", "$(", ")", "<<E", "E", "if",
        "then", "fi", "#", "\\", "2>&1", "&", "{", "}", "*", "`", "\ud800",
    ]),
    max_size=12,
).map(" ".join)  # fmt: skip
KEYS = st.one_of(ANY, SHELL)


def terminus(keystrokes: str) -> str:
    return json.dumps({"analysis": "", "plan": "", "commands": [{"keystrokes": keystrokes}]})


def at(expert: str, domain: str) -> Candidate:
    return Candidate((), (), Message(Role.ASSISTANT, expert), "t", 0, domain)


@given(KEYS)
@settings(deadline=None)
def test_every_text_has_a_form_or_none_and_always_the_same(text: str) -> None:
    assert normal_form(text) == normal_form(text)


@given(KEYS, KEYS)
@settings(deadline=None)
def test_similarity_of_keystrokes_is_symmetric_and_in_range(one: str, other: str) -> None:
    grader = TerminalGrader()
    first, second = (
        grader.grade(at(terminus(a), "terminal"), Action(terminus(b))) for a, b in ((one, other), (other, one))
    )
    assert first["similarity"] == second["similarity"]
    assert 0.0 <= first["similarity"] <= 1.0
    assert first["commands"] == second["commands"]
    assert first["commands"] == "differ" or first["similarity"] == 1.0


@given(KEYS)
@settings(deadline=None)
def test_the_experts_own_keystrokes_are_accepted(keys: str) -> None:
    grader = TerminalGrader()
    assert grader.decide(grader.grade(at(terminus(keys), "terminal"), Action(terminus(keys)))).accepted


@given(ANY, ANY)
@settings(deadline=None)
def test_no_text_raises(expert: str, answer: str) -> None:
    for grader, domain in ((TerminalGrader(), "terminal"), (CodeGrader(), "code")):
        components = grader.grade(at(expert, domain), Action(answer))
        decision = grader.decide(json.loads(json.dumps(components)))
        assert 0.0 <= decision.credit <= 1.0
        assert not components["executed"]

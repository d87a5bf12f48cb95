"""No action, however strange, makes the help desk raise; and every state it leads to survives a snapshot."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl_core.environments.helpdesk.catalogue import TOOLS
from pivotrl_core.environments.helpdesk.environment import MAX_TURNS, HelpdeskEnvironment
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.types import Action, Split, ToolCall

TASKS = get_domain("helpdesk").tasks(Split.TEST, 34, 11)
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)
KNOWN_TEXT = st.sampled_from(
    [word for task in TASKS for order in task.content["database"]["orders"] for word in (order["id"], order["email"])]
    + ["12 May", "2026-05-12", "mug", "evening", "card", "late", "555-0142", "7 Elm Road"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | KNOWN_TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3))
ARGUMENT_NAMES = st.sampled_from(sorted({name for tool in TOOLS for name in tool.parameters["properties"]}))
ARGUMENTS = st.dictionaries(ARGUMENT_NAMES | ANY_TEXT, VALUES, max_size=4).map(json.dumps)
CALLS = st.builds(ToolCall, st.sampled_from([tool.name for tool in TOOLS]) | ANY_TEXT, ARGUMENTS | ANY_TEXT, ANY_TEXT)
TALK = st.builds(Action, content=ANY_TEXT | st.sampled_from(["Which order?", "Let me see.", "Done.", "Anything else?"]))
ACTIONS = (
    TALK
    | st.builds(Action, tool_calls=st.lists(CALLS, min_size=1, max_size=3).map(tuple), content=ANY_TEXT)
    | st.builds(Action, text=ANY_TEXT, error=ANY_TEXT)
)


@settings(max_examples=150, deadline=None)
@given(task=st.sampled_from(TASKS), actions=st.lists(ACTIONS, min_size=1, max_size=MAX_TURNS + 2))
def test_no_sequence_of_actions_raises_and_snapshots_are_exact(task, actions):
    environment = HelpdeskEnvironment()
    environment.reset(task)
    for action in actions:
        other = HelpdeskEnvironment()
        other.restore(environment.snapshot())
        observation = environment.step(action)
        assert other.step(action) == observation
        assert other.snapshot() == environment.snapshot()
        assert environment.score().success in (0.0, 1.0)
        for message in observation.messages:
            message.content.encode("utf-8")
        assert observation.done or observation.messages
    assert len(actions) < MAX_TURNS or observation.done


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(), count=st.integers(0, 20), split=st.sampled_from(list(Split)))
def test_tasks_are_prefix_stable_for_any_seed(seed, count, split):
    domain = get_domain("helpdesk")
    assert domain.tasks(split, count, seed) == domain.tasks(split, 20, seed)[:count]

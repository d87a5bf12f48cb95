"""What the help desk takes for the same call, the functional verifier does too: by the schemas, and by `same_call`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pivotrl_core.environments.helpdesk.environment import HelpdeskEnvironment
from pivotrl_core.environments.recording import iter_trajectories, write_trajectories
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.trajectories.loading import load_trajectories
from pivotrl_core.types import Action, Candidate, Message, Role, Split, ToolCall
from pivotrl_core.verifiers.registry import get_verifier

DOMAIN = get_domain("helpdesk")
VERIFIER = get_verifier("functional", domain_rule=DOMAIN.same_call)


def candidates(messages: tuple[Message, ...]) -> Iterator[Candidate]:
    for index, message in enumerate(messages):
        if message.role is Role.ASSISTANT:
            yield Candidate(messages[:index], HelpdeskEnvironment().tools, message, "t", index)


def test_written_trajectories_are_read_back_whole(tmp_path):
    trajectories = list(iter_trajectories(DOMAIN, Split.TEST, 34, 0))
    write_trajectories(tmp_path / "rows.jsonl", trajectories)
    loaded = load_trajectories([tmp_path / "rows.jsonl"])
    assert loaded.report.drops == []
    assert [t.id for t in loaded.trajectories] == [t.id for t in trajectories]
    for read, written in zip(loaded.trajectories, trajectories, strict=True):
        assert (read.messages, read.tools, read.group) == (written.messages, written.tools, written.group)
        assert read.metadata["family"] == written.metadata["family"]


def test_the_expert_of_one_seed_accepts_the_expert_of_another_at_the_same_state():
    """Two experts agree at a state: the calls lead to equal databases, and the verifier says that they are equal."""
    compared = 0
    for task in DOMAIN.tasks(Split.TEST, 170, 5):
        seen: dict[str, Candidate] = {}
        for seed in range(6):
            for candidate in candidates(DOMAIN.expert_trajectory(task, seed).messages):
                other = seen.setdefault(json.dumps([m.content for m in candidate.state]), candidate)
                if not (candidate.expert.tool_calls and other.expert.tool_calls):
                    continue
                verdict = VERIFIER.verify(other, Action(tool_calls=candidate.expert.tool_calls))
                same_tool = candidate.expert.tool_calls[0].name == other.expert.tool_calls[0].name
                assert verdict.reward == float(same_tool), (verdict, candidate.expert, other.expert)
                compared += other is not candidate
    assert compared > 200


BOTH = "Order K2041, under nina42@post.example."


@pytest.mark.parametrize(
    ("said", "expected", "actual", "same"),
    [
        ([BOTH], {"order_id": "K2041"}, {"email": "nina42@post.example"}, True),
        ([BOTH], {"email": "nina42@post.example"}, {"order_id": "k2041"}, True),
        ([BOTH], {"order_id": "K2041"}, {"order_id": "K2041", "email": "nina42@post.example"}, True),
        ([BOTH], {"order_id": "K2041"}, {"order_id": "K2042"}, False),
        ([BOTH], {"order_id": "K2041"}, {"phone": "555-0142"}, False),
        ([BOTH], {"order_id": "K2041"}, {}, False),
        (["Order K2041.", "Sorry, it is K2042."], {"order_id": "K2042"}, {"order_id": "K2041"}, False),
        ([], {"order_id": "K2042"}, {"order_id": "K2041"}, False),
    ],
)
def test_look_ups_by_keys_of_one_message_are_the_same(said, expected, actual, same):
    state = tuple(Message(Role.USER, text) for text in said)
    calls = [ToolCall("find_order", json.dumps(arguments)) for arguments in (expected, actual)]
    candidate = Candidate(state, HelpdeskEnvironment().tools, Message(Role.ASSISTANT, tool_calls=(calls[0],)), "t", 1)
    assert DOMAIN.same_call(candidate, *calls) is same
    assert VERIFIER.verify(candidate, Action(tool_calls=(calls[1],))).reward == float(same)
    assert not DOMAIN.same_call(candidate, calls[0], ToolCall("cancel_order", calls[1].arguments))

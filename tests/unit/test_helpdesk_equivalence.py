"""What the help desk takes for the same action, the functional verifier does too: by schemas, and by domain rules."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pivotrl_core.environments.helpdesk.environment import HelpdeskEnvironment
from pivotrl_core.environments.recording import iter_trajectories, to_openai_row
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.files import write_jsonl
from pivotrl_core.trajectories.loading import load_trajectories
from pivotrl_core.types import Action, Candidate, Message, Role, Split, ToolCall
from pivotrl_core.verifiers.registry import GraderSettings, get_verifier

DOMAIN = get_domain("helpdesk")
VERIFIER = get_verifier("functional", GraderSettings(rules=DOMAIN))


def candidates(messages: tuple[Message, ...]) -> Iterator[Candidate]:
    for index, message in enumerate(messages):
        if message.role is Role.ASSISTANT:
            yield Candidate(messages[:index], HelpdeskEnvironment().tools, message, "t", index)


def test_written_trajectories_are_read_back_whole(tmp_path):
    trajectories = list(iter_trajectories(DOMAIN, Split.TEST, 34, 0))
    write_jsonl(tmp_path / "rows.jsonl", map(to_openai_row, trajectories))
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


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("What is your order number?", "Please tell me the order number.", True),
        ("What is your order number?", "All done.", False),
        ("What is your order number?", "I cannot find that order.", False),
        ("Which items do you want to return?", "The return is booked.", False),
        ("What is your order number?", "One moment.", False),
        ("Which day suits you?", "Sorry, it has shipped, so I cannot move it.", False),
        ("There is no such order. What is the right number?", "I did not find it.", True),
        ("Sorry, it has shipped, so I cannot cancel it.", "I\u2019m afraid that can\u2019t be done.", True),
        ("Sorry, it has shipped, so I cannot cancel it.", "Done, it is cancelled.", False),
        ("Done, order K2041 is cancelled.", "I have cancelled it. Anything else?", True),
        ("Done, order K2041 is cancelled.", "Sorry, I cannot cancel it.", False),
        ("It arrives on 12 May.", "You can expect it on May 12th.", True),
        ("It arrives on 2 May.", "It arrives on 12 May.", False),
        ("It arrives on 12 May.", "It is on its way.", False),
        ("It arrives on 12 May.", "It arrives on 2026-5-12.", True),
        ("It arrives on 12 May.", "It arrives on 112 May.", False),
        ("It arrives on 12 May.", "Order K2012 may be late.", False),
        ("The total is 35.", "Order K2041 costs 35 in all.", True),
        ("It arrives on 12 May.", "It arrives on 11 May or 12 May or 13 May.", False),
        ("The total is 84.", f"It is {' or '.join(map(str, range(60, 99)))}.", False),
        ("The total is 35.", "The total is 35, for 2 mugs.", True),
        ("The total is 35.", "well " * 300 + "35", False),
        ("Done, order K2041 is cancelled.", "I found your order and cancelled it. This cannot be undone.", True),
        ("Done, order K2041 is cancelled.", "Sorry, I couldn't cancel order K2041.", False),
        ("The total is 35.", "The total is 135.", False),
        ("The total is 35.", "It arrives on 12 May.", False),
        ("Order K2041 is updated.", "", False),
    ],
)
def test_messages_that_the_user_takes_for_the_same_before_an_order_was_found(expected, actual, same):
    candidate = Candidate((Message(Role.USER, "Hello"),), (), Message(Role.ASSISTANT, expected), "t", 1)
    assert VERIFIER.verify(candidate, Action(content=actual)).reward == float(same)


def test_an_answer_may_repeat_what_was_shown_before():
    shown = Message(Role.TOOL, '{"items": [["mug", 2, 10], ["lamp", 1, 15]], "date": "2026-05-12", "total": 35}')
    said = "2 mugs at 10 and 1 lamp at 15 make 35."
    for state, same in (((shown,), True), ((), False)):
        candidate = Candidate(state, (), Message(Role.ASSISTANT, "The total is 35."), "t", 1)
        assert DOMAIN.same_message(candidate, "The total is 35.", said) is same


ALTERNATIVES = (
    "What is the order number?", "Which date would you like?", "Please give me the items.", "One moment, let me look.",
    "Done.", "It is cancelled. Anything else?", "Sorry, I cannot do that.", "I cannot find it.",
    "It arrives on 12 May.", "I found the order and changed it.", "I found the order, but I cannot do that.",
    "Order K2041 is on its way.", "ok " * 400,
)  # fmt: skip


def test_a_message_that_is_taken_for_the_expert_s_leaves_the_user_and_the_score_where_the_expert_s_does():
    accepted = refused = 0
    for task in DOMAIN.tasks(Split.TRAIN, 60, 3):
        messages = DOMAIN.expert_trajectory(task, 0).messages
        environment = HelpdeskEnvironment()
        environment.reset(task)
        for candidate in candidates(messages):
            message = candidate.expert
            before = environment.snapshot()
            environment.step(Action(message.content, message.tool_calls))
            after = environment.snapshot()
            for text in ALTERNATIVES if not message.tool_calls else ():
                environment.restore(before)
                environment.step(Action(content=text))
                if not DOMAIN.same_message(candidate, message.content, text):
                    refused += 1
                    continue
                accepted += 1
                ours, theirs = json.loads(environment.snapshot())["user"], json.loads(after)["user"]
                assert len(ours.pop("told")) == len(theirs.pop("told")), (message.content, text)
                assert ours == theirs, (message.content, text)
                if ours["ending"]:
                    assert environment.score().success == 1.0, (message.content, text)
            environment.restore(after)
    assert accepted > 200
    assert refused > 200

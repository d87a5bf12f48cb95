"""Episodes at the help desk, played by hand on one small scenario whose values are written out here."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pivotrl_core.environments.helpdesk.catalogue import TOOLS
from pivotrl_core.environments.helpdesk.database import Customer, Database, Order, Status
from pivotrl_core.environments.helpdesk.environment import HelpdeskEnvironment
from pivotrl_core.environments.helpdesk.expert import play_expert
from pivotrl_core.environments.helpdesk.scenario import (
    Detail,
    Kind,
    Scenario,
    Topic,
    UserRequest,
    Write,
    scenario_to_json,
)
from pivotrl_core.environments.helpdesk.user import Intent, intent_of
from pivotrl_core.environments.helpdesk.wording import INSIST, UNANSWERED
from pivotrl_core.environments.protocol import Task
from pivotrl_core.environments.recording import Recorder
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.errors import DataError, PivotRLError
from pivotrl_core.types import Action, Split, ToolCall

EMAIL = "nina42@post.example"
DATABASE = Database(
    customers=(Customer("nina", EMAIL, "555-0142"),),
    orders=(
        Order("K2041", EMAIL, {"mug": 2, "lamp": 1}, Status.PENDING, "2026-05-12", "7 Elm Road", "Oslo"),
        Order("B3055", EMAIL, {"rug": 1}, Status.DELIVERED, "2026-04-20", "7 Elm Road", "Oslo"),
        Order("C4077", EMAIL, {"tea": 3}, Status.SHIPPED, "2026-05-08", "7 Elm Road", "Oslo"),
    ),
)
DAY = Detail(Topic.DAY, "On 20 May.")
NUMBER = Detail(Topic.ORDER, "It is order K2041.", ({"order_id": "K2041"},))
MOVE = UserRequest(
    Kind.DELIVERY,
    "K2041",
    "Please move my delivery.",
    details=(NUMBER, DAY),
    writes=(Write("schedule_delivery", {"order_id": "K2041", "date": "2026-05-20", "slot": "morning"}),),
)
ASK = UserRequest(Kind.ARRIVAL, "K2041", "When does it come?", details=(NUMBER,), answers=("2026-05-12", "12 May"))
TOLD_MOVE, TOLD_ASK = (replace(request, details=()) for request in (MOVE, ASK))  # of a user who has said all there is
REFUSED = UserRequest(Kind.CANCEL, "C4077", "Please cancel order C4077.", refused=True)


def start(*requests: UserRequest) -> Recorder:
    scenario = Scenario(0, DATABASE, requests, idle="That is all.", agree="Yes, please.")
    task = Task("task-1", "by-hand", Split.TEST, json.loads(json.dumps(scenario_to_json(scenario))))
    return Recorder(HelpdeskEnvironment(), task)


def success(recorder: Recorder) -> float:
    return recorder.environment.score().success


def read(recorder: Recorder, order_id: str = "K2041") -> None:
    assert "error" not in recorder.call("find_order", {"order_id": order_id})


def test_a_request_that_is_read_written_and_confirmed_succeeds():
    desk = start(MOVE)
    assert desk.say("What is your order number?") == "It is order K2041."
    read(desk)
    assert desk.say("Which day?") == "On 20 May."
    assert desk.call("schedule_delivery", {"order_id": "K2041", "date": "2026-05-20"}) == '{"ok": "delivery set"}'
    assert success(desk) == 0.0  # nobody has told the user yet
    assert desk.say("Done, it is moved.") == ""
    assert desk.done
    assert success(desk) == 1.0


@pytest.mark.parametrize(
    "arguments",
    [
        {"order_id": "K2041", "date": "2026-05-20"},
        {"date": "2026-05-20", "order_id": "K2041", "slot": "morning"},
        {"date": "20 May", "order_id": "k2041"},
        {"date": "May 20th", "slot": "morning", "order_id": "#K2041"},
    ],
)
@pytest.mark.parametrize(
    "key", [{"order_id": "K2041"}, {"order_id": "k2041"}, {"email": "NINA42@post.example"}, {"phone": "555-0142"}]
)
def test_functional_variety_ends_in_the_same_state(key: dict[str, str], arguments: dict[str, str]):
    desk = start(TOLD_MOVE)
    desk.call("find_order", key)
    desk.call("schedule_delivery", arguments)
    desk.say("Done.")
    assert success(desk) == 1.0


def test_an_order_is_found_by_any_key():
    desk = start(MOVE)
    for key in ({"email": "NINA42@post.example"}, {"phone": "555-0142"}):
        assert desk.call("find_order", key) == (
            '{"orders": ["K2041 pending: lamp, mug", "B3055 delivered: rug", "C4077 shipped: tea"]}'
        )
    assert desk.call("find_order", {"order_id": "K2041"}) == (
        '{"order": "K2041", "status": "pending", "items": "1 lamp, 2 mug", "total": 46, "arrives": "12 May"}'
    )


def test_numbers_count_by_value_and_lists_as_sets():
    quantity = Write("change_quantity", {"order_id": "K2041", "item": "mug", "quantity": 3})
    desk = start(replace(TOLD_MOVE, kind=Kind.QUANTITY, writes=(quantity,)))
    read(desk)
    desk.act(Action(tool_calls=(ToolCall("change_quantity", '{"order_id":"K2041","item":"MUG","quantity":3.0}'),)))
    desk.say("Done.")
    assert success(desk) == 1.0


def test_a_wrong_value_fails_on_the_database():
    desk = start(TOLD_MOVE)
    read(desk)
    desk.call("schedule_delivery", {"order_id": "K2041", "date": "2026-05-21"})
    desk.say("Done.")
    assert desk.environment.score().components["database"] is False
    assert success(desk) == 0.0


def test_a_question_needs_its_answer_said_and_the_order_read():
    cases = (
        ("On 12 May.", True, 1.0), ("Soon.", True, 0.0), ("On 12 May.", False, 0.0),
        ("On 11 May or 12 May or 13 May.", True, 0.0), ("12 May; C4077 on 8 May, B3055 on 20 April.", True, 1.0),
    )  # fmt: skip
    for text, reads, expected in cases:
        desk = start(TOLD_ASK)
        if reads:
            read(desk)
        desk.say(text)
        assert success(desk) == expected


def test_a_refusal_needs_reading_saying_no_and_no_write():
    for text, reads, expected in (
        ("Sorry, I can\u2019t cancel it.", True, 1.0),
        ("Done, cancelled.", True, 0.0),
        ("I cannot do that.", False, 0.0),
    ):
        desk = start(REFUSED)
        if reads:
            read(desk, "C4077")
            assert "error" in desk.call("cancel_order", {"order_id": "C4077"})
        desk.say(text)
        assert success(desk) == expected


def test_the_second_wish_comes_when_the_first_is_served():
    desk = start(TOLD_ASK, replace(MOVE, opening="Then move it.", details=(DAY,)))
    read(desk)
    assert desk.say("It arrives on 12 May. Anything else?") == "Then move it."
    assert desk.say("On which day?") == "On 20 May."
    desk.call("schedule_delivery", {"order_id": "K2041", "date": "2026-05-20"})
    desk.say("Done.")
    assert success(desk) == 1.0


def test_the_user_answers_the_question_that_was_asked_and_never_runs_dry():
    desk = start(MOVE)
    assert desk.say("What date would you like?") == "On 20 May."
    assert desk.say("Can you help me?") == "It is order K2041."
    assert desk.say("Do you want the morning?") == "Yes, please."
    assert desk.say("What date was it again?") == "On 20 May."
    assert desk.say("Who are you?") == ""
    assert desk.environment.score().components["ending"] == "user_left"


def test_a_user_with_something_left_to_tell_tells_it_whatever_is_said():
    desk = start(MOVE)
    assert desk.say("Done, it is moved.") == "It is order K2041."
    assert desk.say("Sorry, it has shipped, so I cannot move it.") == "On 20 May."
    read(desk)
    desk.call("schedule_delivery", {"order_id": "K2041", "date": "2026-05-20"})
    desk.say("Done.")
    assert success(desk) == 1.0


def test_a_refusal_that_no_rule_asks_for_is_contested_and_an_unanswered_question_is_asked_again():
    desk = start(TOLD_MOVE)
    read(desk)
    assert desk.say("Sorry, I cannot move it.") == INSIST
    desk.call("schedule_delivery", {"order_id": "K2041", "date": "2026-05-20"})
    assert desk.say("I was wrong, it is moved. That cannot be undone.") == ""
    assert success(desk) == 1.0
    desk = start(TOLD_ASK)
    for reply in (UNANSWERED, UNANSWERED, ""):
        assert desk.say("Order K2041 is on its way.") == reply
    assert desk.environment.score().components["ending"] == "user_left"


def test_a_number_not_found_is_no_refusal_while_the_user_knows_more():
    desk = start(MOVE)
    assert desk.say("I cannot find your order.") == "It is order K2041."


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("", Intent.EMPTY),
        (" \n", Intent.EMPTY),
        ("Which order?", Intent.ASK),
        ("Please tell me the day.", Intent.ASK),
        ("Let me check.", Intent.WAIT),
        ("I'll cancel it now.", Intent.WAIT),
        ("Done. Anything else?", Intent.CLOSE),
        ("Your order is cancelled.", Intent.CLOSE),
        ("I cannot do that.", Intent.CLOSE),
        ("asdf", Intent.CLOSE),
    ],
)
def test_intents_are_read_off_the_text(text: str, intent: Intent):
    assert intent_of(text) is intent


@pytest.mark.parametrize(
    ("name", "raw", "error"),
    [
        ("fly", "{}", "no such tool"),
        ("find_order", "{", "not valid JSON"),
        ("find_order", "[]", "must be an object"),
        ("find_order", "NaN", "not valid JSON"),
        ("find_order", "{}", "not valid"),
        ("find_order", '{"order_id": "Z9999"}', "no such order"),
        ("find_order", '{"order_id": 7}', "must be of type string"),
        ("find_order", '{"name": "nina"}', "unknown argument"),
        ("find_order", '{"order_id": "K2041", "email": "other@post.example"}', "no such order"),
        ("find_order", '{"email": "' + "x" * 10_000_000 + '"}', "too long"),
        ("cancel_order", "[" * 1500, "not valid JSON"),
        ("cancel_order", '{"order_id": ' + "[" * 800 + "]" * 800 + "}", "error"),
        ("cancel_order", "{}", "order_id is missing"),
        ("cancel_order", '{"order_id": "K2041", "reason": "bored"}', "must be one of"),
        ("cancel_order", '{"order_id": "C4077"}', "order is shipped"),
        ("return_items", '{"order_id": "K2041", "items": ["mug"]}', "order is pending"),
        ("return_items", '{"order_id": "B3055", "items": ["mug"]}', "not in the order"),
        ("return_items", '{"order_id": "B3055", "items": []}', "items is not valid"),
        ("schedule_delivery", '{"order_id": "K2041", "date": "2026-05-04"}', "not in the future"),
        ("schedule_delivery", '{"order_id": "K2041", "date": "soon"}', "date is not valid"),
        ("change_quantity", '{"order_id": "K2041", "item": "mug", "quantity": true}', "must be of type integer"),
        ("change_quantity", '{"order_id": "K2041", "item": "mug", "quantity": 1e999}', "error"),
        ("change_quantity", '{"order_id": "K2041", "item": "mug", "quantity": 2.5}', "must be of type integer"),
    ],
)
def test_a_bad_call_comes_back_as_an_error_and_changes_nothing(name: str, raw: str, error: str):
    desk = start(TOLD_ASK)
    desk.call("find_order", {"phone": "555-0142"})
    (message,) = desk.act(Action(tool_calls=(ToolCall(name, raw, "call_9"),)))
    assert error in message.content
    assert list(json.loads(message.content)) == ["error"]
    assert len(message.content) < 120
    assert message.tool_call_id == "call_9"
    desk.say("On 12 May.")
    assert success(desk) == 1.0
    assert desk.environment.score().components["tool_errors"] == 1


def test_a_write_before_a_look_up_is_refused():
    assert "find the order first" in start(MOVE).call("cancel_order", {"order_id": "K2041"})


def test_an_item_is_returned_once():
    desk = start(ASK)
    read(desk, "B3055")
    assert "ok" in desk.call("return_items", {"order_id": "B3055", "items": ["Rug"]})
    assert "returned already" in desk.call("return_items", {"order_id": "B3055", "items": ["rug"]})


def test_malformed_actions_and_surplus_calls_are_told_to_the_agent():
    desk = start(ASK)
    (message,) = desk.act(Action(text="<tool_call>{", error="no closing brace"))
    assert message.content == '{"error": "malformed call: no closing brace"}'
    calls = tuple(ToolCall("find_order", '{"order_id": "K2041"}', f"call_{i}") for i in range(9))
    messages = desk.act(Action(tool_calls=calls))
    assert [message.tool_call_id for message in messages] == [call.call_id for call in calls]
    assert "too many calls" in messages[8].content
    assert "pending" in messages[7].content


def test_the_turn_limit_ends_the_episode_and_nothing_follows_it():
    desk = start(ASK)
    for _ in range(10):
        assert not desk.done
        read(desk)
    assert desk.done
    assert desk.environment.score().components["ending"] == "turn_limit"
    assert desk.environment.step(Action(content="On 12 May.")).messages == ()
    assert success(desk) == 0.0


@pytest.mark.parametrize("text", ["", "Done.", "I cannot do that.", "What is your order number?", "{}", "On 12 May."])
def test_an_agent_that_only_talks_scores_nothing_anywhere(text: str):
    environment = HelpdeskEnvironment()
    for task in get_domain("helpdesk").tasks(Split.TEST, 170, 4):
        environment.reset(task)
        while not environment.step(Action(content=text)).done:
            pass
        assert environment.score().success == 0.0


def test_an_episode_restored_at_any_turn_goes_on_as_if_nothing_had_happened():
    for task in get_domain("helpdesk").tasks(Split.TEST, 34, 9):
        expert = play_expert(task, 0)
        actions = [Action(m.content, m.tool_calls) for m in expert.messages if m.role == "assistant"]
        whole = HelpdeskEnvironment()
        whole.reset(task)
        for action in actions:
            other = HelpdeskEnvironment(max_turns=3)
            other.restore(whole.snapshot())
            assert other.snapshot() == whole.snapshot()
            assert other.step(action) == whole.step(action)
            assert other.snapshot() == whole.snapshot()
            assert other.score() == whole.score()
        assert whole.score().success == 1.0


def test_a_wrong_snapshot_and_a_missing_reset_are_clear_errors():
    environment = HelpdeskEnvironment()
    with pytest.raises(PivotRLError, match="reset or restore"):
        environment.step(Action())
    for snapshot in (b"", b"{}", b"[]", b'{"schema_version": 2}', b"\xff"):
        with pytest.raises(DataError):
            environment.restore(snapshot)


def test_optional_arguments_carry_defaults_in_the_schema():
    for tool in TOOLS[1:]:
        properties = tool.parameters["properties"]
        assert all("default" in properties[name] for name in properties if name not in tool.parameters["required"])

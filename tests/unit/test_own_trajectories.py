"""Logs as teams have them: calls in text, one row a model call, prompts beside the messages, state at a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.trajectories.drops import DropReason, DropReport
from pivotrl_core.trajectories.loading import iterate_trajectories
from pivotrl_core.trajectories.turns import candidate_positions
from pivotrl_core.types import Message, Role, Split, ToolCall, Trajectory
from tests import trajectory_rows as rows

SYSTEM = Message(Role.SYSTEM, "Be kind.")
IN_TEXT = '<think>hm</think>I look.\n<tool_call>\n{"name": "find", "arguments": {"id": "A1"}}\n</tool_call>'
SAID = "<tool_response>\non its way\n</tool_response>"
READ = Message(Role.ASSISTANT, "I look.", (ToolCall("find", '{"id": "A1"}'),), thinking="hm")


def read(folder: Path, *values: Any) -> tuple[list[Trajectory], DropReport]:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    report = DropReport()
    kept = list(iterate_trajectories([file], report))
    assert report.read == report.kept + len(report.drops)
    return kept, report


@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize("key", ["messages", "conversations"])
def test_calls_and_results_in_the_text_of_chat_messages_are_calls_and_results(
    tmp_path: Path, key: str, role: str
) -> None:
    messages = [
        {"role": "system", "content": f"Be kind.\n<tools>\n{json.dumps(rows.FIND)}\n</tools>"}, rows.USER,
        {"role": "assistant", "content": IN_TEXT}, {"role": role, "content": SAID}, rows.ANSWER,
    ]  # fmt: skip
    [trajectory], _ = read(tmp_path, {key: messages})
    assert trajectory.messages[2:4] == (READ, Message(Role.TOOL, "on its way"))
    assert [tool.name for tool in trajectory.tools] == ["find"]


def test_what_a_user_says_beside_results_stays_and_a_question_about_the_marks_is_a_question(tmp_path: Path) -> None:
    both = {"role": "user", "content": f"{SAID}{SAID.replace('on its way', 'late')}\nAnd now?"}
    twice = {"role": "assistant", "content": IN_TEXT + IN_TEXT.removeprefix("<think>hm</think>I look.\n")}
    asked = {"role": "user", "content": f"What does {SAID} mean?"}
    [trajectory], _ = read(tmp_path, {"messages": [rows.USER, twice, both, rows.ANSWER, asked, rows.ANSWER]})
    roles = [str(message.role) for message in trajectory.messages]
    assert roles == ["user", "assistant", "tool", "tool", "user", "assistant", "user", "assistant"]
    assert [one.content for one in trajectory.messages[2:5]] == ["on its way", "late", "And now?"]


def test_text_that_calls_were_read_from_is_not_said_again(tmp_path: Path) -> None:
    turn = {"role": "assistant", "content": IN_TEXT, "tool_calls": [rows.CALL]}
    [trajectory], _ = read(tmp_path, {"messages": [rows.USER, turn, rows.RESULT, {**rows.ANSWER, "weight": 0}]})
    assert (trajectory.messages[1].content, len(trajectory.messages[1].tool_calls)) == ("I look.", 1)
    assert candidate_positions(trajectory) == [1]


def test_a_call_in_text_that_cannot_be_read_is_a_drop(tmp_path: Path) -> None:
    kept, report = read(tmp_path, {"messages": [rows.USER, {"role": "assistant", "content": "<tool_call>{'a'"}]})
    assert kept == []
    assert [(drop.reason, drop.field) for drop in report.drops] == [
        (DropReason.ARGUMENTS_NOT_JSON, "messages[1].content")
    ]


def test_messages_of_openai_under_conversations_keep_calls_ids_and_reasoning(tmp_path: Path) -> None:
    turn = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [rows.CALL]}
    [trajectory], _ = read(tmp_path, {"conversations": [rows.USER, turn, rows.RESULT, rows.ANSWER], "domain": "shop"})
    assert trajectory.messages[1] == Message(
        Role.ASSISTANT, "", (ToolCall("find", '{"id": "A1"}', "c1"),), thinking="hm"
    )
    assert trajectory.messages[2].tool_call_id == "c1"
    assert trajectory.domain == "shop"


@pytest.mark.parametrize(
    "row",
    [
        {**rows.CHAT, "system": "Be kind."},
        {**rows.CHAT, "system": [{"type": "text", "text": "Be kind."}]},
        {"system": "Be kind.", "messages": [{"role": "system", "content": "Be kind."}, *rows.CHAT["messages"]]},
        {"request": {"input": [rows.USER]}, "response": {"instructions": "Be kind.", "output": rows.OUTPUT}},
    ],
)
def test_a_system_prompt_beside_the_messages_is_read_once(tmp_path: Path, row: Any) -> None:
    [trajectory], _ = read(tmp_path, row)
    assert [one for one in trajectory.messages if one.role is Role.SYSTEM] == [SYSTEM]
    assert trajectory.messages[0] == SYSTEM


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [rows.USER, *messages], **more}


def turn(**more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, **more}


RESPONSE = {"output": rows.OUTPUT}
UNREADABLE: list[tuple[Any, DropReason, str]] = [
    (
        {"input": [rows.USER], "previous_response_id": "r0", **RESPONSE},
        DropReason.MISSING_CONTEXT,
        "previous_response_id",
    ),
    (
        {"request": {"input": "Hi"}, "response": {"previous_response_id": "r0", **RESPONSE}},
        DropReason.MISSING_CONTEXT,
        "response.previous_response_id",
    ),
    (
        {"request": {"input": "Hi", "conversation": {"id": "c"}}, "response": RESPONSE},
        DropReason.MISSING_CONTEXT,
        "request.conversation",
    ),
    (
        chat(turn(content=[{"type": "tool_use", "id": "c1", "name": "find", "input": {}}])),
        DropReason.CALLS_IN_PARTS,
        "messages[1].content[0].type",
    ),
    (
        chat(rows.ANSWER, {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}),
        DropReason.CALLS_IN_PARTS,
        "messages[2].content[0].type",
    ),
    (
        chat(turn(tool_calls=[{"id": "c1", "function": {"name": "find", "arguments": None}}])),
        DropReason.ARGUMENTS_NOT_JSON,
        "messages[1].tool_calls[0].function.arguments",
    ),
    (
        chat(turn(tool_calls=[{"id": "c1", "function": {"name": "find"}}])),
        DropReason.MISSING_FIELD,
        "messages[1].tool_calls[0].function.arguments",
    ),
    (chat(rows.ANSWER, tools=[{"type": "web_search"}]), DropReason.BUILT_IN_TOOL, "tools[0].type"),
    (
        {"input": [rows.USER], "output": [{"type": "web_search_call", "id": "w"}]},
        DropReason.BUILT_IN_TOOL,
        "output[0].type",
    ),
]


@pytest.mark.parametrize(("row", "reason", "field"), UNREADABLE)
def test_what_cannot_be_read_is_a_drop_that_says_what_it_is(
    tmp_path: Path, row: Any, reason: DropReason, field: str
) -> None:
    kept, report = read(tmp_path, row)
    assert kept == []
    assert [(drop.reason, drop.field) for drop in report.drops] == [(reason, field)]
    assert report.drops[0].remedy


def test_a_refusal_is_what_the_agent_said(tmp_path: Path) -> None:
    [trajectory], _ = read(tmp_path, chat(turn(refusal="I will not.")))
    assert trajectory.messages[1].content == "I will not."


def test_what_verdicts_stand_on_goes_with_every_turn_whole(tmp_path: Path) -> None:
    grounds = {"answers": ["Paris", "Lutetia"], "tests": ["pytest -q tests/" + "a" * 2000]}
    shared = {"conversations": [{"from": "human", "value": "Capital?"}, {"from": "gpt", "value": "Paris"}]}
    chat = {"messages": [rows.USER, rows.ANSWER], "long": "x" * 2000}
    kept, report = read(tmp_path, *({**row, **grounds, "notes": ["left out"]} for row in (chat, shared)))
    assert report.drops == []
    for one in kept:
        assert {str(turn.metadata) for turn in iterate_candidates(one, Split.TRAIN)} == {str(grounds)}

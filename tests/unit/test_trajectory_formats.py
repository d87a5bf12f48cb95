"""Every format comes out as the conversation that its agent saw, with tools, and thinking apart from the action."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.trajectories.drops import DropReason, DropReport
from pivotrl_core.trajectories.loading import iterate_trajectories
from pivotrl_core.trajectories.registry import READERS, detect_reader
from pivotrl_core.trajectories.tool_inference import infer_tools
from pivotrl_core.types import Message, Role, Split, Tool, ToolCall, Trajectory
from tests import trajectory_rows as rows

FIND = Tool("find", "", {"type": "object", "properties": {"id": {"type": "string"}}})
BASH = Tool("bash", "", {"type": "object", "properties": {"command": {"type": "string"}}})
ASKED, ANSWERED = Message(Role.USER, "Where is A1?"), Message(Role.ASSISTANT, "On its way.")


def read(folder: Path, value: Any, name: str = "rows.json") -> tuple[list[Trajectory], DropReport]:
    (folder / name).write_text(json.dumps(value), encoding="utf-8")
    report = DropReport()
    kept = list(iterate_trajectories([folder / name], report))
    assert report.read == report.kept + len(report.drops) == len(kept) + sum(report.by_reason().values())
    return kept, report


def calling(said: str = "", arguments: str = '{"id": "A1"}', thinking: str = "") -> Message:
    return Message(Role.ASSISTANT, said, (ToolCall("find", arguments, "c1"),), thinking=thinking)


def result(content: str = "on its way", call_id: str = "c1") -> Message:
    return Message(Role.TOOL, content, tool_call_id=call_id)


@pytest.mark.parametrize("name", rows.ROWS)
@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_each_row_is_recognised_by_its_own_reader_in_a_document_and_in_a_line(
    tmp_path: Path, name: str, suffix: str
) -> None:
    reader, row = rows.ROWS[name]
    found = detect_reader(row)
    assert found is not None
    assert found.name == reader
    kept, report = read(tmp_path, row, f"rows.{suffix}")
    assert report.drops == []
    assert kept
    for trajectory in kept:
        candidates = list(iterate_candidates(trajectory, Split.TRAIN))
        assert candidates
        assert not any(message.thinking for candidate in candidates for message in candidate.state)


@pytest.mark.parametrize("more", [{"response": {"id": "r"}}, {"input": [rows.USER]}, {"history": [rows.USER]}])
def test_a_chat_row_stays_one_whatever_keys_it_has_beside(more: dict[str, Any]) -> None:
    found = detect_reader({**rows.CHAT, **more})
    assert found is not None
    assert found.name == "openai-chat"


def test_every_reader_has_a_row_here() -> None:
    assert {reader for reader, _ in rows.ROWS.values()} == {reader.name for reader in READERS}


@pytest.mark.parametrize("row", [rows.RESPONSES, rows.SIMULATION])
def test_responses_items_are_a_conversation_of_which_all_turns_are_the_experts(tmp_path: Path, row: Any) -> None:
    [trajectory], _ = read(tmp_path, row)
    told = [Message(Role.SYSTEM, "Be kind.")] if "instructions" in row else []
    assert trajectory.messages == (*told, ASKED, calling(thinking="hm"), result(), ANSWERED)
    assert trajectory.tools == (FIND,)
    assert len(list(iterate_candidates(trajectory, Split.TRAIN))) == 2


def test_reasoning_behind_its_own_call_belongs_to_that_call(tmp_path: Path) -> None:
    thought, call, answer, said = rows.OUTPUT
    row = {**rows.RESPONSES, "output": [call, thought, answer, said]}
    [trajectory], _ = read(tmp_path, row)
    assert trajectory.messages[2:] == (calling(thinking="hm"), result(), ANSWERED)


def test_a_response_beside_an_expected_action_is_a_sample_and_never_read(tmp_path: Path) -> None:
    [trajectory], _ = read(tmp_path, {**rows.PIVOT, "response": {"output": rows.OUTPUT}})
    assert len(trajectory.messages) == 4
    kept, report = read(tmp_path, {**rows.SIMULATION, "expected_answer": ""})
    assert (kept, report.by_reason()) == ([], {"missing_field": 1})


def test_reasoning_at_the_end_of_a_pivots_state_is_the_experts_and_no_part_of_the_prompt(tmp_path: Path) -> None:
    params = {"input": [*rows.PIVOT["responses_create_params"]["input"], rows.OUTPUT[0]]}
    [trajectory], _ = read(tmp_path, {**rows.PIVOT, "responses_create_params": params})
    [candidate] = iterate_candidates(trajectory, Split.TRAIN)
    assert [message.role for message in candidate.state] == [Role.USER, Role.ASSISTANT, Role.TOOL]
    assert candidate.expert == Message(Role.ASSISTANT, "On its way.", thinking="hm")


def test_parts_of_terminus_2_are_the_json_that_its_prompt_asks_for(tmp_path: Path) -> None:
    [trajectory], _ = read(tmp_path, rows.TERMINUS)
    asked, first, shown, last = trajectory.messages
    assert (asked.role, shown) == (Role.USER, Message(Role.USER, "$ "))
    assert first.thinking == "hm"
    assert json.loads(first.content) == {
        "analysis": "Nothing is there.", "plan": "Write it.",
        "commands": [{"keystrokes": "echo hi > hello.txt\n", "duration": 0.1}],
    }  # fmt: skip
    assert json.loads(last.content) == {
        "analysis": "It is there.", "plan": "Done.", "commands": [], "task_complete": True,
    }  # fmt: skip
    assert (trajectory.domain, trajectory.tools, trajectory.metadata["harness"]) == ("terminal", (), "terminus_2")


def test_text_of_terminus_2_that_is_recorded_as_written_stays(tmp_path: Path) -> None:
    raw = '{"analysis": "a", "plan": "p", "commands": []}'
    steps = [rows.TERMINUS["steps"][0], {**rows.TERMINUS["steps"][1], "message": raw}]
    [trajectory], _ = read(tmp_path, {**rows.TERMINUS, "steps": steps})
    assert trajectory.messages[1].content == raw


def test_a_turn_that_terminus_2_refused_and_what_follows_a_summary_are_no_candidates(tmp_path: Path) -> None:
    asked, first, last = rows.TERMINUS["steps"]
    refused = {"source": "agent", "message": "So be it: {}", "observation": {"results": [{"content": "ERROR"}]}}
    summary = {
        "source": "system",
        "message": "Performed.",
        "observation": {"results": [{"subagent_trajectory_ref": [1]}]},
    }
    [trajectory], _ = read(tmp_path, {**rows.TERMINUS, "steps": [asked, refused, first, summary, asked, last]})
    [candidate] = iterate_candidates(trajectory, Split.TRAIN)
    assert [message.content for message in candidate.state[1:]] == ["So be it: {}", "ERROR"]
    assert trajectory.metadata["left_out"] == {"notes_of_the_harness": 1, "steps_after_compaction": 2}


def test_another_agent_of_harbor_calls_tools(tmp_path: Path) -> None:
    [trajectory], _ = read(tmp_path, rows.ATIF)
    assert trajectory.messages[2:] == (calling("I look."), result(), ANSWERED)
    assert (trajectory.domain, trajectory.tools) == ("software", (FIND,))


def test_what_an_agent_no_longer_sees_after_a_compaction_and_copied_steps_make_no_candidates(tmp_path: Path) -> None:
    steps = [dict(step) for step in rows.ATIF["steps"]]
    steps[2]["is_copied_context"] = True
    compaction = {"context_management": {"type": "compaction", "boundary": "replace"}}
    steps += [{"source": "system", "message": "Summarised.", "extra": compaction}, steps[1], steps[3]]
    [trajectory], _ = read(tmp_path, {**rows.ATIF, "steps": steps})
    assert [one.expert for one in iterate_candidates(trajectory, Split.TRAIN)] == [ANSWERED]
    assert trajectory.metadata["left_out"] == {"notes_of_the_harness": 1, "steps_after_compaction": 2}


def test_runs_of_sub_agents_are_trajectories_of_their_own(tmp_path: Path) -> None:
    inner = {**rows.ATIF, "trajectory_id": "inner", "steps": [*rows.ATIF["steps"][:3], {"source": "agent"}]}
    kept, report = read(tmp_path, {**rows.ATIF, "subagent_trajectories": [inner]})
    assert len(kept) == 1
    [drop] = report.drops
    assert (drop.reason, drop.field) == (DropReason.EMPTY_ASSISTANT_TURN, "subagent_trajectories[0].messages[4]")


def test_swe_agent_with_function_calling_keeps_text_beside_the_call_and_thinking_apart(tmp_path: Path) -> None:
    [trajectory], _ = read(tmp_path, rows.SWE_CALLS, "a.traj")
    turn = Message(Role.ASSISTANT, "I open it.", (ToolCall("open", '{"path": "a.py"}', "c1"),), thinking="hm")
    assert trajectory.messages[2:4] == (turn, result("1:x"))
    assert (trajectory.domain, trajectory.metadata["harness"]) == ("software", "swe-agent")
    assert trajectory.metadata["tools_inferred"] is True
    assert [tool.name for tool in trajectory.tools] == ["open"]


def test_swe_agents_text_actions_are_shell_calls_and_demonstrations_are_only_state(tmp_path: Path) -> None:
    [trajectory], _ = read(tmp_path, rows.SWE_TEXT)
    call = ToolCall("bash", '{"command": "ls\\n"}', "call_4")
    assert trajectory.messages[4:6] == (Message(Role.ASSISTANT, "I look.", (call,)), result("a.py", "call_4"))
    assert trajectory.tools == (BASH,)
    experts = [one.expert.content for one in iterate_candidates(trajectory, Split.TRAIN)]
    assert experts == ["I look."]  # not "Shown.", and not "Done.", which has no command
    assert trajectory.metadata["left_out"] == {"entries_of_other_agents": 1}


def test_a_chat_under_swe_agent_s_key_keeps_its_turns(tmp_path: Path) -> None:
    [trajectory], _ = read(tmp_path, {"history": [rows.USER, rows.ANSWER]})
    assert [one.expert for one in iterate_candidates(trajectory, Split.TRAIN)] == [ANSWERED]


def test_mini_swe_agents_one_fenced_command_is_a_call_and_two_are_none(tmp_path: Path) -> None:
    [trajectory], _ = read(tmp_path, rows.MINI)
    first, shown, second, told = trajectory.messages[2:]
    assert (first.content, first.tool_calls[0].arguments) == ("THOUGHT: I look.", '{"command": "ls -la"}')
    assert shown.role is Role.TOOL
    assert (second.content, second.tool_calls) == (rows.MINI["messages"][4]["content"], ())
    assert told == Message(Role.USER, "Exactly one block, please.")
    assert [one.expert for one in iterate_candidates(trajectory, Split.TRAIN)] == [first]
    assert trajectory.metadata["left_out"] == {"exit_notes": 1}


def test_openhands_events_are_the_turns_of_their_responses(tmp_path: Path) -> None:
    [trajectory], _ = read(tmp_path, rows.OPENHANDS)
    assert trajectory.messages == (
        Message(Role.SYSTEM, "You are OpenHands."), ASKED, calling("I look."), result(), ANSWERED,
    )  # fmt: skip
    assert trajectory.tools == (FIND,)
    assert trajectory.metadata["left_out"] == {"events_of_the_program": 2, "events_of_the_user": 1}


def test_openhands_actions_without_responses_are_calls_with_their_own_arguments(tmp_path: Path) -> None:
    [trajectory], _ = read(tmp_path, rows.OPENHANDS_PLAIN)
    turn, shown = trajectory.messages[1:]
    assert (turn.content, turn.tool_calls[0].name, turn.tool_calls[0].arguments) == (
        "I look.", "run", '{"command": "ls"}',
    )  # fmt: skip
    assert (shown.content, shown.tool_call_id) == ("a.py", turn.tool_calls[0].call_id)
    assert trajectory.group == "i1"


def test_openhands_actions_whose_response_is_not_kept_keep_the_id_of_their_call(tmp_path: Path) -> None:
    bare = {**rows.METADATA, "model_response": {"id": "r1"}}
    events = [{**one, "tool_call_metadata": bare} if "tool_call_metadata" in one else one for one in rows.OPENHANDS]
    events[0] = {**events[0], "args": {"content": "You are OpenHands."}}
    [trajectory], _ = read(tmp_path, events)
    call = ToolCall("run", '{"command": "find A1"}', "c1")
    assert trajectory.messages[2:4] == (Message(Role.ASSISTANT, "", (call,)), result())


def test_nothing_behind_a_condensation_is_read(tmp_path: Path) -> None:
    condensation = {"id": 8, "source": "agent", "action": "condensation", "args": {}}
    [trajectory], _ = read(tmp_path, [*rows.OPENHANDS, condensation, rows.OPENHANDS[7]])
    assert len(trajectory.messages) == 5
    assert trajectory.metadata["left_out"]["events_after_condensation"] == 1


def test_calls_of_one_response_of_the_openhands_sdk_are_one_turn(tmp_path: Path) -> None:
    [trajectory], _ = read(tmp_path, rows.OPENHANDS_SDK)
    turn = trajectory.messages[2]
    assert (turn.content, turn.thinking) == ("I look.", "hm")
    assert [call.arguments for call in turn.tool_calls] == ['{"id": "A1"}', '{"id": "B2"}']
    assert trajectory.messages[3:] == (result(), result("no such order", "c2"))


def test_a_tau2_file_is_its_simulations_with_the_policy_and_without_the_users_own_calls(tmp_path: Path) -> None:
    kept, report = read(tmp_path, rows.TAU2)
    assert report.read == 2
    assert [message.role for message in kept[0].messages] == [
        Role.SYSTEM, Role.ASSISTANT, Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT, Role.USER,
    ]  # fmt: skip
    assert kept[0].metadata["left_out"] == {"results_of_user_calls": 1, "user_calls": 1}
    assert (kept[0].group, kept[0].metadata["reward"]) == ("shop/t1", 1.0)
    cancel = Tool("cancel", "", {"type": "object", "properties": {"fee": {"type": "number"}, "id": {"type": "string"}}})
    assert all(one.tools == (cancel, FIND) and one.metadata["tools_inferred"] for one in kept)


def test_tools_that_a_tau2_file_defines_are_taken(tmp_path: Path) -> None:
    defined = {"find": {"name": "find", "doc": "Find.", "params": {"type": "object"}, "returns": {}}}
    info = {"environment_info": {"domain_name": "shop", "policy": "", "tool_defs": defined}}
    kept, report = read(tmp_path, {**rows.TAU2, "info": info})
    assert [one.tools for one in kept] == [(Tool("find", "Find.", {"type": "object"}),)]
    [drop] = report.drops
    assert (drop.reason, drop.field) == (DropReason.UNKNOWN_TOOL, "simulations[1].messages[1].tool_calls[0].name")


def test_trials_of_a_tau_bench_file_share_group_and_inferred_tools(tmp_path: Path) -> None:
    kept, _ = read(tmp_path, rows.TAU)
    assert [(one.group, one.tools) for one in kept] == [("0", (FIND,))] * 2


@pytest.mark.parametrize("row", [rows.HERMES, rows.SHAREGPT])
def test_calls_in_sharegpts_text_are_calls_and_tools_are_tools(tmp_path: Path, row: Any) -> None:
    [trajectory], _ = read(tmp_path, row)
    assert trajectory.tools == (FIND,)
    turn = next(message for message in trajectory.messages if message.tool_calls)
    results = [message.content for message in trajectory.messages if message.role is Role.TOOL]
    if row is rows.HERMES:
        assert (turn.content, turn.thinking, len(turn.tool_calls)) == ("I look.", "hm", 2)
        assert results == ["one", "two"]
    else:
        assert (turn.tool_calls, results) == ((ToolCall("find", '{"id": "A1"}'),), ["on its way"])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("<tool_call>{'name': 'find'}</tool_call>", DropReason.ARGUMENTS_NOT_JSON),
        ("<tool_call>[]</tool_call>", DropReason.UNNAMED_TOOL_CALL),
        ('<tool_call>{"name": "find", "arguments": {}', DropReason.ARGUMENTS_NOT_JSON),
    ],
)
def test_a_call_in_text_that_cannot_be_read_is_a_drop_and_no_message(
    tmp_path: Path, value: str, reason: DropReason
) -> None:
    turns = [rows.HERMES["conversations"][1], {"from": "gpt", "value": value}]
    kept, report = read(tmp_path, {"conversations": turns})
    assert kept == []
    assert [(drop.reason, drop.field) for drop in report.drops] == [(reason, "conversations[1].value")]


def test_turns_of_weight_0_are_state_alone(tmp_path: Path) -> None:
    row = {"messages": [rows.USER, {**rows.ANSWER, "weight": 0}, rows.USER, {**rows.ANSWER, "weight": 1}]}
    [trajectory], _ = read(tmp_path, row)
    assert [len(one.state) for one in iterate_candidates(trajectory, Split.TRAIN)] == [3]


def test_a_page_about_the_marks_is_a_result_and_no_other_one(tmp_path: Path) -> None:
    page = "README\n<tool_response>example</tool_response>\nand <tool_response>more</tool_response>"
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id": "A1"}'}}
    messages = [rows.USER, {"role": "assistant", "content": "", "tool_calls": [call]}, rows.ANSWER]
    for content, read_as in ((page, page), ("<tool_response>\nfound\n</tool_response>\n", "found")):
        told = {"role": "tool", "tool_call_id": "c1", "content": content}
        [trajectory], _ = read(tmp_path, {"messages": [*messages[:2], told, messages[2]]})
        assert trajectory.messages[2] == result(read_as)


@pytest.mark.parametrize(
    "said",
    ["I use the <tool_call> format now to search.", "I edit the `</think>` handling.", "Split at </think> here."],
)
def test_marks_that_are_only_mentioned_stay_where_they_are(tmp_path: Path, said: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id": "A1"}'}}
    told = {"role": "tool", "tool_call_id": "c1", "content": "on its way"}
    turns = [{"role": "assistant", "content": said, "tool_calls": [call]}, told, {"role": "assistant", "content": said}]
    [trajectory], _ = read(tmp_path, {"messages": [rows.USER, *turns]})
    assert trajectory.messages[1:] == (calling(said), result(), Message(Role.ASSISTANT, said))


def test_results_of_parallel_calls_stand_in_the_order_of_the_calls(tmp_path: Path) -> None:
    calls = [{"id": name, "function": {"name": "find", "arguments": json.dumps({"id": name})}} for name in ("a", "b")]
    turn = {"role": "assistant", "content": None, "tool_calls": calls}
    told = [{"role": "tool", "tool_call_id": name, "content": f"of {name}"} for name in ("b", "a")]
    [trajectory], _ = read(tmp_path, {"messages": [rows.USER, turn, *told, rows.ANSWER]})
    assert trajectory.messages[2:4] == (result("of a", "a"), result("of b", "b"))
    again, _ = read(tmp_path, {"messages": [rows.USER, turn, *told[::-1], rows.ANSWER]})
    assert again[0].id == trajectory.id
    unnamed = [{"role": "tool", "content": f"of {name}"} for name in ("b", "a")]
    [other], _ = read(tmp_path, {"messages": [rows.USER, turn, *unnamed, rows.ANSWER]})
    assert [one.content for one in other.messages[2:4]] == ["of b", "of a"]


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Here."}]},
        {"role": "assistant", "content": "Here.", "thinking_blocks": [{"type": "thinking", "thinking": "hm"}]},
        {"role": "assistant", "content": "Here.", "reasoning": "hm", "reasoning_content": "hm"},
    ],
)
def test_thinking_in_parts_and_blocks_is_thinking(tmp_path: Path, turn: dict[str, Any]) -> None:
    [trajectory], _ = read(tmp_path, {"messages": [rows.USER, turn]})
    assert (trajectory.messages[1].thinking, trajectory.messages[1].content) == ("hm", "Here.")


def test_a_list_of_rows_is_rows_and_a_list_of_messages_is_one_row(tmp_path: Path) -> None:
    other = {"messages": [rows.USER, rows.ANSWER]}
    assert len(read(tmp_path, [rows.CHAT, other, rows.TERMINUS])[0]) == 3
    assert len(read(tmp_path, rows.CHAT["messages"])[0]) == 1


def test_types_of_arguments_are_joined_and_broken_ones_add_nothing() -> None:
    texts = ['{"a": 1, "b": true}', '{"a": "x", "c": [null]}', "{", "[]", '{"\\ud800": 1}']
    messages = [Message(Role.ASSISTANT, "", (ToolCall("f", text),)) for text in texts]
    properties = {"a": {"type": ["number", "string"]}, "b": {"type": "boolean"}, "c": {"type": "array"}}
    assert infer_tools(messages) == (Tool("f", "", {"type": "object", "properties": properties}),)


def test_a_tool_described_as_mcp_does_keeps_its_arguments(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    [trajectory], _ = read(tmp_path, {"messages": messages, "tools": [{"name": "find", "inputSchema": schema}]})
    assert trajectory.tools == (Tool("find", "", schema),)

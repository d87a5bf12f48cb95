"""NeMo Gym pivot rows: a state and one expert action, read and written without loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.pivots.profile_record import read_candidates, write_candidates
from pivotrl_core.trajectories.loading import load_trajectories
from pivotrl_core.trajectories.nemo_gym import NemoGymReader
from pivotrl_core.trajectories.nemo_gym_writer import PassRate, candidate_to_nemo_row
from pivotrl_core.types import Candidate, Message, Role, Tool, ToolCall
from pivotrl_core.verifiers.row_fields import row_field
from tests.candidate_sets import extract_candidates

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "pivot_rows"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of real files is absent")
FIND = {"type": "function", "name": "find", "description": "", "parameters": {"type": "object"}, "strict": True}


def row(expected: Any, *items: Any, **more: Any) -> dict[str, Any]:
    head = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Find A1."}]
    params = {"input": [*head, *items], "tools": [FIND], "parallel_tool_calls": False, "tool_choice": "auto"}
    return {"responses_create_params": params, "expected_action": expected, **more}


def call(name: str = "find", arguments: str = '{"id": "A1"}', call_id: str = "c1") -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id, "status": None}


THINKING = {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "hm"}]}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "found"}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One moment."}]}
FULL = row({"type": "message", "content": "Here it is."}, THINKING, SAID, call(), RESULT)


def candidates_of(tmp_path: Path, *rows: Any) -> list[Candidate]:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return extract_candidates(load_trajectories([file]).trajectories, 0.0, 0.0).candidates


def test_items_between_two_model_calls_are_one_turn_and_only_the_expected_action_is_a_candidate(tmp_path: Path) -> None:
    trajectory = NemoGymReader().read_row(FULL, "rows.jsonl:1")
    assert trajectory.messages[2] == Message(
        Role.ASSISTANT, "One moment.", (ToolCall("find", '{"id": "A1"}', "c1"),), thinking="hm"
    )
    [candidate] = candidates_of(tmp_path, FULL)
    assert [str(message.role) for message in candidate.state] == ["system", "user", "assistant", "tool"]
    assert candidate.state[2].thinking == ""
    assert candidate.expert == Message(Role.ASSISTANT, "Here it is.")


def test_a_new_reasoning_item_after_a_call_begins_a_new_turn() -> None:
    trajectory = NemoGymReader().read_row(row(call(), call(), THINKING, SAID), "")
    assert [len(message.tool_calls) for message in trajectory.messages[2:]] == [1, 0, 1]


def test_a_batch_is_one_action_with_several_calls() -> None:
    expected = {"type": "function_call_batch", "calls": [call(), call(arguments='{"id": "B2"}')]}
    assert len(NemoGymReader().read_row(row(expected), "").messages[-1].tool_calls) == 2


@pytest.mark.parametrize(
    ("more", "domain"),
    [
        ({}, "tool"),
        ({"pivot_tags": ["P1"], "uuid": "u1"}, "software"),
        ({"metadata": {"harness": "terminus_2"}}, "terminal"),
    ],
)
def test_the_domain_is_told_by_the_fields_of_its_rows(more: dict[str, Any], domain: str) -> None:
    assert NemoGymReader().read_row(row(call(), **more), "").domain == domain


def test_a_terminal_row_has_its_answer_as_the_message_and_a_software_row_its_target_in_three_places() -> None:
    params = {"responses_create_params": {"input": [{"role": "user", "content": "go"}]}}
    reader = NemoGymReader()
    terminal = {**params, "expected_answer": '{"commands": []}', "metadata": {"harness": "terminus_1"}}
    assert reader.read_row(terminal, "").messages[-1].content == '{"commands": []}'
    target = {"type": "function_call", "name": "bash", "arguments": "{}"}
    for place in ({"expected_answer": json.dumps(target)}, {"metadata": {"expected_action": target}}):
        assert reader.read_row({**params, **place}, "").messages[-1].tool_calls == (ToolCall("bash", "{}"),)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ('{"type": "function_call", "name": "find", "arguments": {"id": "\\ud800"}}', "lone_surrogate"),
        ('{"type": "message", "content": "\\ud800"}', "lone_surrogate"),
        ('{"type": "function_call", "name": "find", "arguments": {"id": NaN}}', "arguments_not_json"),
        ("[" * 5000, "too_deep"),
    ],
)
def test_an_action_that_stands_as_text_is_held_to_the_rows_bounds(tmp_path: Path, action: str, reason: str) -> None:
    path = tmp_path / "rows.jsonl"
    own = {**row(None, {"role": "user", "content": "Go."}), "expected_answer": action}
    path.write_text(json.dumps(own) + "\n")
    assert load_trajectories([path]).report.by_reason() == {reason: 1}


def test_rows_of_one_trajectory_share_a_group_and_other_tasks_do_not() -> None:
    reader = NemoGymReader()
    early, late = reader.read_row(row(call()), ""), reader.read_row(FULL, "")
    assert early.group == late.group
    named = reader.read_row(row(call(), trajectory_id="t7"), "")
    assert named.group == "t7" != early.group


def test_an_empty_name_of_a_trajectory_names_none() -> None:
    groups = {NemoGymReader().read_row({**FULL, **more}, "").group for more in ({}, {"trajectory_id": ""})}
    assert len(groups) == 1
    assert "" not in groups
    named = NemoGymReader().read_row({**FULL, "trajectory_id": "", "source_trajectory_uid": 0}, "")
    assert named.group == "0"


def test_writing_a_read_row_loses_nothing_and_adds_the_agent_and_the_pass_rate(tmp_path: Path) -> None:
    original = {**FULL, "extra": {"z": 1, "a": [1.0, None]}}
    [candidate] = candidates_of(tmp_path, original)
    write_candidates(tmp_path / "c.parquet", [candidate])
    [again] = read_candidates(tmp_path / "c.parquet")
    written = candidate_to_nemo_row(again, PassRate(3, 8))
    assert {key: written[key] for key in original} == original
    assert written["agent_ref"]["type"] == "responses_api_agents"
    assert (written["pass_rate"], written["pass_rate_passed"], written["pass_rate_total"]) == (0.375, 3, 8)


def test_a_candidate_of_another_format_becomes_a_row_that_reads_as_the_same_candidate(tmp_path: Path) -> None:
    state = (
        Message(Role.USER, "Find A1 and B2."),
        Message(Role.ASSISTANT, tool_calls=(ToolCall("find", '{"id": "A1"}'), ToolCall("find", '{"id": "B2"}'))),
        Message(Role.TOOL, "one"),
        Message(Role.TOOL, "two"),
    )
    tools = (Tool("find", "Find.", {"type": "object", "properties": {"id": {"type": "string"}}}),)
    made = Candidate(state, tools, Message(Role.ASSISTANT, "Both."), "t1", 1)
    written = candidate_to_nemo_row(made)
    ids = [item["call_id"] for item in written["responses_create_params"]["input"] if "call_id" in item]
    assert ids == ["call_0", "call_1", "call_0", "call_1"]
    [again] = candidates_of(tmp_path, written)
    assert (again.id, again.turn_index) == (made.id, 1)


def test_a_terminal_candidate_of_another_format_has_its_answer_where_the_terminal_judge_looks(tmp_path: Path) -> None:
    answer = '{"analysis": "", "plan": "", "commands": []}'
    asked = (Message(Role.USER, "Make it."),)
    made = Candidate(
        asked, (), Message(Role.ASSISTANT, answer), "t1", 0, "terminal", metadata={"harness": "terminus_2"}
    )
    written = candidate_to_nemo_row(made)
    assert (written["expected_answer"], written["metadata"]) == (answer, {"harness": "terminus_2"})
    assert written["agent_ref"]["name"] == "terminus_judge_simple_agent"
    [again] = candidates_of(tmp_path, written)
    assert (again.id, again.domain, again.metadata["harness"]) == (made.id, "terminal", "terminus_2")


def test_a_row_of_another_format_keeps_its_domain_and_what_its_verdicts_stand_on(tmp_path: Path) -> None:
    asked = (Message(Role.USER, "Which year?"),)
    more = {"workspace": "workspaces/a", "index": "pages", "note": "x"}
    made = Candidate(asked, (), Message(Role.ASSISTANT, "1999"), "t1", 0, "search", metadata=more)
    written = candidate_to_nemo_row(made)
    assert (written["domain"], written["workspace"], written["index"]) == ("search", "workspaces/a", "pages")
    assert "note" not in written
    [again] = candidates_of(tmp_path, written)
    assert (again.id, again.domain) == (made.id, "search")
    assert row_field(again, "workspace") == "workspaces/a"


@needs_shared
@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("single_step_tool_use_with_argument_comparison/example.jsonl", "tool"),
        ("single_step_tool_use_with_argument_comparison/parallel_example.jsonl", "tool"),
        ("single_step_tool_use_with_argument_comparison/example_rollouts.jsonl", "tool"),
        ("swe_pivot/example.jsonl", "software"),
        ("terminus_judge/example.jsonl", "terminal"),
        ("terminus_judge/example_rollouts.jsonl", "terminal"),
    ],
)
def test_real_pivot_rows_are_read_and_written_without_loss(tmp_path: Path, name: str, domain: str) -> None:
    rows = [json.loads(line) for line in (SHARED / name).read_text(encoding="utf-8").splitlines()]
    candidates = candidates_of(tmp_path, *rows)
    assert [candidate.domain for candidate in candidates] == [domain] * len(rows)
    write_candidates(tmp_path / "c.parquet", candidates)
    for original, candidate in zip(rows, read_candidates(tmp_path / "c.parquet"), strict=True):
        written = candidate_to_nemo_row(candidate)
        # As text, so that 1, 1.0 and true are not the same, in the row's own order; the agent alone may be added.
        assert json.dumps({key: written[key] for key in original}) == json.dumps(original)
        assert set(written) - set(original) <= {"agent_ref"}

"""NeMo Gym's verdicts, defects included, and what the default mode says of the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.errors import DataError
from pivotrl_core.trajectories.domains import row_domain
from pivotrl_core.trajectories.nemo_gym import NEMO_ROW
from pivotrl_core.types import Action, Candidate, Message, Role, ToolCall
from pivotrl_core.verifiers.graded import GradedVerifier
from pivotrl_core.verifiers.nemo_gym.grader import NemoGymGrader
from pivotrl_core.verifiers.nemo_gym.tool_names import CATEGORIES
from pivotrl_core.verifiers.rewards import RewardRule
from pivotrl_core.verifiers.rows import verify_row

PIVOT_ROWS = Path(__file__).parents[2].parent / "shared" / "data" / "pivot_rows"
Call = dict[str, Any]


def call(arguments: Any, name: str = "f") -> Call:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "name": name, "arguments": text}


def says(text: str) -> Call:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def row(expected: Any, output: Any, verifier: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    params = {"input": [{"role": "user", "content": "Please."}], "tools": []}
    given = {} if verifier is None else {"verifier": verifier}
    return {"responses_create_params": params, "expected_action": expected, "response": output, **given, **more}


def compat(value: dict[str, Any]) -> tuple[float, str]:
    found = verify_row(value, compat=True)
    return found["reward"], found.get("category") or found["failure_reason"]


ARGUMENTS: list[tuple[Any, Any, str, float]] = [
    # expected arguments, actual ones, compat category (the reward follows), default reward
    ({"x": 75}, {"x": "75"}, "ARGUMENT_VALUE_TYPE_DIFFERENT", 0),
    ({"x": 1}, {"x": True}, "EXPECTED_TOOL_CALL", 0),
    ({"x": True}, {"x": 1}, "ARGUMENT_VALUE_TYPE_DIFFERENT", 0),
    ({"x": 1.0}, {"x": 1}, "ARGUMENT_VALUE_TYPE_DIFFERENT", 1),
    ({"x": 1.0}, {"x": 1.0000005}, "EXPECTED_TOOL_CALL", 0),
    ({"x": 1.0}, {"x": 1.000002}, "ARGUMENT_VALUE_DIFFERENT", 0),
    ({"x": "New York"}, {"x": "new york"}, "EXPECTED_TOOL_CALL", 1),
    ({"x": "New York"}, {"x": "York New"}, "EXPECTED_TOOL_CALL", 0),
    ({"x": "New York"}, {"x": "NewYork"}, "ARGUMENT_VALUE_DIFFERENT", 0),
    ({"x": "a"}, {"x": "a", "y": None}, "ARGUMENT_OBJECT_KEYS_DIFFERENT", 0),
    ({"x": {"a": 1, "b": 2}}, {"x": {"b": 2, "a": 1}}, "EXPECTED_TOOL_CALL", 1),
    ({"x": [1, 2]}, {"x": [2, 1]}, "ARGUMENT_VALUE_DIFFERENT", 0),
    ({"x": [1, 2]}, {"x": [1]}, "ARGUMENT_LIST_LENGTH_DIFFERENT", 0),
    ({}, "", "ARGUMENTS_DECODE_ERROR", 0),
    ({"x": 1}, "[" * 3000, "ARGUMENTS_DECODE_ERROR", 0),
    ({"x": "one two three four five"}, {"x": "one 2 3 4 5"}, "EXPECTED_TOOL_CALL", 0),  # 1 / 10 of the words
]


@pytest.mark.parametrize(("expected", "actual", "category", "default"), ARGUMENTS)
def test_arguments_in_both_modes(expected: Any, actual: Any, category: str, default: float) -> None:
    value = row(call(expected), [call(actual)])
    assert compat(value) == (float(category == "EXPECTED_TOOL_CALL"), category)
    assert verify_row(value)["reward"] == default


def test_a_threshold_above_one_half_refuses_identical_texts_there_and_not_here() -> None:
    value = row(call({"x": "New York"}), [call({"x": "New York"})], {"word_count_similarity_threshold": 0.6})
    assert compat(value) == (0.0, "ARGUMENT_VALUE_DIFFERENT")
    assert verify_row(value)["reward"] == 1.0
    value["verifier"] = {"word_count_similarity_threshold": 0.5}
    assert compat(value) == (1.0, "EXPECTED_TOOL_CALL")


@pytest.mark.parametrize(
    ("expected", "output", "reward", "category", "default"),
    [
        ({"type": "message", "content": "Hi"}, [says("")], 1, "EXPECTED_CHAT_MESSAGE_FOUND", 0),
        ({"type": "message", "content": "Hi"}, [says("Hello.")], 1, "EXPECTED_CHAT_MESSAGE_FOUND", 1),
        ({"type": "message", "content": "Hi"}, [call({})], 0, "NO_EXPECTED_CHAT_MESSAGE", 0),
        ({"type": "message", "content": "Hi"}, [says("Hello."), call({})], 0, "NO_EXPECTED_CHAT_MESSAGE", 0),
        (call({}), [says("Hello.")], 0, "NO_EXPECTED_TOOL_CALL", 0),
        (call({}), [{"type": "reasoning", "summary": []}], 0, "NO_ACTION_FOUND", 0),
        (call({}), [], 0, "NO_ACTION_FOUND", 0),
        (call({}), [{**says(""), "content": [{"type": "refusal", "refusal": "No."}]}], 0, "NO_ACTION_FOUND", 0),
        (call({}), [says("Let me look."), call({})], 1, "EXPECTED_TOOL_CALL", 1),
        (call({}), [call({}, "F")], 0, "UNEXPECTED_TOOL", 0),
        (call({}), {"output": [call({})]}, 1, "EXPECTED_TOOL_CALL", 1),
        (call({}), {"role": "assistant", "tool_calls": [{"function": call({})}]}, 1, "EXPECTED_TOOL_CALL", 1),
        ({"type": "message", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, 1,
         "EXPECTED_CHAT_MESSAGE_FOUND", 1),
        ({"type": "message", "content": "Hi"}, "Hello.", 1, "EXPECTED_CHAT_MESSAGE_FOUND", 1),
        (call({}), '<tool_call>{"name": "f", "arguments": {}}</tool_call>', 0, "NO_EXPECTED_TOOL_CALL", 1),
    ],
)  # fmt: skip
def test_the_decision_in_both_modes_whatever_shape_the_answer_has(
    expected: Call, output: Any, reward: float, category: str, default: float
) -> None:
    value = row(expected, output)
    assert compat(value) == (reward, category)
    assert verify_row(value)["reward"] == default


A, B, C, WRONG = (call({"x": name}, name) for name in ("a", "b", "c", "wrong"))
WRONG_B = call({"x": "z"}, "b")
ON = {"parallel_tool_call_rewarding": True}
STRICT = "EXPECTED_TOOL_CALL_BATCH"
LENGTH = "FUNCTION_CALL_BATCH_LENGTH_DIFFERENT"


@pytest.mark.parametrize(
    ("expected", "actual", "settings", "reward", "category", "default"),
    [
        ([A, B], [B, A], {}, 1, STRICT, 1),
        ([A, B], [B, A, C], {}, 1, STRICT, 0),  # surplus calls are free there
        ([A, B], [A, C], {}, 0, "UNEXPECTED_TOOL", 0),
        ([A, B], [A], {}, 0, LENGTH, 0),
        ([A], [A, C], {}, 1, "EXPECTED_TOOL_CALL", 0),
        ([A, B], [B, A], ON, 1, STRICT, 1),
        ([A, B], [A, B, C], ON, 0, LENGTH, 0),
        ([A, B], [A], ON, 0, LENGTH, 0),
        ([A, B], [A, B, C], {**ON, "allow_superset": True}, 1, STRICT, 1),
        ([A, B], [A], {**ON, "allow_subset": True}, 1, STRICT, 1),
        ([A, B], [A, WRONG_B], {**ON, "parallel_tool_call_reward_mode": "f1"}, 0.5, "ARGUMENT_VALUE_DIFFERENT", 0.5),
        ([A, B], [A, WRONG], {**ON, "parallel_tool_call_reward_mode": "fractional"}, 0.5, "UNEXPECTED_TOOL", 0.5),
        ([A, B], [A, B, C], {**ON, "allow_superset": True, "parallel_tool_call_reward_mode": "f1"}, 0.8, LENGTH, 0.8),
        ([A, B], [A], {**ON, "allow_subset": True, "parallel_tool_call_reward_mode": "f1"}, 2 / 3, LENGTH, 2 / 3),
        ([A, B], [A], {**ON, "parallel_tool_call_reward_mode": "f1"}, 0, LENGTH, 0),
        ([A], [WRONG], {**ON, "parallel_tool_call_reward_mode": "f1"}, 0, "UNEXPECTED_TOOL", 0),
    ],
)
def test_parallel_calls_in_both_modes(
    expected: list[Call], actual: list[Call], settings: dict[str, Any], reward: float, category: str, default: float
) -> None:
    action = {"type": "function_call_batch", "calls": expected}
    value = row(action, actual, settings)
    assert compat(value) == (pytest.approx(reward), category)
    assert verify_row(value)["reward"] == pytest.approx(default)
    value["verifier"] = {"tool_call_comparator_config": settings}
    assert compat(value)[0] == pytest.approx(reward)


def test_an_optional_argument_at_its_default_is_another_call_there_and_the_same_here() -> None:
    parameters = {"type": "object", "properties": {"x": {"type": "string", "default": "full"}}}
    value = row(call({}), [call({"x": "full"})])
    value["responses_create_params"]["tools"] = [{"type": "function", "name": "f", "parameters": parameters}]
    assert compat(value) == (0.0, "ARGUMENT_OBJECT_KEYS_DIFFERENT")
    assert verify_row(value)["reward"] == 1.0


def edit(**arguments: Any) -> Call:
    return call({"path": "/w/p/foo.py", **arguments}, "str_replace_editor")


def view(*view_range: int) -> Call:
    return edit(command="view", view_range=list(view_range))


def bash(command: str) -> Call:
    return call({"command": command}, "bash")


REPEATED = "echo one; echo two; echo six; " * 12  # 360 characters, each of them frequent


@pytest.mark.parametrize(
    ("expected", "actual", "reward", "reason"),
    [
        (bash("pytest -v"), bash("pytest -xvs"), 1, "none"),  # 2 * 9 / 20 is above 0.8
        (bash("grep -r 'x' src/views/"), bash("grep -r 'x' src/models/"), 0, "target_mismatch"),
        (bash("grep -r foo ."), bash("pytest tests/"), 0, "target_mismatch"),
        (bash("/usr/bin/ls"), bash("ls"), 0, "similarity_below_threshold"),
        (bash("ls"), call({"cmd": "ls"}, "Shell_Cmd"), 1, "none"),
        (bash("ls"), call({}, "bash"), 1, "none"),  # a call without a command does what the expert's does
        (view(200, 250), view(210, 260), 1, "none"),
        (view(200, 250), view(211, 260), 0, "target_mismatch"),
        (view(200, -1), view(200, -1), 0, "target_mismatch"),  # a range to the end of the file
        (view(200, 250), edit(command="view"), 1, "none"),
        (view(200, 250), edit(command="create"), 0, "target_mismatch"),
        (edit(old_str="y", new_str="x = 2"), edit(old_str="y", new_str="x = 3"), 1, "none"),  # a wrong fix
        (edit(old_str="y", new_str="x = 2"), edit(old_str="q", new_str="x = 2"), 0, "similarity_below_threshold"),
        (edit(patch="abcde"), edit(content="abcdx"), 1, "none"),
        (edit(), call({"path": "/q/p/foo.py"}, "CodeEditor"), 1, "none"),
        (edit(), call({"path": "/q/r/foo.py"}, "code_editor"), 0, "target_mismatch"),
        (call({}, "finish"), call({}, "submit"), 1, "none"),
        (call({}, "read_file"), call({}, "grep"), 0, "tool_name_mismatch"),
        (call({}, "mine"), call({}, "Mine"), 1, "none"),
        (call({}, "mine"), call({}, "yours"), 0, "tool_name_mismatch"),
        (call({"path": "/a/b/c/d"}, "read"), call({"path": "/x/b/c/d"}, "view"), 1, "none"),
        (call({"path": "/a/b/c/d"}, "read"), call({"path": "/x/y/c/d"}, "view"), 0, "target_mismatch"),
        (bash(REPEATED), bash("E" + REPEATED[1:]), 0, "target_mismatch"),  # difflib takes every character for junk
        (bash("ls"), says("ls"), 0, "model_output_invalid"),
        (says("ls"), bash("ls"), 0, "expected_action_invalid"),
        (edit(), call("[1]", "edit"), 0, "unknown_error"),
    ],
)
def test_software_as_the_server_has_it(expected: Call, actual: Call, reward: float, reason: str) -> None:
    assert compat(row(expected, [actual], pivot_tags=["P1"])) == (reward, reason)


def test_software_with_partial_credit() -> None:
    settings = {"mode": "continuous"}
    half = bash("echo abcde"), bash("echo vwxyz")  # 'echo ' is in both: 2 * 5 / 20
    assert compat(row(half[0], [half[1]], settings, pivot_tags=[])) == (pytest.approx(0.5 + 0.5 * 0.1 / 0.4), "none")
    text = "x" * 250
    same = edit(content=text)
    assert compat(row(same, [same], settings, pivot_tags=[])) == (pytest.approx(1 - 0.1 * 250 / 500), "none")
    assert compat(row(same, [same], {**settings, "diff_size_alpha": 0.5}, ref_patch=""))[0] == pytest.approx(0.75)
    assert compat(row(half[0], [half[1]], {"mode": "binary"}, ref_patch=""))[1] == "similarity_below_threshold"
    assert len(CATEGORIES) == 127


def test_the_target_of_a_software_row_is_looked_for_in_three_places() -> None:
    value = row(None, [bash("ls")], pivot_tags=[])
    assert compat(value)[1] == "expected_action_invalid"
    assert compat({**value, "expected_answer": json.dumps(bash("ls"))})[0] == 1.0
    assert compat({**value, "metadata": {"expected_action": bash("ls")}})[0] == 1.0
    assert compat({**value, "expected_answer": "{", "metadata": {"expected_action": bash("cd")}})[0] == 0.0


def terminus(keystrokes: str = "ls\n", **more: Any) -> str:
    return json.dumps({"analysis": "a", "plan": "p", "commands": [{"keystrokes": keystrokes}], **more})


OLD = {"state_analysis": "s", "explanation": "e", "is_task_complete": False}
OLD_COMMAND = {"keystrokes": "ls\n", "is_blocking": True, "timeout_sec": 1.5}


@pytest.mark.parametrize(
    ("answer", "text", "reason"),
    [
        (terminus(), terminus(), "none"),
        (terminus(), f"<think>{{}}</think>\n{terminus()}", "none"),
        (terminus(), "true", "model_output_invalid"),
        (terminus(), "42", "model_output_invalid"),
        (terminus(), '"str"', "model_output_invalid"),
        (terminus(), "[]", "model_output_invalid"),
        (terminus(), f"Here it is: {terminus()}", "model_output_invalid"),
        (terminus(), f"```json\n{terminus()}\n```", "model_output_invalid"),
        (terminus(), "", "model_output_invalid"),
        (terminus(), "[" * 3000, "model_output_invalid"),
        (terminus(), terminus(extra=1), "schema_check_failed"),
        (terminus(), '{"analysis": "a", "plan": "p"}', "schema_check_failed"),
        (terminus(), json.dumps({**json.loads(terminus()), "commands": [{"keystrokes": "ls\n", "duration": True}]}),
         "schema_check_failed"),
        (terminus(task_complete=True), terminus(), "task_complete_check_failed"),
        (terminus(), terminus(task_complete=True), "none"),
        (terminus("ls -la\n"), terminus("ls -al\n"), "string_similarity_below_threshold"),  # 2 * 6 / 14
        ("{}", terminus(), "expected_answer_invalid"),
        ("not JSON", "nor this", "expected_answer_invalid"),
    ],
)  # fmt: skip
def test_terminal_as_the_server_has_it(answer: str, text: str, reason: str) -> None:
    value = row(None, [says(text)], metadata={"harness": "terminus_2"}, expected_answer=answer)
    assert compat(value) == (float(reason == "none"), reason)


def test_terminal_thresholds_and_harnesses() -> None:
    near = {"output": [says(terminus("ls -al\n"))]}
    metadata = {"harness": "terminus_2"}
    value = row(None, near, metadata=metadata, expected_answer=terminus("ls -la\n"))
    assert verify_row(value, compat=True)["components"]["similarity"] == pytest.approx(6 / 7)
    assert compat({**value, "threshold": 0.8})[0] == 1.0
    assert compat({**value, "verifier": {"threshold": 0.8}})[0] == 1.0
    assert compat({**value, "threshold": 0.95, "verifier": {"threshold": 0.8}})[0] == 0.0  # the row's own comes first
    assert compat({**value, "verifier": {"enable_string_similarity": False}})[0] == 1.0
    assert compat({**value, "metadata": {"harness": "other"}})[1] == "unknown_harness"
    old = json.dumps({**OLD, "commands": [OLD_COMMAND]})
    assert compat(row(None, [says(old)], metadata={"harness": "terminus_1"}, expected_answer=old))[0] == 1.0
    assert compat(row(None, [says(old)], metadata=metadata, expected_answer=old))[1] == "expected_answer_invalid"
    empty = json.dumps({**OLD, "commands": []})
    none = row(None, [says(empty)], metadata={"harness": "terminus_1"}, expected_answer=empty)
    assert compat(none)[0] == 1.0
    assert compat({**none, "expected_answer": old})[1] == "string_similarity_below_threshold"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "no JSON object"),
        ({"expected_action": call({})}, "response: missing"),
        (row(call({}), 5), "response: expected"),
        (row(None, [call({})]), "expected_action"),
        (row(call("{"), [call({})]), "the arguments are not JSON"),
        (row({"type": "dance"}, [call({})]), "expected_action"),
        (row(call({}), [call({})], {"word_count_similarity_treshold": 0.1}), "no such setting"),
        (row(call({}), [call({})], {"allow_subset": 1}), "true or false"),
        (row(call({}), [call({})], {"parallel_tool_call_reward_mode": "all"}), "binary_strict, fractional, f1"),
        (row(call({}), [call({})], {"enable_llm_judge": True}), "no judge"),
    ],
)
def test_a_row_that_cannot_be_judged_is_an_error_that_says_why(value: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        verify_row(value, compat=True)


def test_a_row_belongs_to_the_domain_that_it_carries_marks_of() -> None:
    assert row_domain({"metadata": {"harness": "terminus_2"}, "pivot_tags": []}) == "terminal"
    assert [row_domain({key: None}) for key in ("ref_patch", "pivot_tags", "tool_name_match")] == ["software"] * 3
    assert row_domain({"metadata": {"category": "edit"}}) == "tool"
    assert row_domain({"domain": "search", "pivot_tags": []}) == "search"
    assert row_domain({"metadata": {"harness": "openhands"}, "ref_patch": ""}) == "software"
    assert row_domain({"metadata": {"harness": "other"}, "expected_answer": "{}"}) == "terminal"


def test_a_pipeline_can_profile_with_these_verdicts() -> None:
    verifier = GradedVerifier(NemoGymGrader(), RewardRule(partial=True))
    expert = Message(Role.ASSISTANT, tool_calls=(ToolCall("f", '{"x": 1}'),))
    candidate = Candidate((Message(Role.USER, "Please."),), (), expert, "t", 0)
    verdict = verifier.verify(candidate, Action(tool_calls=(ToolCall("f", '{"x": true}'),)))
    assert (verdict.reward, verdict.reason) == (1.0, "EXPECTED_TOOL_CALL")
    assert verifier.verify(candidate, Action(text="<tool_call>{", error="cut off")).reason == "NO_EXPECTED_TOOL_CALL"
    assert verifier.verify(candidate, Action(thinking="hm")).reason == "NO_ACTION_FOUND"
    batch = Candidate((), (), Message(Role.ASSISTANT, tool_calls=expert.tool_calls * 2), "t", 0)
    assert verifier.verify(batch, Action(tool_calls=expert.tool_calls * 2)).reason == "EXPECTED_TOOL_CALL_BATCH"
    words = Candidate((), (), Message(Role.ASSISTANT, "Hi."), "t", 0, metadata={NEMO_ROW: row(call({}), [])})
    assert verifier.verify(words, Action(tool_calls=(ToolCall("f", "{}"),))).reward == 1.0  # as the row has it
    shell = Candidate(
        (), (), Message(Role.ASSISTANT, terminus()), "t", 0, "terminal", metadata={"harness": "terminus_2"}
    )
    assert verifier.verify(shell, Action(terminus())).reward == 1.0
    strange = Candidate((), (), Message(Role.ASSISTANT, tool_calls=(ToolCall("f", "{"),)), "t", 0)
    assert verifier.verify(strange, Action(tool_calls=(ToolCall("f", "{}"),))).reason == "row_invalid"


def rollouts(server: str) -> list[dict[str, Any]]:
    path = PIVOT_ROWS / server / "example_rollouts.jsonl"
    if not path.is_file():
        pytest.skip("the folder of real files is absent")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


SENTENCES = {
    "A chat message was found as expected": "EXPECTED_CHAT_MESSAGE_FOUND",
    "No tool call was found when one was expected": "NO_EXPECTED_TOOL_CALL",
    "A tool call that matches the expected tool call was found": "EXPECTED_TOOL_CALL",
}


def test_recorded_tool_calls_get_the_verdicts_that_they_were_recorded_with() -> None:
    recorded = rollouts("single_step_tool_use_with_argument_comparison")
    for value in recorded:
        assert compat(value) == (value["reward"], SENTENCES[value["category"]])
        assert verify_row(value)["reward"] == value["reward"]
    assert len(recorded) == 5


def test_recorded_software_turns_get_the_verdicts_that_they_were_recorded_with() -> None:
    recorded = rollouts("swe_pivot")
    expected = {
        value["uuid"]: value["expected_action"]
        for value in map(json.loads, (PIVOT_ROWS / "swe_pivot" / "example.jsonl").read_text("utf-8").splitlines())
    }
    for value in recorded:
        assert compat(value) == (value["reward"], value["failure_reason"])  # a reply does not repeat what was expected
        whole = {**value, "expected_action": expected[value["uuid"]]}
        assert compat(whole) == (value["reward"], value["failure_reason"])
    assert len(recorded) == 5


def test_recorded_terminal_turns_get_the_rewards_and_similarities_that_they_were_recorded_with() -> None:
    recorded = rollouts("terminus_judge")
    for value in recorded:
        found = verify_row(value, compat=True)
        assert found["reward"] == value["reward"]
        assert found["components"]["similarity"] == value["similarity_score"]
    assert len(recorded) == 5

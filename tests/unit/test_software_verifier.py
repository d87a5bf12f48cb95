"""Turns of coding agents: tables of calls that are, and are not, interchangeable with the expert's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.config.loading import parse_config
from pivotrl_core.stages.context import Places
from pivotrl_core.stages.verification import configured_verifier, grading_id
from pivotrl_core.trajectories.nemo_gym import NemoGymReader
from pivotrl_core.types import Action, Candidate, Message, Role, Tool, ToolCall
from pivotrl_core.verifiers.graded import GradedVerifier
from pivotrl_core.verifiers.protocol import GradingDecision
from pivotrl_core.verifiers.rows import verify_row
from pivotrl_core.verifiers.settings import SoftwareSettings
from pivotrl_core.verifiers.software.comparison import program, text_similarity
from pivotrl_core.verifiers.software.grader import SoftwareGrader
from pivotrl_core.verifiers.software.paths import Lines, overlap, same_path

SHARED_ROWS = Path(__file__).resolve().parents[3] / "shared/data/pivot_rows/swe_pivot/example.jsonl"
EDITOR = "str_replace_editor"
BASH = "execute_bash"
Call = tuple[str, dict[str, Any]]


def calls(*pairs: Call) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name, json.dumps(arguments)) for name, arguments in pairs)


def decide(
    expected: tuple[Call, ...],
    actual: tuple[Call, ...],
    tools: tuple[Tool, ...] = (),
    settings: SoftwareSettings | None = None,
    **of_row: Any,
) -> GradingDecision:
    expert = Message(Role.ASSISTANT, tool_calls=calls(*expected))
    grader = SoftwareGrader(settings)
    candidate = Candidate(of_row.pop("state", ()), tools, expert, "t", 0, "software", **of_row)
    components = grader.grade(candidate, Action(tool_calls=calls(*actual)))
    return grader.decide(json.loads(json.dumps(components)))


def view(path: str, *lines: int) -> Call:
    return EDITOR, {"command": "view", "path": path, **({"view_range": list(lines)} if lines else {})}


def replace(old: str, new: str, path: str = "/w/a.py") -> Call:
    return EDITOR, {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


def create(text: str, path: str = "/w/a.py") -> Call:
    return EDITOR, {"command": "create", "path": path, "file_text": text}


def run(command: str, **options: Any) -> Call:
    return BASH, {"command": command, **options}


SAME: list[tuple[Call, Call]] = [
    # The tools of other agents, doing the same.
    (("finish", {"message": "all is done"}), ("submit", {})),
    (view("/w/a.py"), ("Read", {"file_path": "/w/a.py"})),
    (view("/w/a.py", 10, 20), ("read_file", {"path": "/w/a.py", "start_line": 10, "end_line": 20})),
    (view("/w/a.py", 10, 20), ("Read", {"file_path": "/w/a.py", "offset": 10, "limit": 11})),
    (replace("x = 1", "x = 2"), ("Edit", {"file_path": "/w/a.py", "old_string": "x = 1", "new_string": "x = 2"})),
    (replace("x", "y"), ("MultiEdit", {"file_path": "/w/a.py", "edits": [{"old_string": "x", "new_string": "y"}]})),
    (create("x = 1\n"), ("Write", {"file_path": "/w/a.py", "content": "x = 1\n"})),
    (("Grep", {"pattern": "total", "path": "src"}), ("search_dir", {"search_term": "total", "dir": "src"})),
    (("find_file", {"file_name": "a.py"}), ("Glob", {"pattern": "a.py"})),
    (run("ls"), ("Bash", {"command": "ls", "description": "what is here", "timeout": 5000})),
    (run("ls"), ("shell", {"command": ["bash", "-lc", "ls"]})),
    (run("edit 3:4\nx = 1\nend_of_edit"), run("edit 3:4\nx = 1  \nend_of_edit\n")),
    (("think", {"thought": "the sum is wrong"}), ("think", {"thought": "look at the loop"})),
    # Lines.
    (view("/w/a.py", 200, 250), view("/w/a.py", 210, 260)),  # 41 shared of 51: .804
    (view("/w/a.py", 200, -1), view("/w/a.py", 200, -1)),
    (view("/w/a.py"), view("/w/a.py", 1, -1)),
    (view("/w/a.py", 200, -1), ("Read", {"file_path": "/w/a.py", "offset": 200})),
    (view("/w/a.py", 10, 20), (EDITOR, {"command": "view", "path": "/w/a.py", "view_range": "[10, 20]"})),
    # Paths.
    (view("/workspace/proj/src/a.py"), view("src/a.py")),
    (view("/testbed/a.py"), view("a.py")),
    (view("/w/x/../src//a.py"), view("/w/./src/a.py")),
    (("Grep", {"pattern": "x"}), ("Grep", {"pattern": "x", "path": "."})),
    (("Grep", {"pattern": "x", "-i": True}), ("grep_search", {"query": "x", "case_insensitive": True})),
    # What is written, but for white space and comments.
    (replace("x = 1", "x = 2"), replace("x = 1", "x = 2  # two")),
    (replace("x = 1", "x = f(a, b)"), replace("x = 1", "x = f(\n    a,\n    b,\n)")),
    (replace("x = 1", "x = 'a'"), replace("x = 1", 'x = "a"')),
    (replace("    x = 1\n", "    x = 2\n"), replace("x = 1", "x = 2")),  # the white space around stays in the file
    (create("def f():\n    return 1\n"), create("# all\n\ndef f():\n\n    return (1)\n")),
    (create("a {\n  b: c;\n}", "/w/a.css"), create("a {\n    b: c;\n\n}", "/w/a.css")),
    (replace("x", ""), (EDITOR, {"command": "str_replace", "path": "/w/a.py", "old_str": "x"})),
    # Commands.
    (run("grep -rn 'foo' src"), run('grep -nr "foo"   src  # look')),
    (run("cd /w && ls -la"), run("cd /w; ls -al")),
    # Tools that the domain does not know.
    (("jira", {"id": 1.0, "note": "a"}), ("jira", {"note": "a", "id": 1})),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_calls_that_do_the_same_are_accepted_in_both_orders(expected: Call, actual: Call) -> None:
    assert decide((expected,), (actual,)).accepted
    assert decide((actual,), (expected,)).accepted


TYPED = [
    (run("open src/a.py 10"), view("src/a.py", 10, 109)),  # a window of 100 lines
    (run("find_file a.py src"), ("find_file", {"file_name": "a.py", "dir": "src"})),
    (run("submit"), ("finish", {"message": "all is done"})),
]


@pytest.mark.parametrize(("typed", "called"), TYPED)
def test_commands_of_swe_agent_are_steps_in_its_own_shell_alone(typed: Call, called: Call) -> None:
    assert decide((typed,), (called,)).accepted
    assert not decide((called,), (typed,)).accepted, "in any other shell there is no such command"
    for known in ({"harness": "SWE-agent"}, {"metadata": {"harness": "swe_agent"}}):
        assert decide((called,), (typed,), metadata=known).accepted
    said = Message(Role.TOOL, "(Open file: n/a)\n(Current directory: /w)\nbash-$")
    assert decide((called,), (typed,), state=(said,)).accepted


DIFFERENT: list[tuple[Call, Call, str]] = [
    (("read_file", {"path": "/w/a.py"}), ("grep", {"pattern": "a"}), "name_differs"),
    (("jira", {"id": 1}), ("Jira", {"id": 1}), "name_differs"),  # a name that is not known is exact
    (("jira", {"id": 1}), ("jira", {"id": True}), "arguments_differ"),
    (("scroll_down", {}), ("scroll_up", {}), "target_differs"),
    # Lines.
    (view("/w/a.py", 200, 250), view("/w/a.py", 211, 260), "arguments_differ"),  # 40 of 51: .784
    (view("/w/a.py", 10, 20), view("/w/a.py", 1, 2000), "arguments_differ"),  # seeing more is not the same turn
    (view("/w/a.py", 10, 20), view("/w/a.py"), "arguments_differ"),
    (view("/w/a.py", 10, -1), view("/w/a.py", 500, -1), "arguments_differ"),
    (view("/w/a.py", 10, 20), (EDITOR, {"command": "view", "path": "/w/a.py", "view_range": "all"}), "target_differs"),
    # Paths.
    (view("/w/src/models/a.py"), view("/w/src/views/a.py"), "target_differs"),
    (view("/w/src/a.py"), view("/v/src/a.py"), "target_differs"),  # both are absolute
    (view("/w/p/src/a.py"), view("a.py"), "target_differs"),
    (view("src/a.py"), view("a.py"), "target_differs"),
    (view("/w/src/ba.py"), view("a.py"), "target_differs"),
    (view("/w/a.py"), (EDITOR, {"command": "view"}), "target_differs"),
    (("Grep", {"pattern": "x", "path": "src"}), ("Grep", {"pattern": "x", "path": "tests"}), "target_differs"),
    # Patterns count.
    (("Grep", {"pattern": "total"}), ("Grep", {"pattern": "sum"}), "arguments_differ"),
    (("Grep", {"pattern": "total"}), ("Grep", {"path": "."}), "target_differs"),
    (("Grep", {"pattern": "x"}), ("Grep", {"pattern": "x", "-i": True}), "arguments_differ"),
    (("Grep", {"pattern": "a.py"}), ("Glob", {"pattern": "a.py"}), "target_differs"),
    # Edits that are alike but do something else.
    (replace("x = 1", "x = 2"), replace("x = 1", "x = 3"), "arguments_differ"),
    (replace("x = 1", "x = 2"), replace("x  = 1", "x = 2"), "arguments_differ"),  # the editor does not find it
    (replace("x = 1", "    return x"), replace("x = 1", "  return x"), "arguments_differ"),
    (replace("x = 1", "if a:\n    b()\n    c()"), replace("x = 1", "if a:\n    b()\nc()"), "arguments_differ"),
    (replace("x = 1", "x = 'a  b'"), replace("x = 1", "x = 'a b'"), "arguments_differ"),
    (replace("x = 1", "x = 1.0"), replace("x = 1", "x = True"), "arguments_differ"),
    (replace("x", "y"), (EDITOR, {"command": "str_replace", "path": "/w/a.py", "new_str": "y"}), "target_differs"),
    (replace("x", "y"), (EDITOR, {"command": "str_replace", "old_str": "x", "new_str": "y"}), "target_differs"),
    (replace("x", "y"), create("y"), "target_differs"),
    (create("x"), (EDITOR, {"command": "create", "path": "/w/a.py"}), "arguments_differ"),
    (create("a:\n  b: c", "/w/a.yaml"), create("a:\n    b: c", "/w/a.yaml"), "arguments_differ"),
    (("Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}),
     ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": True}), "arguments_differ"),
    (run("edit 3:4\nx\nend_of_edit"), run("edit 3:5\nx\nend_of_edit"), "target_differs"),
    ((EDITOR, {"command": "insert", "path": "a", "insert_line": 3, "new_str": "x"}),
     (EDITOR, {"command": "insert", "path": "a", "insert_line": 4, "new_str": "x"}), "target_differs"),
    (replace("x = 1", "x = 1  # one"), replace("x = 1", "x = 1  # eins"), "arguments_differ"),  # comments alone
    (replace("x = 1", "x = 1"), replace("x = 1", "x  =  1"), "arguments_differ"),
    (create("# a"), create("# b"), "arguments_differ"),
    (create("#!/usr/bin/python3\nx = 1\n"), create("#!/usr/bin/python2\nx = 1\n"), "arguments_differ"),
    (create("#!/usr/bin/python3\nx = (1)\n"), create("x = 1\n"), "arguments_differ"),
    # Commands.
    (run("pytest -v"), run("pytest -xvs"), "arguments_differ"),
    (run("grep x src/views"), run("grep x src/models"), "arguments_differ"),
    (run("grep x a"), run("pytest"), "target_differs"),
    (run("ls"), (BASH, {}), "target_differs"),
    (run("ls"), run("  "), "target_differs"),
    (run("y"), run("y", is_input="true"), "arguments_differ"),
    (("TodoWrite", {"todos": ["look", "mend"]}), ("TodoWrite", {"todos": []}), "target_differs"),
    (("think", {"thought": "the loop"}), ("think", {"thought": " "}), "target_differs"),
    (("finish", {"task_completed": "true"}), ("finish", {"task_completed": "false"}), "arguments_differ"),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "actual", "reason"), DIFFERENT)
def test_calls_that_do_something_else_are_refused_in_both_orders(expected: Call, actual: Call, reason: str) -> None:
    found = decide((expected,), (actual,))
    assert (found.accepted, found.reason) == (False, reason)
    assert not decide((actual,), (expected,)).accepted


def test_names_alone_decide_where_the_papers_rule_is_set() -> None:
    rule = SoftwareSettings(name_only=True)
    assert decide((run("pytest -v"),), (run("rm -rf src"),), settings=rule).accepted
    assert decide((run("ls"),), (("Bash", {}),), settings=rule).accepted
    assert decide((run("ls"),), (view("a.py"),), settings=rule).reason == "name_differs"
    assert decide((run("ls"),), (run("ls"), run("pwd")), settings=rule).reason == "count_differs"


def test_a_tool_that_the_row_does_not_offer_cannot_take_the_experts_place() -> None:
    tools = (Tool("bash", "", {"type": "object", "properties": {}, "required": ["command", "why"]}), Tool("shell"))
    expected = ("bash", {"command": "ls", "why": "to see"})
    assert decide((expected,), (("shell", {"command": "ls"}),)).reason == "arguments_differ"  # `why` counts
    assert decide((expected,), (("shell", {"command": "ls", "why": "to see"}),), tools).accepted
    assert decide((expected,), (("Bash", {"command": "ls", "why": "to see"}),), tools).reason == "name_differs"
    assert decide((expected,), (("bash", {"command": "ls"}),), tools).reason == "target_differs"  # required


def test_several_calls_are_matched_and_order_counts_where_something_is_changed() -> None:
    one, two = view("/w/a.py"), view("/w/b.py")
    assert decide((one, two), (two, one)).accepted
    assert decide((one, two), (one,)) == GradingDecision(False, "count_differs", 0.5)
    assert decide((one,), (one, two)) == GradingDecision(False, "count_differs", 0.5)
    first, second = run("make"), run("make install")
    assert decide((first, second), (first, second)).accepted
    assert decide((first, second), (second, first)) == GradingDecision(False, "arguments_differ", 0.0)


def test_what_is_malformed_or_missing_is_a_verdict() -> None:
    grader = SoftwareGrader()
    candidate = Candidate((), (), Message(Role.ASSISTANT, tool_calls=calls(run("ls"))), "t", 0, "software")
    for action, reason in [
        (Action(error="no JSON"), "malformed"),
        (Action(tool_calls=(ToolCall(BASH, '{"command": "ls"'),)), "malformed"),
        (Action("I would run ls."), "call_expected"),
        (Action("<think>ls</think> "), "no_answer"),
    ]:
        verdict = GradedVerifier(grader).verify(candidate, action)
        assert (verdict.reward, verdict.reason) == (0.0, reason)
    talk = Candidate((), (), Message(Role.ASSISTANT, "What is the version?"), "t", 0, "software")
    assert grader.decide(grader.grade(talk, Action("Which version?"))).accepted
    assert grader.decide(grader.grade(talk, Action(tool_calls=calls(run("ls"))))).reason == "message_expected"


def test_another_overlap_of_lines_is_decided_on_what_was_graded_before() -> None:
    grader = SoftwareGrader()
    candidate = Candidate((), (), Message(Role.ASSISTANT, tool_calls=calls(view("a", 1, 10))), "t", 0, "software")
    components = grader.grade(candidate, Action(tool_calls=calls(view("a", 4, 10))))  # 7 of 10 lines
    assert components["lines"] == 0.7
    assert not grader.decide(components).accepted
    assert SoftwareGrader(SoftwareSettings(line_overlap=0.7)).decide(components).accepted


@pytest.mark.parametrize(
    ("first", "second", "length", "share"),
    [
        (Lines(1, 10), Lines(6, 15), None, 0.5),
        (Lines(1, 10), Lines(11, 20), None, 0.0),
        (Lines(1, 10), Lines(1, 20), None, 0.5),  # the longer range counts: the measure is symmetric
        (Lines(10, None), Lines(20, None), None, 0.0),  # nobody knows where the file ends
        (Lines(10, None), Lines(20, None), 109, 0.9),  # 100 and 90 lines
        (Lines(1, None), Lines(1, 100), 90, 1.0),
        (Lines(5, 4), Lines(5, 4), None, 1.0),
        (Lines(5, 4), Lines(5, 5), None, 0.0),
    ],
)
def test_overlap_of_lines(first: Lines, second: Lines, length: int | None, share: float) -> None:
    assert overlap(first, second, length) == overlap(second, first, length) == share


@pytest.mark.parametrize(
    ("absolute", "relative", "same"),
    [
        ("/repo/a.py", "a.py", True),
        ("/home/user/a.py", "a.py", True),
        ("/home/user/src/a.py", "a.py", False),
        ("/home/user/src/a.py", "src/a.py", True),
        ("/home/user/src/a.py", "../src/a.py", False),
        ("/home/user/src/a.py", "", False),
    ],
)
def test_a_relative_path_is_an_absolute_one_that_ends_so(absolute: str, relative: str, same: bool) -> None:
    assert same_path(absolute, relative) is same_path(relative, absolute) is same


def test_the_program_of_a_command_is_found_behind_a_change_of_folder() -> None:
    commands = ["ls -l", "cd /w && /bin/ls", "A=1 sudo ls|wc", "  ", "(ls)"]
    assert [program(command) for command in commands] == ["ls", "ls", "ls", "", ""]


def test_similarity_is_of_whole_texts_and_symmetric() -> None:
    long = "echo abc; " * 36  # the repetitive command of which difflib says .014
    assert text_similarity(long, long[:-3] + "d; ") == pytest.approx(1 - 2 / 720)
    assert text_similarity("a\n" * 15_000, "a\n" * 14_999 + "b\n") == pytest.approx(1 - 2 / 30_002)
    assert text_similarity("", "a") == text_similarity("a", "") == 0.0


def test_the_configuration_says_how_turns_of_agents_are_compared(tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path)
    source = {"kind": "folder", "path": "trajectories"}
    slow = {"test_seconds": 600}
    sections = {"software": {"name_only": True}, "search": {"query_similarity": 0.5}}
    config = parse_config({"source": source, "arms": {"base": {}}, "seeds": [0], "verifier": sections})
    expert = Message(Role.ASSISTANT, tool_calls=calls(run("ls")))
    candidate = Candidate((), (), expert, "t", 0, "software")
    assert configured_verifier(config, places).verify(candidate, Action(tool_calls=calls(run("pwd")))).reward == 1.0
    plain = parse_config({"source": source, "arms": {"base": {}}, "seeds": [0]})
    assert configured_verifier(plain, places).verify(candidate, Action(tool_calls=calls(run("pwd")))).reward == 0.0
    asked = Message(Role.ASSISTANT, tool_calls=calls(("search", {"query": "long rivers"})))
    other = Action(tool_calls=calls(("search", {"query": "rivers"})))  # 1 of 2 words
    rewards = [configured_verifier(one, places).verify(Candidate((), (), asked, "t", 0, "search"), other).reward
               for one in (config, plain)]  # fmt: skip
    assert rewards == [1.0, 0.0]
    assert grading_id(config, places) == grading_id(plain, places)  # thresholds decide on what was found before
    timed = parse_config({"source": source, "arms": {"base": {}}, "seeds": [0], "verifier": {"software": slow}})
    assert grading_id(timed, places) != grading_id(plain, places)


def test_rows_of_a_file_are_compared_by_names_where_their_settings_leave_out_all_else() -> None:
    row = {
        "responses_create_params": {"input": [{"role": "user", "content": "fix it"}]},
        "expected_action": {"type": "function_call", "name": BASH, "arguments": '{"command": "ls -la"}'},
        "ref_patch": "",
        "response": {"output": [{"type": "function_call", "name": "bash", "arguments": '{"command": "ls"}'}]},
    }
    assert verify_row(row)["reason"] == "arguments_differ"
    names = {"enable_target_match": False, "enable_argument_similarity": False}
    assert verify_row({**row, "verifier": names})["reward"] == 1.0


@pytest.mark.skipif(not SHARED_ROWS.exists(), reason="the shared example rows are not here")
def test_the_experts_actions_of_real_rows_are_accepted_in_any_order_of_keys() -> None:
    verifier = GradedVerifier(SoftwareGrader())
    for line in SHARED_ROWS.read_text(encoding="utf-8").splitlines():
        trajectory = NemoGymReader().read_row(json.loads(line), "rows")
        *state, expert = trajectory.messages
        candidate = Candidate(tuple(state), trajectory.tools, expert, trajectory.id, 1, trajectory.domain)
        call = expert.tool_calls[0]
        turned = json.dumps(dict(reversed(json.loads(call.arguments).items())), indent=1)
        verdict = verifier.verify(candidate, Action(tool_calls=(ToolCall(call.name, turned),)))
        assert (verdict.reward, verdict.components["similarity"]) == (1.0, 1.0)

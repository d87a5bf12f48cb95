"""Edits and commands tried on copies of a row's tree, in the sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.types import Action, Candidate, Json, Message, Role, ToolCall
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.protocol import GradingDecision
from pivotrl_core.verifiers.software.edits import EditError, apply_edit, place_of, static_error
from pivotrl_core.verifiers.software.grader import SoftwareGrader
from pivotrl_core.verifiers.software.steps import read_step
from pivotrl_core.verifiers.verdict_cache import VerdictCache
from pivotrl_core.verifiers.workspace import Node, NodeKind, load_workspace

needs_sandbox = pytest.mark.skipif(sandbox.available() is not None, reason=str(sandbox.available()))

TOTAL = """def total(values):
    result = 0
    return None
"""
CHECK = """import unittest

from calc.total import total


class TotalTest(unittest.TestCase):
    def test_some(self):
        self.assertEqual(total([1, 2]), 3)

    def test_none(self):
        self.assertEqual(total([]), 0)


unittest.main(argv=["check"])
"""
EXPERT = "    for v in values:\n        result += v\n    return result"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "rows" / "proj"
    (root / "calc").mkdir(parents=True)
    (root / "calc" / "total.py").write_text(TOTAL)
    (root / "check.py").write_text(CHECK)
    (root / "notes.txt").write_text("".join(f"line {number}\n" for number in range(1, 41)))
    return tmp_path / "rows"


def replace(new: str, old: str = "    return None", path: str = "/workspace/proj/calc/total.py") -> ToolCall:
    return ToolCall("Edit", json.dumps({"file_path": path, "old_string": old, "new_string": new}))


def run(command: str) -> ToolCall:
    return ToolCall("bash", json.dumps({"command": command}))


def view(*lines: int) -> ToolCall:
    return ToolCall("editor", json.dumps({"command": "view", "path": "/w/proj/notes.txt", "view_range": lines}))


def candidate(expert: ToolCall, tests: Json = "python3 check.py") -> Candidate:
    row = {"workspace": "proj", "tests": tests}
    return Candidate((), (), Message(Role.ASSISTANT, tool_calls=(expert,)), "t", 0, "software", metadata=row)


def grade(
    tree: Path, one: Candidate, actual: ToolCall, cache: VerdictCache | None = None
) -> tuple[GradingDecision, Any]:
    grader = SoftwareGrader(workspaces=tree, cache=cache)
    components = grader.grade(one, Action(tool_calls=(actual,)))
    return grader.decide(components), components


@needs_sandbox
@pytest.mark.parametrize(
    ("new", "reason", "tests"),
    [
        ("    return sum(values)", "same_effect", "passed"),
        ("    return sum(values) + 1", "effect_differs", "failed"),
        ("    import os\n    os._exit(0)", "effect_differs", "failed"),  # ends the tests early, with status 0
        ("    return sum(values", "arguments_differ", None),  # does not parse: nothing is run
        ("    return None", "effect_differs", "failed"),
    ],
)
def test_another_edit_is_accepted_where_the_rows_tests_pass_as_after_the_experts(
    tree: Path, new: str, reason: str, tests: str | None
) -> None:
    decision, components = grade(tree, candidate(replace(EXPERT)), replace(new))
    assert (decision.reason, components.get("tests")) == (reason, tests)
    assert decision.accepted == (reason == "same_effect")
    assert components["executed"] == (tests is not None)


@needs_sandbox
def test_tests_that_cannot_tell_accept_nothing(tree: Path) -> None:
    other = replace("    return sum(values)")
    assert grade(tree, candidate(replace(EXPERT), "true"), other)[1]["tests"] == "untelling"  # pass before
    assert grade(tree, candidate(replace(EXPERT), "false"), other)[1]["tests"] == "untelling"  # fail after
    assert grade(tree, candidate(replace(EXPERT), None), other)[1]["tests"] == "none"
    written = (
        "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        pass\n\n\nunittest.main()\n"
    )
    expert = ToolCall("Write", json.dumps({"file_path": "/w/proj/check_two.py", "content": written}))
    marked = ToolCall("Write", json.dumps({"file_path": "/w/proj/check_two.py", "content": written + "x = 1\n"}))
    decision, components = grade(tree, candidate(expert, "python3 check_two.py"), marked)
    assert (decision.accepted, components["tests"]) == (False, "none")  # nobody marks his own work


@needs_sandbox
def test_edits_that_leave_the_same_file_are_the_same_without_running_anything(tree: Path) -> None:
    wider = replace(f"    result = 0\n{EXPERT}", "    result = 0\n    return None")  # more context, the same change
    decision, components = grade(tree, candidate(replace(EXPERT), None), wider)
    assert (decision.reason, components["executed"]) == ("same_effect", False)
    noted, named = (replace(f"    return None  # {note}") for note in ("sum", "total"))
    assert not grade(tree, candidate(noted, None), named)[0].accepted  # the expert changes a comment alone
    absent, twice = replace(EXPERT, "    return nothing"), replace(EXPERT, "r")
    for actual in (absent, twice):
        assert grade(tree, candidate(replace(EXPERT), None), actual)[0] == GradingDecision(False, "edit_fails", 0.0)


@needs_sandbox
def test_commands_with_the_same_effect_are_the_same(tree: Path) -> None:
    expert = candidate(run("grep -rn total calc"))
    assert grade(tree, expert, run("cd . && grep -n -r 'total' ./calc | sed 's|^./||'"))[0].reason == "same_effect"
    decision, components = grade(tree, expert, run("grep -rn result calc"))
    assert (decision.reason, components["executed"]) == ("effect_differs", True)
    unknown = candidate(run("no-such-program"))
    assert grade(tree, unknown, run("no-such-program-either"))[0].reason == "target_differs"


@needs_sandbox
def test_the_length_of_a_file_decides_what_its_end_is(tree: Path) -> None:
    assert not grade(tree, candidate(view(1, 30)), view(1, -1))[0].accepted  # 30 of 40 lines
    assert grade(tree, candidate(view(1, 40)), view(1, -1))[0].accepted
    assert grade(tree, candidate(view(1, 40)), view(1, 2000))[0].accepted
    assert grade(tree, candidate(view(2, -1)), view(5, -1))[0].accepted  # 36 of 39


@needs_sandbox
def test_what_was_executed_is_remembered(tree: Path, tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path / "cache.sqlite")
    one, other = candidate(replace(EXPERT)), replace("    return sum(values)")
    first = grade(tree, one, other, cache)
    missed = cache.misses
    assert grade(tree, one, other, cache) == first
    assert cache.misses == missed


def test_without_a_folder_of_workspaces_nothing_is_tried(tmp_path: Path) -> None:
    grader = SoftwareGrader()
    components = grader.grade(candidate(replace(EXPERT)), Action(tool_calls=(replace("    return sum(values)"),)))
    assert (components["executed"], "applied" in components) == (False, False)


@needs_sandbox
def test_a_workspace_outside_of_the_folder_is_named_and_not_read(tree: Path) -> None:
    row = {"workspace": "../../etc"}
    one = Candidate((), (), Message(Role.ASSISTANT, tool_calls=(run("ls"),)), "t", 0, "software", metadata=row)
    decision, components = grade(tree, one, run("pwd"))
    assert not decision.accepted
    assert "name a folder or an archive below" in components["workspace"]


def apply(name: str, **arguments: Any) -> str | None:
    nodes = {"src": Node(NodeKind.FOLDER), "src/a.py": Node(NodeKind.FILE, b"a = 1\nb = 1\nc = 1\n")}
    return apply_edit(read_step(ToolCall(name, json.dumps(arguments)), {}), nodes)[1]


def test_edits_are_applied_as_editors_apply_them() -> None:
    path = "/w/src/a.py"
    editor = "str_replace_editor"
    assert apply(editor, command="str_replace", path=path, old_str="b = 1", new_str="b = 2") == "a = 1\nb = 2\nc = 1\n"
    assert apply("Edit", file_path=path, old_string="1", new_string="2", replace_all=True) == "a = 2\nb = 2\nc = 2\n"
    assert apply(editor, command="insert", path=path, insert_line=1, new_str="x") == "a = 1\nx\nb = 1\nc = 1\n"
    assert apply("replace_lines", path=path, start_line=2, end_line=3, text="x\n") == "a = 1\nx\n"
    pairs = [{"old_string": "a = 1", "new_string": "a = 2"}, {"old_string": "a = 2\n", "new_string": ""}]
    assert apply("MultiEdit", file_path=path, edits=pairs) == "b = 1\nc = 1\n"
    assert apply("write_file", path=path, content="") == ""
    assert apply("delete_file", path=path) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "str_replace", "path": "/w/src/a.py", "old_str": "1", "new_str": "2"},  # three times there
        {"command": "str_replace", "path": "/w/src/a.py", "old_str": "z", "new_str": "2"},
        {"command": "str_replace", "path": "/w/src/b.py", "old_str": "a", "new_str": "2"},
        {"command": "str_replace", "path": "/w/src", "old_str": "a", "new_str": "2"},
        {"command": "insert", "path": "/w/src/a.py", "insert_line": 9, "new_str": "x"},
        {"command": "insert", "path": "/w/src/a.py", "insert_line": -1, "new_str": "x"},
        {"command": "create", "path": "/w/src", "file_text": "x"},
        {"command": "create", "path": "../x", "file_text": "x"},
        {"command": "create", "path": "/w/\ud800.py", "file_text": "x"},
        {"command": "create", "path": "/w/" + "x" * 300, "file_text": "x"},
        {"command": "create", "path": "/w/x", "file_text": "x" * 5_000_000},
        {"command": "undo_edit", "path": "/w/src/a.py"},
    ],
)
def test_edits_that_an_editor_would_refuse_are_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(EditError):
        apply("str_replace_editor", **arguments)


def test_the_text_that_replacements_write_is_bounded_before_it_is_written() -> None:
    pairs = [{"old_string": "e", "new_string": "e" * 10}] * 12
    step = read_step(ToolCall("MultiEdit", json.dumps({"file_path": "a", "edits": pairs, "replace_all": True})), {})
    assert len(step.pairs) == 12
    with pytest.raises(EditError, match="too much text"):
        apply_edit(step, {"a": Node(NodeKind.FILE, b"e")})


def test_a_path_lies_in_the_tree_where_its_end_does(tree: Path) -> None:
    nodes = load_workspace(tree / "proj").tree.nodes
    assert place_of("/workspace/proj/calc/total.py", nodes) == "calc/total.py"
    assert place_of("calc/total.py", nodes) == "calc/total.py"
    assert place_of("/workspace/proj/calc/new.py", nodes) == "calc/new.py"
    assert place_of("/workspace/proj/new.py", nodes) == "new.py"


@pytest.mark.parametrize(
    ("place", "text", "right"),
    [
        ("a.py", "x = 1", True), ("a.py", "x = (", False), ("a.py", "x\0", False), ("a.py", "(" * 10_000, False),
        ("a.py", "x = '\\d'", True),
        ("a.json", "{}", True), ("a.json", "{", False), ("a.toml", "a = 1", True), ("a.toml", "a = ", False),
        ("a.txt", "x = (", True), ("a.py", None, True),
    ],
)  # fmt: skip
def test_files_are_checked_by_what_their_names_say(place: str, text: str | None, right: bool) -> None:
    assert (static_error(place, text) == "") is right

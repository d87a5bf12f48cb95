"""What coding agents' calls do to a tree, or show of it, whatever tool does it: edits, commands, searches, views."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.types import Action, Candidate, Message, Role, ToolCall
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.protocol import GradingDecision
from pivotrl_core.verifiers.software.braces import brace_lines
from pivotrl_core.verifiers.software.grader import SoftwareGrader
from pivotrl_core.verifiers.software.open_file import open_file
from pivotrl_core.verifiers.software.paths import Lines
from pivotrl_core.verifiers.software.views import same_view

needs_sandbox = pytest.mark.skipif(sandbox.available() is not None, reason=str(sandbox.available()))

AREA = """'Areas.'


def area(width, height):
    return width + height


def edge(width, height):
    return width
"""
CHECK = (
    "from shapes.area import area\n\nassert area(2, 3) == 6, area(2, 3)\nassert area(0, 4) == 0\nprint('all is well')\n"
)
NEW = "    return width * height"
OLD = "    return width + height"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    root = tmp_path / "rows" / "proj"
    for folder in ("shapes", "lib", "docs"):
        (root / folder).mkdir(parents=True)
    (root / "shapes/area.py").write_text(AREA)
    (root / "lib/use.py").write_text("from shapes.area import area\n\nprint(area(1, 2))\nprint(area(3, 4))\n")
    (root / "check.py").write_text(CHECK)
    (root / "docs/more.txt").write_text("edge and area\n" * 3)
    return tmp_path / "rows"


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, json.dumps(arguments))


def edit(old: str = OLD, new: str = NEW, path: str = "/w/proj/shapes/area.py") -> ToolCall:
    return call("str_replace_editor", command="str_replace", path=path, old_str=old, new_str=new)


def program(new: str, path: str = "shapes/area.py", end: str = "") -> ToolCall:
    """An edit by a program, as agents without an editor write it."""
    lines = (
        f"from pathlib import Path\nfile = Path('{path}')\nfile.write_text(file.read_text().replace('{OLD}', '{new}'))"
    )
    return call("bash", command=f"python3 - <<'EOF'\n{lines}\nEOF{end}")


def grade(
    rows: Path, expert: ToolCall, actual: ToolCall, state: tuple[Message, ...] = (), tests: str = "python3 check.py"
) -> GradingDecision:
    row = {"workspace": "proj", "tests": tests}
    said = Message(Role.ASSISTANT, tool_calls=(expert,))
    candidate = Candidate(state, (), said, "t", 0, "software", metadata=row)
    grader = SoftwareGrader(workspaces=rows)
    return grader.decide(json.loads(json.dumps(grader.grade(candidate, Action(tool_calls=(actual,))))))


@needs_sandbox
def test_an_edit_is_what_it_leaves_whichever_command_of_the_editor_makes_it(rows: Path) -> None:
    path = "/w/proj/shapes/area.py"
    whole = call("create", path=path, file_text=AREA.replace(OLD, NEW))
    early = call("str_replace_editor", command="insert", path=path, insert_line=4, new_str=NEW)
    assert grade(rows, edit(), whole).accepted
    assert grade(rows, edit(), early).accepted  # what stands below is never reached, and the tests pass
    assert not grade(rows, edit(), call("create", path=path, file_text=AREA)).accepted
    assert not grade(rows, edit(), call("create", path="/w/proj/shapes/areas.py", file_text=whole.arguments)).accepted
    late = call("str_replace_editor", command="insert", path=path, insert_line=5, new_str=NEW)
    assert not grade(rows, edit(), late).accepted


@needs_sandbox
def test_edits_without_a_path_are_of_the_open_file(rows: Path) -> None:
    shown = Message(
        Role.TOOL, "[File: shapes/area.py]\n(Open file: /w/proj/shapes/area.py)\n(Current directory: /w/proj)"
    )
    other = Message(Role.TOOL, "(Open file: /w/proj/lib/use.py)")
    expert = call("edit", search=OLD, replace=NEW)
    way = call("edit", search=OLD, replace="    return height * width")
    assert grade(rows, expert, way, (shown,)).accepted
    assert not grade(rows, expert, call("edit", search=OLD, replace="    return width ** height"), (shown,)).accepted
    assert not grade(rows, expert, way, (other,)).accepted
    assert not grade(rows, expert, way).accepted  # nothing is open


def test_the_open_file_is_what_was_said_or_opened_last() -> None:
    def opened(*state: Message) -> str:
        return open_file(Candidate(state, (), Message(Role.ASSISTANT), "t", 0, "software"))

    look = Message(Role.ASSISTANT, tool_calls=(call("open", path="a.py"),))
    assert opened() == ""
    assert opened(look) == "a.py"
    assert opened(look, Message(Role.TOOL, "(Open file: /w/b.py)")) == "/w/b.py"
    assert opened(look, Message(Role.TOOL, "(Open file: n/a)")) == ""


@needs_sandbox
def test_a_command_that_edits_is_judged_by_the_tests_where_it_changes_the_same_files(rows: Path) -> None:
    expert = program(NEW)
    assert grade(rows, expert, program("    return height * width")).reason == "same_effect"
    assert not grade(rows, expert, program("    return width ** height")).accepted
    also = program("    return height * width", end="\nrm check.py; echo > check.py")
    assert not grade(rows, expert, also).accepted  # it touches what marks it


@needs_sandbox
def test_searches_are_the_same_where_they_find_the_same(rows: Path) -> None:
    state = (Message(Role.USER, "The repository is in /home/me/proj."),)

    def found(expert: ToolCall, actual: ToolCall) -> bool:
        return grade(rows, expert, actual, state).accepted

    grep = call("Grep", pattern="def area", path="shapes")
    assert found(grep, call("Grep", pattern="def area\\(", path="/home/me/proj/shapes"))
    assert found(grep, call("Grep", pattern="def +area", path="./shapes/"))
    assert not found(grep, call("Grep", pattern="def edge", path="shapes"))
    assert not found(grep, call("Grep", pattern="def area", path="lib"))
    assert not found(grep, call("Grep", pattern="def area", path="shapes", output_mode="count"))
    assert not found(grep, call("Grep", pattern="DEF area", path="shapes"))
    everywhere = call("Grep", pattern="area")
    assert found(everywhere, call("Grep", pattern="are[a]", path="/home/me/proj"))
    assert not found(everywhere, call("Grep", pattern="are[a]", path="/home/me/other"))
    assert found(call("Glob", pattern="lib/*.py"), call("Glob", pattern="*.py", path="/home/me/proj/lib"))
    assert not found(call("Glob", pattern="lib/*.py"), call("Glob", pattern="lib/*.txt"))
    nothing = call("Grep", pattern="no such text")
    assert not found(nothing, call("Grep", pattern="no such thing"))  # two empty answers say nothing


TEXT = "import os\n\n\ndef first():\n    x = 1\n    return x\n\n\n@cached\ndef second():\n    return 2\n" + "\n" * 9


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (Lines(4, 6), Lines(2, 8), 1.0),  # a few lines around it
        (Lines(2, 8), Lines(4, 6), 1.0),
        (Lines(4, 6), Lines(5, 6), 0.0),  # without its first line
        (Lines(4, 11), Lines(4, 10), 0.0),  # the second one is cut
        (Lines(9, 11), Lines(10, 11), 0.0),  # a decorator is part of it
        (Lines(4, 6), Lines(1, None), 3 / 20),  # all of the file
        (Lines(9, None), Lines(9, 20), 1.0),
        (Lines(1, 3), Lines(1, 5), 3 / 5),  # nothing whole in it: lines alone
    ],
)
def test_a_view_shows_what_the_expert_sees_whole(expected: Lines, actual: Lines, same: float) -> None:
    assert same_view(TEXT, "a.py", expected, actual) == pytest.approx(same)


SAME = [
    ("a = b;", "a  =  b;  // why"),
    ("f(a,b)", "f( a , b ) /* both */"),
    ("if (a) {\n  b();\n}", "\n    if (a) {\n\n  /* now\n  then */ b();\n  }"),
    ("x = 'a//b';", "x = 'a//b'; // c"),
    ("const u = `${a}-b`;", "const u=`${a}-b`;"),
    ('return t + " EUR";', '  return t+" EUR";'),
]
DIFFERENT = [
    ("return a;", "return\na;"),
    ("a - -b", "a --b"),
    ("x = 'a b';", "x = 'a  b';"),
    ("x = /a b/;", "x = /a  b/;"),
    ("x = /a\\/\\//.test(b);", "x = /a\\/\\//.test(c);"),
    ("const u = `a b`;", "const u = `a  b`;"),
    ("const u = `a\n  b`;", "const u = `a\n b`;"),
    ("#define F (x)", "#define F(x)"),
    ("//go:build linux\nx", "//go:build darwin\nx"),
    ('"""\n a\n"""', '"""\na\n"""'),
    ("a / b", "a // b"),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_white_space_and_comments_of_languages_with_braces_say_nothing(first: str, second: str) -> None:
    assert list(brace_lines(first)) == list(brace_lines(second))


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_what_says_something_in_languages_with_braces_stays(first: str, second: str) -> None:
    assert list(brace_lines(first)) != list(brace_lines(second))

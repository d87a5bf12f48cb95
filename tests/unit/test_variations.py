"""Other copies of a workspace: what is not shown changes, what is shown or parsed stays what it is."""

from __future__ import annotations

import ast
import json

from pivotrl_core.verifiers.variations import varied
from pivotrl_core.verifiers.workspace import Node, NodeKind, Workspace, make_workspace

LOG = [f"{number} INFO of part {number}" for number in range(1, 21)]


def workspace(**files: str) -> Workspace:
    nodes = {name.replace("__", "/"): text for name, text in files.items()}
    return make_workspace({name: Node(NodeKind.FILE, text.encode()) for name, text in nodes.items()})


def changed(name: str, text: str, shown: str = "") -> str:
    """What a file holds in the other copy of a workspace that holds it and another one."""
    nodes = {name: Node(NodeKind.FILE, text.encode()), "other.txt": Node(NodeKind.FILE, b"a\nb\nc\nd\n")}
    other = varied(make_workspace(nodes), shown)
    assert other is not None
    return other.tree.nodes[name].content.decode()


def test_a_text_has_lines_in_another_case_twice_with_other_numbers_and_elsewhere() -> None:
    text = "".join(f"{line}\n" for line in LOG)
    lines = changed("app.log", text).splitlines()
    assert len(lines) == 23
    assert any("info OF PART" in line for line in lines), "another case"
    assert sum(lines.count(line) == 2 for line in set(lines)) >= 1, "twice"
    assert [line for line in lines if line in LOG] != LOG, "other places"
    assert sum(line == f"{line[: len(line) // 2]} {line[: len(line) // 2]}" for line in lines) == 5, "a quarter doubled"
    assert len(set(LOG) - set(lines)) == 6, "and one has other numbers"


def test_digits_beyond_what_python_reads_as_a_number_stay() -> None:
    row = "9" * 5_000
    assert row in changed("app.log", f"{row}\n" * 8)
    text = json.dumps([10**4_299 * 9] * 8)
    assert changed("a.json", text) == text


def test_the_first_line_of_a_table_stays_and_rows_keep_their_columns() -> None:
    rows = [f"2024-01-{day:02},north,{day * 7},{day}.50" for day in range(1, 13)]
    lines = changed("sales.csv", "\n".join(["date,region,count,price", *rows]) + "\n").splitlines()
    assert lines[0] == "date,region,count,price"
    assert {line.count(",") for line in lines} == {3}
    assert all(line.startswith("2024-01-") for line in lines[1:]), "parts of a date are no numbers of their own"


def test_what_the_state_shows_stays() -> None:
    text = "".join(f"{line}\n" for line in LOG)
    assert changed("app.log", text, "$ cat app.log\n" + text) == text
    numbered = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(LOG, start=1))
    assert changed("app.log", text, "$ cat -n app.log\n" + numbered) == text
    assert changed("app.log", text, "$ head -n 3 app.log\n" + "\n".join(LOG[:3])) != text


def test_neighbours_come_where_names_are_not_shown() -> None:
    at = workspace(**{f"src__{name}.py": "" for name in ("one", "two", "three")})
    hidden, shown = varied(at, "find them"), varied(at, "$ ls src\none.py  three.py  two.py")
    assert hidden is not None
    added = hidden.tree.nodes.keys() - at.tree.nodes.keys()
    assert any(name.endswith("_2.py") for name in added)
    assert any(name.endswith(".py.bak") for name in added)
    assert any(name.startswith("src/more_2/") and name.endswith(".py") for name in added)
    assert shown is None, "nothing else may change"


def test_json_stays_json_with_its_layout_and_source_stays_the_program() -> None:
    value = {"users": [{"name": "ada", "age": 36, "on": True}], "total": 1}
    for indent in (None, 2, 4):
        found = changed("users.json", json.dumps(value, indent=indent) + "\n")
        assert found == json.dumps(json.loads(found), indent=indent) + "\n"
        assert json.loads(found).keys() == value.keys()
        assert len(json.loads(found)["users"]) == 2
    lines = changed("events.jsonl", "".join(json.dumps({"id": number}) + "\n" for number in range(9))).splitlines()
    assert all(isinstance(json.loads(line)["id"], int) for line in lines)
    source = "#!/usr/bin/env python3\nimport os\n\ndef f(x):\n    return x  # TODO\n"
    found = changed("main.py", source)
    assert found != source
    assert found.startswith("#!/usr/bin/env python3\n")
    assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(source))
    assert "# x f def" in found.splitlines()  # `grep f` finds more than `grep 'def f'`
    assert changed("no.json", "{no json\n") == "{no json\n"


def test_what_is_small_hidden_or_no_text_stays_and_equal_workspaces_have_equal_copies() -> None:
    small = {"a.txt": b"1\n2\n", "b.bin": b"\xff\xfe" * 40, ".git/config": b"a\nb\nc\nd\n", "e.txt": b""}
    nodes = {name: Node(NodeKind.FILE, content) for name, content in small.items()}
    assert varied(make_workspace({**nodes, ".git": Node(NodeKind.FOLDER)}), "$ ls\na.txt b.bin e.txt") is None
    text = "".join(f"{line}\n" for line in LOG)
    copies = [varied(workspace(app_log=text), "") for _ in range(2)]
    assert copies[0] is not None
    assert copies[1] is not None
    assert copies[0].digest == copies[1].digest


def test_line_ends_and_no_line_end_stay() -> None:
    dos = changed("dos.txt", "".join(f"{line}\r\n" for line in LOG))
    assert dos.count("\r\n") == dos.count("\n") == 23
    assert not changed("open.txt", "\n".join(LOG)).endswith("\n")

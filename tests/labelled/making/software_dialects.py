"""Tool sets of coding agents: how each of them calls a view, an edit, a search and a command.

OpenHands, Claude Code, SWE-agent (with its open file) and mini-swe-agent (a shell alone), with the schemas of the
arguments that the set uses. Descriptions are ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Any
Arguments = dict[str, Json]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    name: str
    arguments: Arguments

    def item(self, number: int) -> dict[str, Json]:
        """The call as an item of the Responses format."""
        return {"type": "function_call", "name": self.name, "arguments": json.dumps(self.arguments),
                "call_id": f"call_{number}"}  # fmt: skip


def _tool(name: str, description: str, required: str, /, **properties: Json) -> dict[str, Json]:
    parameters = {"type": "object", "properties": properties, "required": required.split()}
    return {"type": "function", "name": name, "description": description, "parameters": parameters, "strict": False}


_TEXT: Mapping[str, Json] = {"type": "string"}
_NUMBER: Mapping[str, Json] = {"type": "integer"}
_FLAG: Mapping[str, Json] = {"type": "boolean"}
_OPENHANDS = [
    _tool("execute_bash", "Run a command in a shell.", "command", command=_TEXT),
    _tool(
        "str_replace_editor", "View, create and edit files.", "command path", path=_TEXT, file_text=_TEXT,
        command={"type": "string", "enum": ["view", "create", "str_replace", "insert", "undo_edit"]}, old_str=_TEXT,
        new_str=_TEXT, insert_line=_NUMBER, view_range={"type": "array", "items": _NUMBER},
    ),
    _tool("finish", "The task is done.", "message", message=_TEXT),
]  # fmt: skip
_CLAUDE = [
    _tool("Bash", "Run a command.", "command", command=_TEXT, description=_TEXT, timeout=_NUMBER),
    _tool("Read", "Read a file.", "file_path", file_path=_TEXT, offset=_NUMBER, limit=_NUMBER),
    _tool("Edit", "Replace a text of a file.", "file_path old_string new_string", file_path=_TEXT, old_string=_TEXT,
          new_string=_TEXT, replace_all={"type": "boolean", "default": False}),
    _tool("Write", "Write a whole file.", "file_path content", file_path=_TEXT, content=_TEXT),
    _tool("Grep", "Search the contents of files with ripgrep.", "pattern", pattern=_TEXT, path=_TEXT, glob=_TEXT,
          output_mode={"type": "string", "enum": ["content", "files_with_matches", "count"]},
          **{"-i": _FLAG, "-n": _FLAG}),
    _tool("Glob", "Find files by a pattern of their names.", "pattern", pattern=_TEXT, path=_TEXT),
]  # fmt: skip
_SWE_AGENT = [
    _tool("bash", "Run a command.", "command", command=_TEXT),
    _tool("open", "Open a file in a window of 100 lines.", "path", path=_TEXT, line_number=_NUMBER),
    _tool("edit", "Replace a text that is in the open file.", "search replace", search=_TEXT, replace=_TEXT,
          **{"replace-all": _FLAG}),
    _tool("search_dir", "Search all files of a folder.", "search_term", search_term=_TEXT, dir=_TEXT),
    _tool("search_file", "Search one file.", "search_term", search_term=_TEXT, file=_TEXT),
    _tool("find_file", "Find files by name.", "file_name", file_name=_TEXT, dir=_TEXT),
    _tool("submit", "Hand in the work.", ""),
]  # fmt: skip
_MINI = [_tool("bash", "Run a command in a new shell.", "command", command=_TEXT)]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One agent's tools. `root` is where it finds the repository; its shell's working folder too."""

    name: str
    root: str
    shell: str
    tools: list[dict[str, Json]]

    def path(self, inside: str) -> str:
        """A file as this agent names it."""
        return f"{self.root}/{inside}" if self.root else inside

    def run(self, command: str) -> Call:
        return Call(self.shell, {"command": command})

    def view(self, inside: str, first: int, last: int) -> Call:
        path = self.path(inside)
        if self.name == "openhands":
            return Call("str_replace_editor", {"command": "view", "path": path, "view_range": [first, last]})
        if self.name == "claude":
            return Call("Read", {"file_path": path, "offset": first, "limit": last - first + 1})
        return self.run(f"sed -n '{first},{last}p' {inside}")

    def replace(self, inside: str, old: str, new: str) -> Call:
        path = self.path(inside)
        if self.name == "openhands":
            return Call("str_replace_editor", {"command": "str_replace", "path": path, "old_str": old, "new_str": new})
        if self.name == "claude":
            return Call("Edit", {"file_path": path, "old_string": old, "new_string": new})
        if self.name == "swe-agent":
            return Call("edit", {"search": old, "replace": new})
        return self.run(_written(inside, old, new))

    def search(self, pattern: str, inside: str = "") -> Call:
        if self.name == "claude":
            where = {"path": self.path(inside)} if inside else {}
            return Call("Grep", {"pattern": pattern, **where, "output_mode": "content", "-n": True})
        if self.name == "swe-agent":
            return Call("search_dir", {"search_term": pattern, **({"dir": inside} if inside else {})})
        return self.run(f"grep -rn '{pattern}' {inside or '.'}")


def _written(inside: str, old: str, new: str) -> str:
    """An edit by a small program, as agents without an editor write it."""
    return (
        f"python3 - <<'PY'\nfrom pathlib import Path\n\npath = Path('{inside}')\ntext = path.read_text()\n"
        f"old = '''{old}'''\nnew = '''{new}'''\nassert old in text\npath.write_text(text.replace(old, new, 1))\nPY"
    )


OPENHANDS = Dialect("openhands", "/workspace/proj", "execute_bash", _OPENHANDS)
CLAUDE = Dialect("claude", "/home/user/proj", "Bash", _CLAUDE)
SWE_AGENT = Dialect("swe-agent", "", "bash", _SWE_AGENT)
MINI = Dialect("mini-swe-agent", "", "bash", _MINI)

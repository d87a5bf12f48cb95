"""Edits applied to a copy of a tree in memory, as the editors of agents apply them, and static checks of the result."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Mapping
from pathlib import PurePosixPath

from pivotrl_core.verifiers.software.source import ESCAPE_THAT_WARNS, read_source, same_source
from pivotrl_core.verifiers.software.steps import Step
from pivotrl_core.verifiers.software.tools import Operation
from pivotrl_core.verifiers.workspace import MAX_BYTES, Node, NodeKind

MAX_CHECKED = 200_000
"""Longer files are not checked; their tests are run all the same."""
MAX_WRITTEN = 4_000_000
_MAX_NAME_BYTES, _MAX_PARTS = 255, 60
Nodes = Mapping[str, Node]


class EditError(Exception):
    """An edit that its editor would refuse: no such file, text that is not there or there twice."""


def place_of(path: str, nodes: Nodes) -> str:
    """Where in a tree a path of an agent's machine lies: the longest end of it that is a file, or lies in a folder.

    `/workspace/proj/src/a.py` is `src/a.py` of a tree that is a copy of `/workspace/proj`.
    """
    parts = PurePosixPath(path).parts
    parts = parts[1:] if path.startswith("/") else parts
    if not parts or ".." in parts or len(parts) > _MAX_PARTS or not all(_is_name(part) for part in parts):
        raise EditError("no path of a file")
    ends = ["/".join(parts[index:]) for index in range(len(parts))]
    files = (end for end in ends if (node := nodes.get(end)) is not None and node.kind is NodeKind.FILE)
    folders = (end for end in ends if (node := nodes.get(end.rpartition("/")[0])) and node.kind is NodeKind.FOLDER)
    return next(files, None) or next(folders, parts[-1])


def _is_name(part: str) -> bool:
    try:
        return "\0" not in part and len(part.encode("utf-8")) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def apply_edit(step: Step, nodes: Nodes) -> tuple[str, str | None]:
    """The place that a step edits, and the file's text after it (None: it is gone).

    Raises:
        EditError: the editor would refuse, the text is too long, or this kind of edit is not applied here (patches,
            undone edits, edits of the open file).
    """
    if sum(len(new) for _, new in step.pairs) > MAX_WRITTEN:
        raise EditError("too much text")
    place = place_of(step.path, nodes)
    node = nodes.get(place)
    if step.operation is Operation.CREATE:
        if node is not None and node.kind is not NodeKind.FILE:
            raise EditError("a folder has that name")
        return place, step.pairs[0][1]
    if node is None or node.kind is not NodeKind.FILE:
        raise EditError("no such file")
    if step.operation is Operation.DELETE:
        return place, None
    try:
        text = node.content.decode("utf-8")
    except UnicodeDecodeError:
        raise EditError("not a text") from None
    if step.operation is Operation.REPLACE:
        return place, _replaced(text, step)
    if step.operation is Operation.INSERT:
        return place, _inserted(text, step)
    if step.operation is Operation.LINES and step.path:
        return place, _with_lines(text, step)
    raise EditError("edits of this kind are not applied")


def _replaced(text: str, step: Step) -> str:
    """Each pair in its turn; lengths are worked out first, for ten pairs may each make a text ten times as long."""
    everywhere = bool(step.rest.get("replace_all"))
    written = 0
    for old, new in step.pairs:
        count = text.count(old) if old else 0
        if count == 0 or (count > 1 and not everywhere):
            raise EditError("the old text is not there" if count == 0 else "the old text is there more than once")
        written += count * len(new)
        if max(written, len(text) + count * (len(new) - len(old))) > MAX_BYTES:
            raise EditError("too much text")
        text = text.replace(old, new)
    return text


def _inserted(text: str, step: Step) -> str:
    lines = text.split("\n")
    if step.line is None or not 0 <= step.line <= len(lines):
        raise EditError("no such line")
    return "\n".join([*lines[: step.line], *step.pairs[0][1].split("\n"), *lines[step.line :]])


def _with_lines(text: str, step: Step) -> str:
    lines = text.split("\n")
    assert step.lines is not None
    last = len(lines) if step.lines.last is None else step.lines.last
    if not step.lines.first - 1 <= last <= len(lines):
        raise EditError("no such lines")
    return "\n".join([*lines[: step.lines.first - 1], *step.pairs[0][1].removesuffix("\n").split("\n"), *lines[last:]])


def same_result(place: str, nodes: Nodes, expected: str | None, actual: str | None) -> bool:
    """Whether a file is the same after both edits, but for white space and comments.

    Where the expert changes nothing but those, they count.
    """
    if expected is None or actual is None:
        return expected is actual
    if expected == actual:
        return True
    node = nodes.get(place)
    before = node.content.decode("utf-8", "replace") if node is not None else ""
    wanted = read_source(expected, place)
    return not same_source(read_source(before, place), wanted) and same_source(wanted, read_source(actual, place))


def static_error(place: str, text: str | None) -> str:
    """Why a file cannot be what its name says, or empty: Python is parsed, as are JSON and TOML; others pass."""
    if text is None or len(text) > MAX_CHECKED:
        return ""
    try:
        match PurePosixPath(place).suffix.lower():
            case ".py" | ".pyi":
                ast.parse(ESCAPE_THAT_WARNS.sub("__", text))
            case ".json":
                json.loads(text)
            case ".toml":
                tomllib.loads(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return str(error)[:200] or type(error).__name__
    return ""


def edited(nodes: Nodes, place: str, text: str | None) -> dict[str, Node]:
    """The tree with one file as it is after an edit."""
    after = dict(nodes)
    if text is None:
        del after[place]
        return after
    executable = place in nodes and nodes[place].executable
    after[place] = Node(NodeKind.FILE, text.encode("utf-8", "surrogatepass"), executable)
    return after

"""Another copy of a workspace, with other contents: it tells apart what does the same in one workspace by chance.

`grep todo` and `grep -i todo` show the same where no line has another case; `head -n 5` and `head -n 6` where the file
is short. In the copy, lines come twice, in another case, with other numbers, at other places; files have neighbours
with similar names. It is a world that the agent might be in as well: what the state shows stays as it is (a file of
which most lines stand in it, a folder of which most names do), the ends of lines and the first line of a table too, and
what is parsed stays well-formed: JSON is changed as a value, source and settings by comments alone.

It grows in proportion: files of fewer than four lines and folders of fewer than three files stay, as do links, bytes
that are no text, `.git` and other hidden folders. Equal workspaces and states give equal copies.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from random import Random

from pivotrl_core.types import Json
from pivotrl_core.verifiers.workspace import Node, NodeKind, Workspace, make_workspace

MAX_NODES, MAX_IMAGE_BYTES, MAX_FILE_BYTES = 1_000, 4 * 2**20, 64 * 2**10
MIN_LINES, MIN_FILES = 4, 3
_KNOWN_SHARE = 0.5
_FOLDERS_WITH_MORE = 4
_TABLES = (".csv", ".tsv")
_TEXTS = ("", ".txt", ".log", ".md", ".rst", ".out", ".lst", ".dat", ".list", *_TABLES)
_COMMENTS: Mapping[str, str] = {
    **dict.fromkeys((".py", ".sh", ".rb", ".pl", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".env"), "# "),
    **dict.fromkeys((".c", ".h", ".cpp", ".cc", ".hpp", ".js", ".ts", ".java", ".go", ".rs"), "// "),
    ".sql": "-- ",
}
_NAMES: Mapping[str, str] = {"Makefile": "# ", "Dockerfile": "# ", ".env": "# ", ".gitignore": "# "}
_INTEGER = re.compile(r"(?<![\w.:/-])\d{1,18}(?![\w.:/-])")
"""A whole number; longer rows of digits are names, and Python does not read those of thousands."""
_LINE_NUMBER = re.compile(r"^\s*\d+[:\t -]\s*")
_DEFINITION = re.compile(r"(?:async |export |pub |static )*(?:def|class|function|func|fn|struct|interface|type)\s+\w")
_NAME = re.compile(r"\w+")
_MAX_NAMED = 20
_WORD = re.compile(r"[^\s/'\"`]+")


def varied(workspace: Workspace, shown: str) -> Workspace | None:
    """The other copy, or None where the workspace is too large or nothing in it may change.

    Args:
        workspace: what an action starts from.
        shown: all text of the state.
    """
    nodes = workspace.tree.nodes
    if len(nodes) > MAX_NODES or len(workspace.image) > MAX_IMAGE_BYTES:
        return None
    lines, names = _lines_of(shown), frozenset(_WORD.findall(shown))
    changing = tuple(path for path, node in nodes.items() if _may_change(path, node, lines))
    growing = tuple(folder for folder in _folders(nodes) if not _is_listed(folder, nodes, names))
    return _varied(_ByDigest(workspace), changing, growing) if changing or growing else None


class _ByDigest:
    """A workspace as a key of a cache: equal digests are equal workspaces."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def __hash__(self) -> int:
        return hash(self.workspace.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByDigest) and self.workspace.digest == other.workspace.digest


@functools.lru_cache(16)
def _varied(key: _ByDigest, changing: Sequence[str], growing: Sequence[str]) -> Workspace:
    nodes = dict(key.workspace.tree.nodes)
    draw = random.Random(key.workspace.digest)
    for path in sorted(changing):
        nodes[path] = _changed(path, nodes[path], draw)
    for folder in draw.sample(sorted(growing), min(_FOLDERS_WITH_MORE, len(growing))):
        nodes |= _more(folder, nodes, draw)
    return make_workspace(nodes)


def _lines_of(text: str) -> frozenset[str]:
    """Lines as they stand in a text, and without a number before them."""
    lines = [line.strip() for line in text.splitlines()]
    return frozenset((*lines, *(_LINE_NUMBER.sub("", line) for line in lines)))


def _may_change(path: str, node: Node, shown: frozenset[str]) -> bool:
    hidden = any(part.startswith(".") for part in PurePosixPath(path).parts[:-1])
    if node.kind is not NodeKind.FILE or hidden or not 0 < len(node.content) <= MAX_FILE_BYTES:
        return False
    try:
        lines = [line.strip() for line in node.content.decode("utf-8").splitlines()]
    except UnicodeDecodeError:
        return False
    said = set(lines) - {""}
    small = len(lines) < MIN_LINES and not path.endswith(".json")
    return bool(said) and not small and sum(line in shown for line in said) < _KNOWN_SHARE * len(said)


def _folders(nodes: Mapping[str, Node]) -> list[str]:
    """Folders with files enough, the root as an empty text; none that is hidden."""
    files = Counter(path.rpartition("/")[0] for path, node in nodes.items() if node.kind is NodeKind.FILE)
    found = [folder for folder, count in files.items() if count >= MIN_FILES]
    return sorted(folder for folder in found if not any(part.startswith(".") for part in folder.split("/")))


def _is_listed(folder: str, nodes: Mapping[str, Node], shown: frozenset[str]) -> bool:
    names = _names(folder, nodes)
    return sum(name in shown for name in names) >= _KNOWN_SHARE * len(names)


def _names(folder: str, nodes: Mapping[str, Node]) -> list[str]:
    return [name for head, _, name in (path.rpartition("/") for path in nodes) if head == folder]


def _changed(path: str, node: Node, draw: Random) -> Node:
    name, text = PurePosixPath(path), node.content.decode("utf-8")
    comment = _NAMES.get(name.name) or _COMMENTS.get(name.suffix)
    if comment is not None:
        text = _commented(text, comment, draw)
    elif name.suffix == ".json":
        text = _changed_json(text, draw)
    elif name.suffix in (".jsonl", ".ndjson"):
        text = "".join(f"{line}\n" for line in _changed_lines([_changed_json(line, draw) for line in text.splitlines()],
                                                              0, draw, parsed=True))  # fmt: skip
    elif name.suffix in _TEXTS:
        ending = "\r\n" if "\r\n" in text else "\n"
        lines = text.removesuffix(ending).split(ending)
        kept = 1 if name.suffix in _TABLES else 0
        text = ending.join(_changed_lines(lines, kept, draw)) + ending * text.endswith(ending)
    return Node(node.kind, text.encode(), node.executable)


def _changed_lines(lines: list[str], kept: int, draw: Random, parsed: bool = False) -> list[str]:
    """Two lines at other places, one with other numbers, a quarter saying all twice; up to three more.

    Those are one in another case, one as it is, one with other numbers, as far as they make up a quarter. The first
    `kept` lines stay, and then no line says more than it did. Lines that are `parsed` values only change places and
    come again.
    """
    head, rest = lines[:kept], lines[kept:]
    if not rest:
        return lines
    at, to = (draw.randrange(len(rest)) for _ in range(2))
    rest[at], rest[to] = rest[to], rest[at]
    copies = [draw.choice(rest)]
    if not parsed:
        copies = [draw.choice(rest).swapcase(), *copies, _other_numbers(draw.choice(rest), draw, larger=False)]
        for doubled in draw.sample(range(len(rest)), max(1, len(rest) // 4)) if not kept else ():
            rest[doubled] = f"{rest[doubled]} {rest[doubled].strip()}"
        # The first in the order of texts is to be the last in the order of numbers.
        first = rest.index(min((line for line in rest if _INTEGER.search(line)), default=rest[0]))
        rest[first] = _other_numbers(rest[first], draw, larger=True)
    for copy in copies[: len(rest) // 4]:
        rest.insert(draw.randrange(len(rest) + 1), copy)
    return [*head, *rest]


def _other_numbers(line: str, draw: Random, larger: bool) -> str:
    """The whole numbers of a line with a digit more, or with one less and in another order."""
    numbers = [found[0] for found in _INTEGER.finditer(line)][::-1]
    if not larger:
        draw.shuffle(numbers)
    return _INTEGER.sub(lambda _: str(_other_number(int(numbers.pop()), larger)), line)


def _other_number(number: int, larger: bool) -> int:
    return number * 10 + 3 if larger else number // 10


def _commented(text: str, comment: str, draw: Random) -> str:
    """Comments behind the first line and at the end, with what stands elsewhere in the text.

    What is defined in it is named there in other words too: `grep f` and `grep 'def f'` do not do the same.
    """
    lines = text.removesuffix("\n").split("\n")
    said = [line.strip() for line in lines if line.strip() and not line.rstrip().endswith("\\")] or ["note"]
    extra = [f"{comment}{draw.choice(said)}", f"{comment}{draw.choice(said).swapcase()}"]
    first = [] if lines[0].rstrip().endswith("\\") else [extra[0]]
    named = [comment + " ".join(reversed(_NAME.findall(line))) for line in said if _DEFINITION.match(line)]
    return "\n".join([lines[0], *first, *lines[1:], *named[:_MAX_NAMED], extra[1]]) + "\n" * text.endswith("\n")


def _changed_json(text: str, draw: Random) -> str:
    """The text of a value with other numbers, flags and longer lists, laid out as it was; what is no JSON stays."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    try:
        indent = next((one for one in (None, 1, 2, 3, 4) if json.dumps(value, indent=one) == text.strip()), None)
        return json.dumps(_changed_value(value, draw), indent=indent) + "\n" * text.endswith("\n")
    except (ValueError, RecursionError):  # ValueError: one digit more than Python writes
        return text


def _changed_value(value: Json, draw: Random) -> Json:
    if isinstance(value, bool):
        return value if draw.random() < 0.5 else not value
    if isinstance(value, int):
        return _other_number(value, larger=draw.random() < 0.5)
    if isinstance(value, list):
        return [_changed_value(one, draw) for one in (*value, *value[:1])]
    if isinstance(value, dict):
        return {key: _changed_value(one, draw) for key, one in value.items()}
    return value


def _more(folder: str, nodes: Mapping[str, Node], draw: Random) -> dict[str, Node]:
    """Neighbours of one file of a folder: of a similar name, of another ending, and one folder deeper."""
    prefix = f"{folder}/" if folder else ""
    names = [name for name in _names(folder, nodes) if nodes[prefix + name].kind is NodeKind.FILE]
    name = PurePosixPath(draw.choice(sorted(names)))
    node = nodes[prefix + name.name]
    found = {
        f"{prefix}{name.stem}_2{name.suffix}": node, f"{prefix}{name.name}.bak": node,
        f"{prefix}more_2": Node(NodeKind.FOLDER), f"{prefix}more_2/{name.name}": node,
        f"{prefix}more_2/empty_2": Node(NodeKind.FOLDER),
    }  # fmt: skip
    return {path: one for path, one in found.items() if path not in nodes}

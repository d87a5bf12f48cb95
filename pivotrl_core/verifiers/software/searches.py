"""Searches of agents' own tools as shell commands, so that what two of them find can be compared on a tree."""

from __future__ import annotations

import shlex

from pivotrl_core.types import Json
from pivotrl_core.verifiers.naming import plain_name
from pivotrl_core.verifiers.software.edits import EditError, Nodes, place_of
from pivotrl_core.verifiers.software.steps import Step
from pivotrl_core.verifiers.software.tools import Operation
from pivotrl_core.verifiers.values import Comparison
from pivotrl_core.verifiers.workspace import NodeKind

_LITERAL = frozenset({"searchdir", "searchfile"})
"""Tools that look for a text as it is; all others take a pattern for a regular expression."""
_WHERE = frozenset({"ignore_case", "only_files"})
"""Options that say what is searched; all others say what is shown of it, and have to be equal."""
_SHOWN = {"content": "-n", "count": "-c", "files_with_matches": "-l"}


def as_commands(
    expected: tuple[str, Step], actual: tuple[str, Step], nodes: Nodes, state: str
) -> tuple[str, str] | None:
    """What two searches run on a tree, or None where they show other things or cannot be written as commands.

    Args:
        expected: name and step of the expert's call.
        actual: of the other one.
        nodes: of the tree.
        state: all its text; an absolute path that is not in the tree is its root where the state names it.
    """
    sides = expected, actual
    kinds = [{key: value for key, value in step.rest.items() if key not in _WHERE} for _, step in sides]
    if expected[1].operation is not actual[1].operation or Comparison({}).score(kinds[0], kinds[1], {}) < 1.0:
        return None
    first, second = (_command(tool, step, _place(step.path, nodes, state)) for tool, step in sides)
    return (first, second) if first and second else None


def _command(tool: str, step: Step, place: str) -> str:
    if not place or not all(isinstance(step.rest.get(key), str | bool | None) for key in _WHERE):
        return ""
    where, pattern = shlex.quote(place), shlex.quote(step.pattern)
    if step.operation is Operation.LIST:
        return f"ls -1A -- {where}"
    if step.operation is Operation.FILES:
        if plain_name(tool) == "glob" or "/" in step.pattern:
            each = 'while read -r f; do realpath -- "$f"; done'
            return f"(shopt -s globstar; cd -- {where} && compgen -G {pattern} | {each})"
        return f"find {where} -type f -name {pattern}"
    options = ["-F" if plain_name(tool) in _LITERAL else "-P", _shown(step.rest.get("output_mode"))]
    options += ["-i"] if step.rest.get("ignore_case") else []
    only = step.rest.get("only_files")
    options += [f"--include={shlex.quote(only)}"] if isinstance(only, str) else []
    return f"grep -rHI {' '.join(options)} -e {pattern} -- {where}"


def _shown(mode: Json) -> str:
    return _SHOWN.get(mode, "-n") if isinstance(mode, str) else "-n"


def _place(path: str, nodes: Nodes, state: str) -> str:
    """Where a folder or file lies in the tree: the longest end of its path that is there; `.` is the root."""
    if path in ("", "."):
        return "."
    parts = [part for part in path.split("/") if part]
    ends = ["/".join(parts[index:]) for index in range(len(parts))]
    folder = next((end for end in ends if (node := nodes.get(end)) and node.kind is NodeKind.FOLDER), "")
    if folder:
        return f"./{folder}"
    try:
        place = place_of(path, nodes)
    except EditError:
        return ""
    return f"./{place}" if place in nodes else "." if path.startswith("/") and path in state else ""

"""Two views of one file measured on the file: shared lines, and whether what one shows whole the other shows too."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pivotrl_core.verifiers.software.paths import Lines, overlap
from pivotrl_core.verifiers.software.source import parse_python

FEW_LINES = 6
"""So many lines more or fewer make no other view of it, where no definition is lost."""


def same_view(text: str, path: str, expected: Lines, actual: Lines) -> float:
    """How far a view of a file is the expert's, in [0, 1].

    0 where a function or class of a Python file that the expert sees whole is cut or missing; 1 where none is and the
    lines differ by `FEW_LINES` at most; else shared lines / lines of the longer view.

    Args:
        text: of the file.
        path: its name says which language it is.
        expected: the expert's lines.
        actual: the others.
    """
    length = text.count("\n") + (not text.endswith("\n"))
    wanted, shown = _within(expected, length), _within(actual, length)
    if not wanted or not shown:
        return overlap(expected, actual, length)
    whole = [one for one in _definitions(text, path) if _covers(wanted, one)]
    if not all(_covers(shown, one) for one in whole):
        return 0.0
    other = len(set(wanted) ^ set(shown))
    return 1.0 if whole and other <= FEW_LINES else overlap(expected, actual, length)


def _within(lines: Lines, length: int) -> range:
    return range(lines.first, min(length, length if lines.last is None else lines.last) + 1)


def _covers(lines: range, definition: range) -> bool:
    return definition.start in lines and definition.stop - 1 in lines


def _definitions(text: str, path: str) -> Iterator[range]:
    """Lines of the functions and classes of a Python file, decorators included; none where it does not parse."""
    tree = parse_python(text) if path.endswith(".py") else None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min((node.lineno, *(one.lineno for one in node.decorator_list)))
            yield range(first, (node.end_lineno or node.lineno) + 1)

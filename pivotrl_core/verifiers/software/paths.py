"""Paths and lines of files as an agent names them, compared without the file system.

Paths: two absolute or two relative ones are one path where they are equal once `.`, `..` and doubled slashes are gone.
A relative and an absolute one are where the absolute one ends in the relative one; a bare file name only below a folder
of at most two parts (`/testbed`, `/workspace/proj`), since deeper ones are rarely where an agent works.

Lines: `[n, -1]` reaches to the end of the file, no range is the whole file, and a lone line opens a window of 100.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pivotrl_core.types import Json

WINDOW = 100
_MAX_CHARACTERS = 4096
_PAIR = re.compile(r"\s*[\[(]?\s*(-?\d{1,9})\s*[,:-]\s*(-?\d{1,9})\s*[\])]?\s*", re.ASCII)
_NUMBER = re.compile(r"\s*-?\d{1,9}\s*", re.ASCII)
_ROOT_PARTS = 2


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines from `first` (counted from 1) to `last`, both included; `last` None: to the end of the file."""

    first: int = 1
    last: int | None = None


WHOLE_FILE = Lines()


def plain_path(path: str) -> str:
    """The path without `.`, `..` and doubled slashes; empty for none."""
    bare = path.strip()
    if not bare or len(bare) > _MAX_CHARACTERS:
        return bare
    plain = posixpath.normpath(bare.replace("\\", "/") if "/" not in bare else bare)
    return plain[1:] if plain.startswith("//") else plain


def same_path(expected: str, actual: str) -> bool:
    """Whether two plain paths name one file. Symmetric."""
    if expected == actual:
        return True
    if not expected or not actual or expected.startswith("/") == actual.startswith("/"):
        return False
    absolute, relative = (expected, actual) if expected.startswith("/") else (actual, expected)
    if relative.startswith(("..", "~")) or not absolute.endswith(f"/{relative}"):
        return False
    above = absolute[: -len(relative) - 1]
    return "/" in relative or above.count("/") <= _ROOT_PARTS


def overlap(expected: Lines, actual: Lines, length: int | None = None) -> float:
    """Shared lines / lines of the longer range, in [0, 1], symmetric.

    Args:
        expected: one range.
        actual: the other one.
        length: lines of the file, where it is known. Where it is not, a range to the end is like another one only if
            both begin at one line and reach the end.
    """
    if expected == actual:
        return 1.0
    if length is None and (expected.last is None or actual.last is None):
        return 0.0
    ends = [min(one.last or 0, length) if length is not None and one.last is not None else one.last or length or 0
            for one in (expected, actual)]  # fmt: skip
    sizes = [max(0, end - one.first + 1) for one, end in zip((expected, actual), ends, strict=True)]
    shared = min(ends) - max(expected.first, actual.first) + 1
    return max(0, shared) / max(sizes) if min(sizes) else 0.0


def read_pair(value: Json) -> Lines | None:
    """`[210, 260]`, `[210, -1]`, `"[210, 260]"` or `"210:260"` as lines, or None."""
    if isinstance(value, str) and (match := _PAIR.fullmatch(value[:64])):
        return _lines(int(match[1]), int(match[2]))
    if isinstance(value, list) and len(value) == 2:
        first, last = (read_number(one) for one in value)
        return None if first is None or last is None else _lines(first, last)
    return None


def read_number(value: Json) -> int | None:
    """A line number, from a number or its text, or None."""
    if isinstance(value, str) and len(value) < 32 and _NUMBER.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e9:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9 else None


def _lines(first: int, last: int) -> Lines:
    return Lines(max(1, first), None if last < 0 else last)


def lines_of(arguments: Mapping[str, Json], names: Mapping[str, tuple[str, ...]]) -> tuple[Lines | None, set[str]]:
    """The lines that a call names, None where what it says is no range, and the arguments that say so.

    Args:
        arguments: of the call.
        names: names of `range`, `first`, `last` and `line`.
    """
    used = {name for role in names.values() for name in role if arguments.get(name) is not None}
    used |= {name for name in ("offset", "limit") if arguments.get(name) is not None}
    if not used:
        return WHOLE_FILE, used
    given = {role: next((arguments[name] for name in of if name in used), None) for role, of in names.items()}
    if given["range"] is not None:
        return read_pair(given["range"]), used
    if "offset" in used or "limit" in used:
        first, count = read_number(arguments.get("offset") or 1), read_number(arguments.get("limit") or -1)
        if first is None or count is None:
            return None, used
        return Lines(max(1, first), max(1, first) + count - 1 if count > 0 else None), used
    if given["line"] is not None:
        line = read_number(given["line"])
        return (None if line is None else Lines(max(1, line), max(1, line) + WINDOW - 1)), used
    first, last = (read_number(1 if given[role] is None else given[role]) for role in ("first", "last"))
    if given["last"] is None:
        last = -1
    return (None if first is None or last is None else _lines(first, last)), used

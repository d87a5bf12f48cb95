"""Where a command reads its one file from: `head f`, `head < f` and `cat f | head` are one command.

Of tools that say nothing of their file's name, with one literal file and no option that makes the name matter. Also
`sort | uniq` as `sort -u`, and `./f` as `f` where a word can only be a file. What differs then is what is said of a
file that is not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LITERAL = re.compile(r"[\w./+:@%,~-]*[\w.]|'[^'=]+'")
_DOTTED = re.compile(r"\./+(?=\w)")
_FILES_ALONE = (
    "cat", "head", "tail", "ls", "wc", "sort", "uniq", "rm", "cp", "mv", "mkdir", "rmdir", "touch", "tac", "du",
)  # fmt: skip
"""Tools all of whose operands are files."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """How a tool reads one file.

    Attributes:
        before: operands before the file.
        not_with: options with which the name matters, or there is no such operand.
        names: what a program says that asks for the name.
    """

    before: int = 0
    not_with: str = ""
    names: tuple[str, ...] = ()


_READERS: Mapping[str, _Reader] = {
    "cat": _Reader(), "tac": _Reader(), "head": _Reader(not_with="v"), "tail": _Reader(not_with="vfF"),
    "sort": _Reader(not_with="o"), "uniq": _Reader(), "cut": _Reader(),
    "grep": _Reader(1, "rRHlLef"), "sed": _Reader(1, "efsi", ("F", "w", "W")),
    "awk": _Reader(1, "f", ("FILENAME", "ARG", "getline")), "jq": _Reader(1, "fn", ("input_filename",)),
}  # fmt: skip
_VALUES: Mapping[str, str] = {
    "head": "nc", "tail": "nc", "sort": "kto", "uniq": "fsw", "cut": "dfcb", "grep": "efmABC", "sed": "ef",
    "awk": "Fvf",
}  # fmt: skip


def with_input_last(words: Sequence[str]) -> list[str]:
    """The words of a command in normal form (options first), its one file behind `<`, or as they are."""
    words = _without_dots(words)
    reader = _READERS.get(words[0])
    letters, operands = _split(words)
    if reader is None or any(letter in reader.not_with for letter in letters) or len(operands) != reader.before + 1:
        return words
    program, file = " ".join(operands[:-1]), operands[-1]
    if any(name in program for name in reader.names) or file == "-" or not _LITERAL.fullmatch(file):
        return words
    return [*words[:-1], "<", file]


def joined(stages: Sequence[Sequence[str]]) -> list[list[str]]:
    """The stages of a pipe without a `cat` of one file before them, and `sort | uniq` as one."""
    left = [list(stage) for stage in stages]
    if len(left) > 1 and left[0][:2] == ["cat", "<"] and len(left[0]) == 3 and _reads_standard_input(left[1]):
        read = left.pop(0)[1:]
        left[0] += read
    at = 0
    while at + 1 < len(left):
        if left[at][0] == "sort" and left[at + 1] == ["uniq"] and _is_plain_sort(left[at]):
            left[at] = _unique(left[at])
            del left[at + 1]
        at += 1
    return left


def _without_dots(words: Sequence[str]) -> list[str]:
    if words[0] in _FILES_ALONE:
        return [words[0], *(_DOTTED.sub("", word, count=1) if word.startswith("./") else word for word in words[1:])]
    reader = _READERS.get(words[0])
    if reader is None or not words[-1].startswith("./") or len(_split(words)[1]) <= reader.before:
        return list(words)
    return [*words[:-1], _DOTTED.sub("", words[-1], count=1)]


def _split(words: Sequence[str]) -> tuple[str, list[str]]:
    """(letters of the options, operands) of a command whose options come first, each with a word of its own."""
    letters, at = "", 1
    values = _VALUES.get(words[0], "")
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            return letters, list(words[at + 1 :])
        if words[at].startswith("--"):
            return letters, []
        letters += words[at][1:]
        at += 2 if len(words[at]) == 2 and words[at][1] in values else 1
    return letters, list(words[at:])


def _reads_standard_input(words: Sequence[str]) -> bool:
    """Whether a stage is a tool of the table that names no file."""
    reader = _READERS.get(words[0])
    if words[0] in ("wc", "tr"):
        return "<" not in words and (words[0] == "tr" or not _split(words)[1])
    return reader is not None and "<" not in words and len(_split(words)[1]) == reader.before


def _is_plain_sort(words: Sequence[str]) -> bool:
    """Whether nothing says by what lines are compared; a long option is one that the table does not know."""
    letters, _ = _split(words)
    return set(letters) <= set("ru") and not any(word.startswith("--") for word in words)


def _unique(words: Sequence[str]) -> list[str]:
    rest = [word for word in words[1:] if word not in ("-r", "-u")]
    return ["sort", *(["-r"] if "-r" in words else []), "-u", *rest]

"""Options of common commands, so far as their order and bundling mean nothing: `ls -la` is `ls -a -l` is `ls -al`.

Only commands whose options are all in the table are touched; one unknown option leaves the whole command as written.
GNU tools take options after operands too, so options come first in the form. Options of which the last one wins, or
whose order counts (`exclusive`), leave the command as written where two of them meet. Source: manual pages of GNU
coreutils, grep and diffutils.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one command.

    Attributes:
        flags: letters without a value.
        values: letters with a value, in the same word or the next.
        long: long names of letters.
        exclusive: groups of letters of which the last one wins, or that are run in the order in which they stand.
        same: letters that mean another letter.
        counted: whether `-5` is `-n 5`.
        permutes: whether options may follow operands.
    """

    flags: str
    values: str = ""
    long: Mapping[str, str] = field(default_factory=dict)
    exclusive: tuple[str, ...] = ()
    same: Mapping[str, str] = field(default_factory=dict)
    counted: bool = False
    permutes: bool = True


_RECURSIVE = {"recursive": "r", "force": "f", "verbose": "v"}
_GREP = Options(
    "ivnrRlLcoqshHwxEFGPaz",
    "efmABC",
    {
        "ignore-case": "i", "invert-match": "v", "line-number": "n", "recursive": "r", "files-with-matches": "l",
        "files-without-match": "L", "count": "c", "only-matching": "o", "quiet": "q", "silent": "q", "no-messages": "s",
        "no-filename": "h", "with-filename": "H", "word-regexp": "w", "line-regexp": "x", "extended-regexp": "E",
        "fixed-strings": "F", "perl-regexp": "P", "regexp": "e", "max-count": "m", "after-context": "A",
        "before-context": "B", "context": "C",
    },
    ("EFGP", "hH", "lL", "rR"),
)  # fmt: skip
_KNOWN: Mapping[str, Options] = {
    "ls": Options(
        "aAlhtrRSd1iFnogspLX", "", {"all": "a", "almost-all": "A", "human-readable": "h", "reverse": "r",
        "recursive": "R", "directory": "d"}, ("aA", "1lnog", "tSX", "Fp"),
    ),
    "grep": _GREP, "egrep": _GREP, "fgrep": _GREP,
    "rm": Options("rRfdv", "", _RECURSIVE, same={"R": "r"}),
    "cp": Options("rRapfvu", "", {**_RECURSIVE, "archive": "a", "update": "u"}, same={"R": "r"}),
    "mv": Options("fvu", "", {"force": "f", "verbose": "v", "update": "u"}),
    "mkdir": Options("pv", "m", {"parents": "p", "verbose": "v", "mode": "m"}),
    "rmdir": Options("pv", "", {"parents": "p", "verbose": "v"}),
    "touch": Options("acm"),
    "cat": Options("nbsETAvet", "", {"number": "n", "show-all": "A", "number-nonblank": "b"}),
    "head": Options("qv", "nc", {"lines": "n", "bytes": "c"}, ("nc", "qv"), counted=True),
    "tail": Options("qvfF", "nc", {"lines": "n", "bytes": "c", "follow": "f"}, ("nc", "qv", "fF"), counted=True),
    "wc": Options("lwcmL", "", {"lines": "l", "words": "w", "bytes": "c", "chars": "m", "max-line-length": "L"}),
    "sort": Options(
        "nrufbdhV", "kto", {"numeric-sort": "n", "reverse": "r", "unique": "u", "ignore-case": "f", "version-sort": "V",
        "human-numeric-sort": "h", "key": "k", "field-separator": "t", "output": "o"}, ("nhdV",),
    ),
    "uniq": Options("cdui", "fsw", {"count": "c", "repeated": "d", "unique": "u", "ignore-case": "i"}),
    "cut": Options("s", "dfcb", {"delimiter": "d", "fields": "f", "characters": "c", "bytes": "b",
                                 "only-delimited": "s"}),
    # `-i` is left out: letters behind it in one word are its suffix.
    "sed": Options("nErsuz", "ef", {"quiet": "n", "silent": "n", "regexp-extended": "E", "expression": "e"},
                   ("ef",), {"r": "E"}),
    "awk": Options("", "Fvf", permutes=False),
    "jq": Options("rcsnSejM", "", {"raw-output": "r", "compact-output": "c", "slurp": "s", "null-input": "n",
                                   "sort-keys": "S", "exit-status": "e", "join-output": "j"}),
    "tac": Options(""),
    "tr": Options("cdsCt", "", {"complement": "c", "delete": "d", "squeeze-repeats": "s"}, (), {"C": "c"}),
    "du": Options("hsacxk", "d", {"human-readable": "h", "summarize": "s", "all": "a", "max-depth": "d"}, ("hk",)),
    "df": Options("hTaik", "", {"human-readable": "h"}, ("hk",)),
    "diff": Options("ruNqbwBi", "U", {"recursive": "r", "brief": "q", "unified": "u"}, ("uU", "uq")),
    "which": Options("a"),
}  # fmt: skip


_PROGRAMS = frozenset((
    "bc", "cmp", "column", "comm", "date", "diff", "file", "find", "gcc", "git", "join", "make", "md5sum", "nl",
    "paste", "perl", "python", "python3", "rev", "sha256sum", "stat", "tar", "xargs",
))  # fmt: skip
"""Others that no shell has inside."""


def is_known(command: str) -> bool:
    """Whether a command is a program, so that it can change nothing in the shell that runs it."""
    return command in _KNOWN or command in _PROGRAMS


def sorted_options(words: Sequence[str]) -> list[str]:
    """The words of a command, its options unbundled and in one order where that is safe; else as they are."""
    known = _KNOWN.get(words[0])
    if known is None:
        return list(words)
    read = _read_options(words[1:], known)
    if read is None:
        return list(words)
    options, operands = read
    letters = [letter for letter, _ in options]
    if any(len({letter for letter in letters if letter in group}) > 1 for group in known.exclusive):
        return list(words)
    flags = sorted({f"-{letter}" for letter, value in options if value is None})
    # Equal letters keep their order: of two values the last may win, and patterns are tried in turn.
    valued = sorted(((letter, value) for letter, value in options if value is not None), key=lambda one: one[0])
    dashed = ["--"] if any(operand.startswith("-") and operand != "-" for operand in operands) else []
    return [words[0], *flags, *(word for one in valued for word in (f"-{one[0]}", str(one[1]))), *dashed, *operands]


def _read_options(words: Sequence[str], known: Options) -> tuple[list[tuple[str, str | None]], list[str]] | None:
    """(options, operands) as getopt reads them, or None where an option is not known."""
    options: list[tuple[str, str | None]] = []
    operands: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return options, [*operands, *rest]
        if not word.startswith("-") or word == "-":
            if not known.permutes:
                return options, [word, *rest]
            operands.append(word)
            continue
        read = _read_long(word, rest, known) if word.startswith("--") else _read_short(word, rest, known)
        if read is None:
            return None
        options += read
    return options, operands


def _read_long(word: str, rest: list[str], known: Options) -> list[tuple[str, str | None]] | None:
    name, has_value, value = word[2:].partition("=")
    letter = known.long.get(name)
    if letter is None:
        return None
    if letter in known.values:
        if not has_value and not rest:
            return None
        return [(letter, value if has_value else rest.pop(0))]
    return None if has_value else [(known.same.get(letter, letter), None)]


def _read_short(word: str, rest: list[str], known: Options) -> list[tuple[str, str | None]] | None:
    if known.counted and word[1:].isdecimal():
        return [("n", word[1:])]
    found: list[tuple[str, str | None]] = []
    for index, letter in enumerate(word[1:], start=1):
        if letter in known.values:
            if not word[index + 1 :] and not rest:
                return None
            return [*found, (letter, word[index + 1 :] or rest.pop(0))]
        if letter not in known.flags:
            return None
        found.append((known.same.get(letter, letter), None))
    return found

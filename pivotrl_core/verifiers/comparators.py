"""Comparators that a configuration sets for arguments of tools, where schemas do not say how values are to be compared.

    comparators:
      search_flights: {date: date, "passengers[].name": words, tags: unordered}
      "*":            {request_id: ignored}

An argument is named by its path: `a.b` is b inside of the object a, `a[].b` is b inside of each item of the list a.
`*` stands for every tool; what is set for a tool itself goes before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

ANY_TOOL = "*"
Comparators = Mapping[str, Mapping[str, str]]
"""Of each tool, of each path, the comparator's name."""


class Comparator(StrEnum):
    """How values are compared. All but the last two are for strings; other values stay compared by the schema."""

    EXACT = "exact"  # the same characters
    IDENTIFIER = "identifier"  # the same characters, Unicode-normalised, outer space stripped
    CASELESS = "caseless"  # the same in any case
    WORDS = "words"  # the same words in any case and order
    TEXT = "text"  # similar free text
    DATE = "date"  # the same day
    DATE_TIME = "date-time"  # the same instant
    TIME = "time"  # the same time of day
    UNORDERED = "unordered"  # a list in any order
    IGNORED = "ignored"  # any value, or none


@dataclass(frozen=True, slots=True)
class Mark:
    """What is set for a value, and for what lies inside of it."""

    comparator: Comparator | None = None
    inside: Mapping[str, Mark] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def below(self, step: str) -> Mark:
        """What is set for a member, or (`[]`) for each item."""
        return self.inside.get(step, NO_MARK) if self.inside else NO_MARK


NO_MARK = Mark()


def marks_of(comparators: Comparators, tool: str) -> Mark:
    """What is set for the arguments of a tool.

    Raises:
        ValueError: no such comparator.
    """
    paths = {**comparators.get(ANY_TOOL, {}), **comparators.get(tool, {})}
    return _mark({tuple(path.replace("[]", ".[]").split(".")): Comparator(name) for path, name in paths.items()})


def _mark(paths: Mapping[tuple[str, ...], Comparator]) -> Mark:
    if not paths:
        return NO_MARK
    below: dict[str, dict[tuple[str, ...], Comparator]] = {}
    for path, comparator in paths.items():
        if path:
            below.setdefault(path[0], {})[path[1:]] = comparator
    inside = {step: _mark(rest) for step, rest in below.items()}
    ignored = tuple(step for step, mark in inside.items() if mark.comparator is Comparator.IGNORED)
    return Mark(paths.get(()), inside, ignored)

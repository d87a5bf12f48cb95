"""Further inputs for programs: like those of the row's tests, and within what those span.

Values are drawn from the tests and varied: numbers between the smallest and the largest, parts of texts and lists,
their items exchanged, repeated, in another order. What all values of an argument have in common stays: how short and
how long they may be, sorted, without repetition, without white space at the ends, rows of one length; arguments of one
length stay so. What a statement allows beyond its tests is not known here, so that no case is made of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pivotrl_core.types import Json, canonical_json
from pivotrl_core.verifiers.code_tests import CodeTests, linked_places

MAX_VARIED_CASES = 96
_MAX_LENGTH = 200
"""Longer values are taken as they are."""
_TRIES = 4


@dataclass(frozen=True, slots=True)
class _Column:
    """The values that one argument, or what is inside of it, has in the tests, and what they have in common."""

    values: tuple[Json, ...]
    draw: random.Random

    def like(self, value: Json) -> Json:
        """A value like `value`, or it."""
        for _ in range(_TRIES):
            made = self._varied(value)
            if made is not None and self._is_allowed(made):
                return made
        return value

    def _varied(self, value: Json) -> Json:
        if isinstance(value, bool) or not isinstance(value, int | str | list | dict):
            return self.draw.choice(self.values)
        if isinstance(value, int):
            return self._number(value)
        if len(value) > _MAX_LENGTH:
            return value
        if isinstance(value, str):
            made = self._sequence(list(value), list("".join(one for one in self.values if isinstance(one, str))))
            return "".join(made)
        return self._list(value) if isinstance(value, list) else self._table(value)

    def _number(self, value: int) -> int:
        numbers = [one for one in self.values if type(one) is int] or [value]
        near = self.draw.choice([value + 1, value - 1, self.draw.randint(min(numbers), max(numbers))])
        return min(max(near, min(numbers)), max(numbers))

    def _list(self, value: list[Json]) -> list[Json]:
        rows = _row_length(self.values) is not None
        pool = value if rows else [item for one in self.values if isinstance(one, list) for item in one]
        made: list[Json] = self._sequence(list(value), pool)
        inside = _Column(tuple(_inner(pool)), self.draw)
        made = [inside.inner(item) if self.draw.random() < 0.3 else item for item in made]
        return sorted(made) if _are(self.values, _is_sorted) and _is_sortable(made) else made

    def inner(self, item: Json) -> Json:
        """An item of a list, varied; a row keeps its length."""
        if isinstance(item, list):
            return [self.inner(one) for one in item]
        return self._varied(item) if type(item) is int else item

    def _table(self, value: dict[str, Json]) -> dict[str, Json]:
        tables = [one for one in self.values if isinstance(one, dict)]
        keys = sorted({key for one in tables for key in one})
        inside = [item for one in tables for item in one.values()]
        made = {key: item for key, item in value.items() if self.draw.random() < 0.8}
        if keys and self.draw.random() < 0.7:
            made[self.draw.choice(keys)] = self.draw.choice(inside)
        return made

    def _sequence(self, items: list[Json], pool: Sequence[Json]) -> list[Json]:
        """Items cut, repeated, exchanged or put in another order, once or twice."""
        for _ in range(self.draw.choice([1, 1, 2, 3])):
            items = self.draw.choice(_CHANGES)(items, pool, self.draw)
        return items

    def _is_allowed(self, made: Json) -> bool:
        if not isinstance(made, str | list | dict):
            return True
        alike = [one for one in self.values if isinstance(one, type(made))]
        sizes = [len(one) for one in alike]
        if not min(sizes) <= len(made) <= max(sizes):
            return False
        if _distinct(made) < min(map(_distinct, alike)):
            return False
        return all(has(made) for has in _COMMON if all(map(has, alike)))


def _cut(items: list[Json], _: Sequence[Json], draw: random.Random) -> list[Json]:
    start, end = sorted(draw.randint(0, len(items)) for _ in range(2))
    return items[start:end]


def _thin(items: list[Json], _: Sequence[Json], draw: random.Random) -> list[Json]:
    return [item for item in items if draw.random() < 0.7]


def _repeat(items: list[Json], _: Sequence[Json], draw: random.Random) -> list[Json]:
    if not items:
        return items
    at = draw.randrange(len(items))
    return [*items[: draw.randint(0, len(items))], items[at], *items[at:]]


def _exchange(items: list[Json], pool: Sequence[Json], draw: random.Random) -> list[Json]:
    if not items or not pool:
        return items
    at = draw.randrange(len(items))
    return [*items[:at], draw.choice(pool), *items[at + 1 :]]


def _insert(items: list[Json], pool: Sequence[Json], draw: random.Random) -> list[Json]:
    at = draw.randint(0, len(items))
    return [*items[:at], draw.choice(pool), *items[at:]] if pool else items


def _shuffle(items: list[Json], _: Sequence[Json], draw: random.Random) -> list[Json]:
    return draw.sample(items, len(items))


_CHANGES: tuple[Callable[[list[Json], Sequence[Json], random.Random], list[Json]], ...] = (
    _cut, _thin, _repeat, _exchange, _insert, _shuffle,
)  # fmt: skip


def _distinct(value: Json) -> int:
    """How many different things a list holds, 2 at most counted; a text has nothing to keep."""
    if not isinstance(value, list):
        return 0
    return min(len({canonical_json(item) for item in value}), 2)


def _has_no_repetition(value: Json) -> bool:
    items = list(value.values()) if isinstance(value, dict) else value
    return isinstance(value, str) or len({canonical_json(item) for item in items}) == len(items)


def _is_sorted(value: Json) -> bool:
    return isinstance(value, list) and _is_sortable(value) and value == sorted(value)


def _is_sortable(value: list[Json]) -> bool:
    return all(type(item) in (int, float) for item in value) or all(isinstance(item, str) for item in value)


def _is_trim(value: Json) -> bool:
    return not isinstance(value, str) or " ".join(value.split()) == value


_COMMON = (_has_no_repetition, _is_trim)


def _are(values: Sequence[Json], has: Callable[[Json], bool]) -> bool:
    """Whether all values have something; that short ones have it says nothing, so one of two items must be there."""
    return all(map(has, values)) and any(len(value) > 1 for value in values)


def _inner(items: Sequence[Json]) -> list[Json]:
    """All that is inside of lists, at any depth."""
    return [inside for item in items for inside in (_inner(item) if isinstance(item, list) else [item])]


def _row_length(values: Sequence[Json]) -> int | None:
    """How long the rows of a matrix are at least, where all values are matrices; else None."""
    rows = [row for value in values if isinstance(value, list) for row in value]
    if not rows or not all(isinstance(row, list) for row in rows):
        return None
    matrices = all(len({len(row) for row in value}) <= 1 for value in values)
    return min(map(len, rows)) if matrices else None


def varied_inputs(tests: CodeTests, known: Sequence[Sequence[Json]]) -> list[list[Json]]:
    """Lists of arguments like those of the tests; none for a program. The same ones each time.

    Args:
        tests: of the row.
        known: cases that are there already.
    """
    if not tests.function or len({len(arguments) for arguments in tests.inputs}) != 1:
        return []
    draw = random.Random(canonical_json(tests.inputs))
    columns = [_Column(values, draw) for values in zip(*tests.inputs, strict=True)]
    linked = linked_places(tests.inputs)
    seen = {canonical_json(list(arguments)) for arguments in (*tests.inputs, *known)}
    found: list[list[Json]] = []
    for _ in range(2 * MAX_VARIED_CASES):
        case = _case(tests.inputs, columns, linked, draw)
        key = canonical_json(case)
        if key not in seen and len(found) < MAX_VARIED_CASES:
            seen.add(key)
            found.append(case)
    return found


def _case(
    inputs: Sequence[Sequence[Json]], columns: Sequence[_Column], linked: Sequence[int], draw: random.Random
) -> list[Json]:
    base = draw.choice(inputs)
    case = [
        value if place in linked or draw.random() < 0.4 else draw.choice(inputs)[place]
        for place, value in enumerate(base)
    ]
    case = [value if place in linked else columns[place].like(value) for place, value in enumerate(case)]
    if linked:  # items are taken at the same places, so that lengths stay equal
        places = [draw.randrange(len(base[linked[0]])) for _ in base[linked[0]]] if base[linked[0]] else []
        for place in linked:
            case[place] = [columns[place].inner(base[place][at]) for at in places]
    return case

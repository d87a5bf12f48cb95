"""Rules that rewrite the arguments of a call, each for one kind of pair. A rule that does not apply gives None.

A rule takes the arguments and gives new ones, or their raw text where it is the text that changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta, timezone

from pivotrl_core.types import Json

Arguments = dict[str, Json]
Rule = Callable[[Arguments], Arguments | str | None]


def put(path: str, change: Callable[[Json], Json]) -> Rule:
    """A value at a path (`a.b`, `a.0`) becomes another; None where there is none, or it stays as it is."""

    def rule(arguments: Arguments) -> Arguments | None:
        changed = deepcopy(arguments)
        *way, last = path.split(".")
        place: Json = changed
        for step in way:
            place = place.get(step) if isinstance(place, Mapping) else place[int(step)]
            if place is None:
                return None
        key: str | int = last if isinstance(place, dict) else int(last)
        if isinstance(place, dict) and key not in place:
            return None
        before = place[key]
        place[key] = change(before)
        same = place[key] == before and type(place[key]) is type(before)
        return None if place[key] is None or same else changed

    return rule


def give(name: str, value: Json) -> Rule:
    """An argument that is not given becomes given."""
    return lambda arguments: None if name in arguments else {**arguments, name: value}


def leave_out(name: str, value: Json = None) -> Rule:
    """An argument is left out, where it is given (and has this value, if one is named)."""

    def rule(arguments: Arguments) -> Arguments | None:
        if name not in arguments or (value is not None and arguments[name] != value):
            return None
        return {key: one for key, one in arguments.items() if key != name}

    return rule


def null_left_out(name: str) -> Rule:
    """A null is left out."""
    return lambda arguments: leave_out(name)(arguments) if name in arguments and arguments[name] is None else None


def swap(first: str, second: str) -> Rule:
    """Two arguments change places."""

    def rule(arguments: Arguments) -> Arguments | None:
        if first not in arguments or second not in arguments or arguments[first] == arguments[second]:
            return None
        return {**arguments, first: arguments[second], second: arguments[first]}

    return rule


def rename(name: str, other: str) -> Rule:
    """An argument comes under a name that the tool does not know."""
    return lambda arguments: (
        {other if key == name else key: value for key, value in arguments.items()} if name in arguments else None
    )


def order_of_keys(arguments: Arguments) -> Arguments | None:
    """The same, the last key first, in all objects."""

    def turn(value: Json) -> Json:
        if isinstance(value, dict):
            return {key: turn(one) for key, one in reversed(value.items())}
        return [turn(one) for one in value] if isinstance(value, list) else value

    return turn(arguments) if len(arguments) > 1 else None


def spaces(arguments: Arguments) -> str:
    """The same with other spaces."""
    return json.dumps(arguments, indent=1, ensure_ascii=False)


def unicode_escapes(arguments: Arguments) -> str | None:
    """The same with letters beyond ASCII written out (rows are written without that)."""
    escaped = json.dumps(arguments, ensure_ascii=True)
    return None if escaped == json.dumps(arguments, ensure_ascii=False) else escaped


def whole(value: Json) -> Json:
    """3 as 3.0, and 3.0 as 3."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isinstance(value, int) else int(value) if value.is_integer() else None


def reversed_list(value: Json) -> Json:
    """Backwards."""
    return value[::-1] if isinstance(value, list) and len(value) > 1 else None


def without_last(value: Json) -> Json:
    """Of a list, one less."""
    return value[:-1] if isinstance(value, list) and len(value) > 1 else None


def day_in_words(value: str) -> str:
    """`2026-05-02` as `May 2, 2026`."""
    day = date.fromisoformat(value)
    return f"{day:%B} {day.day}, {day.year}"


def day_first(value: str) -> str:
    """`2026-05-02` as `2 May 2026`."""
    day = date.fromisoformat(value)
    return f"{day.day} {day:%B} {day.year}"


def short_day(value: str) -> str:
    """`2026-05-02` as `2026/5/2`."""
    day = date.fromisoformat(value)
    return f"{day.year}/{day.month}/{day.day}"


def next_day(value: str) -> str:
    """A day later; of an instant, too."""
    if "T" in value:
        return (datetime.fromisoformat(value) + timedelta(days=1)).isoformat()
    return (date.fromisoformat(value) + timedelta(days=1)).isoformat()


def other_month(value: str) -> str:
    """The same day of another month."""
    day = date.fromisoformat(value)
    return day.replace(day=min(day.day, 28), month=day.month % 12 + 1).isoformat()


def other_year(value: str) -> str:
    """The same day, a year later."""
    day = date.fromisoformat(value)
    return day.replace(day=min(day.day, 28), year=day.year + 1).isoformat()


def in_utc(value: str) -> str:
    """The same instant in UTC, with `Z`."""
    return datetime.fromisoformat(value).astimezone(UTC).isoformat().replace("+00:00", "Z")


def other_zone(value: str) -> str:
    """The same clock in another zone: another instant."""
    return datetime.fromisoformat(value).replace(tzinfo=timezone(timedelta(hours=-5))).isoformat()


def later(value: str) -> str:
    """An hour later by the clock."""
    return (datetime.fromisoformat(value) + timedelta(hours=1)).isoformat()


def in_minutes(value: str) -> str:
    """`T15:00:00+02:00` as `T15:00+02:00`."""
    return re.sub(r"(T\d\d:\d\d):00", r"\1", value)


def with_seconds(value: str) -> str | None:
    """`08:30` as `08:30:00`."""
    return f"{value}:00" if value.count(":") == 1 else None


def half_a_day_off(value: str) -> str:
    """08:30 as 20:30."""
    hours, rest = value.split(":", 1)
    return f"{(int(hours) + 12) % 24:02}:{rest}"


def one_character(value: str) -> str:
    """The last letter or digit but one becomes its neighbour."""
    place = max(len(value) - 2, 0)
    while not value[place].isalnum():
        place -= 1
    wrap = {"9": "0", "z": "a", "Z": "A"}
    other = wrap.get(value[place]) or chr(ord(value[place]) + 1)
    return value[:place] + other + value[place + 1 :]


def digits_exchanged(value: str) -> str | None:
    """Two neighbouring characters that differ, exchanged."""
    for place in range(len(value) - 1, 0, -1):
        if value[place - 1 : place + 1].isalnum() and value[place - 1] != value[place]:
            return value[: place - 1] + value[place] + value[place - 1] + value[place + 1 :]
    return None


def trailing_zero(name: str) -> Rule:
    """A fraction with one zero more: 19.9 as 19.90."""

    def rule(arguments: Arguments) -> str | None:
        value = arguments[name]
        return json.dumps(arguments).replace(json.dumps(value), f"{value}0") if isinstance(value, float) else None

    return rule


def as_text(value: Json) -> Json:
    """75 as "75"."""
    return json.dumps(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def truth(value: Json) -> Json:
    """1 as true."""
    return bool(value) if value in (0, 1) and not isinstance(value, bool) else None

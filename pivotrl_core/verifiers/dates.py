"""Days and instants by what they mean, not by how they are written. Ambiguous forms (05/06/2026) are not dates here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time

_NAMES = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTHS = {form: number for number, name in enumerate(_NAMES, start=1) for form in (name, name[:3])}
_NUMERIC = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})", re.ASCII)
_DAY_FIRST = re.compile(r"(\d{1,2})(?:st|[nr]d|th)?(?: of)? ([a-z]+)\.?,?(?: (\d{4}))?", re.ASCII)
_MONTH_FIRST = re.compile(r"([a-z]+)\.? (\d{1,2})(?:st|[nr]d|th)?,?(?: (\d{4}))?", re.ASCII)
_LEAP_YEAR = 2000


@dataclass(frozen=True, slots=True)
class Day:
    """A day of the calendar; `year` is None where the text names none."""

    year: int | None
    month: int
    day: int


def parse_day(text: str) -> Day | None:
    """The day that `2026-05-12`, `12 May`, `May 12th, 2026` or an instant at midnight means, or None."""
    words = " ".join(text.lower().split())
    if match := _NUMERIC.fullmatch(words):
        return _valid(match[1], int(match[2]), match[3])
    if match := _DAY_FIRST.fullmatch(words):
        return _valid(match[3], _MONTHS.get(match[2], 0), match[1])
    if match := _MONTH_FIRST.fullmatch(words):
        return _valid(match[3], _MONTHS.get(match[1], 0), match[2])
    instant = _parse_instant(text)
    if instant is not None and instant.time() == time():
        return Day(instant.year, instant.month, instant.day)
    return None


def _valid(year: str | None, month: int, day: str) -> Day | None:
    try:
        date(int(year) if year else _LEAP_YEAR, month, int(day))
    except ValueError:
        return None
    return Day(int(year) if year else None, month, int(day))


def same_day(expected: str, actual: str) -> bool:
    """Whether both texts are the same day. A text without a year means the other's year."""
    first, second = parse_day(expected), parse_day(actual)
    if first is None or second is None or (first.month, first.day) != (second.month, second.day):
        return False
    return first.year is None or second.year is None or first.year == second.year


def _parse_instant(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.strip().upper())  # RFC 3339: t and z are T and Z
    except ValueError:
        return None


def same_instant(expected: str, actual: str) -> bool:
    """Whether both texts (ISO 8601) are one instant, in any zones. With and without a zone cannot be compared."""
    first, second = _parse_instant(expected), _parse_instant(actual)
    return first is not None and second is not None and first == second


def same_time(expected: str, actual: str) -> bool:
    """Whether both texts (ISO 8601) are one time of day."""
    try:
        return time.fromisoformat(expected.strip()) == time.fromisoformat(actual.strip())
    except ValueError:
        return False

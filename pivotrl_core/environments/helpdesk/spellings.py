"""Spellings that mean the same: order numbers in either case, and days written as ISO dates or as people say them."""

from __future__ import annotations

import re
from datetime import date

YEAR = 2026
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

_MONTH_NUMBERS = {form: i for i, name in enumerate(MONTHS, start=1) for form in (name.lower(), name[:3].lower())}
_ISO = re.compile(r"(?<!\w)(\d{4})-(\d{1,2})-(\d{1,2})(?!\w)", re.ASCII)
_DAY_FIRST = re.compile(r"(?<!\w)(\d{1,2})(?:st|nd|rd|th)?(?: of)? ([a-z]+)(?:,? (\d{4}))?(?!\w)", re.ASCII)
_MONTH_FIRST = re.compile(r"(?<!\w)([a-z]+) (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4}))?(?!\w)", re.ASCII)


def canonical_date(text: str) -> str | None:
    """The ISO date that `text` means (`12 May`, `May 12`, `2026-05-12`; the year defaults to 2026), or None."""
    words = " ".join(text.lower().split())
    if match := _ISO.fullmatch(words):
        return _iso(int(match[1]), int(match[2]), int(match[3]))
    if match := _DAY_FIRST.fullmatch(words):
        return _iso(int(match[3] or YEAR), _MONTH_NUMBERS.get(match[2], 0), int(match[1]))
    if match := _MONTH_FIRST.fullmatch(words):
        return _iso(int(match[3] or YEAR), _MONTH_NUMBERS.get(match[1], 0), int(match[2]))
    return None


def _iso(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def canonical_order_id(text: str) -> str:
    """`#k2041` and `K2041` are one order."""
    return text.strip().removeprefix("#").upper()


def canonical_words(text: str) -> str:
    """Single spaces and capital initials, so that a street is one street in any case."""
    return " ".join(word.capitalize() for word in text.split())


def day_text(iso: str) -> str:
    """`2026-05-12` as people say it: `12 May`."""
    day = date.fromisoformat(iso)
    return f"{day.day} {MONTHS[day.month - 1]}"


def date_spellings(iso: str) -> list[str]:
    """Spellings of a day that count as having said it."""
    day = date.fromisoformat(iso)
    month = MONTHS[day.month - 1]
    ordinal = f"{day.day}{_suffix(day.day)}"
    forms = [iso]
    for number in (str(day.day), ordinal):
        forms += [f"{number} {month}", f"{number} of {month}", f"{month} {number}", f"{number} {month[:3]}"]
    return list(dict.fromkeys(forms))


def _suffix(day: int) -> str:
    return "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def find_days(text: str) -> tuple[set[str], str]:
    """The days that `text` names, in ISO form, and what is left of it without them."""
    days: set[str] = set()

    def take(match: re.Match[str]) -> str:
        day = canonical_date(match[0])
        if day is None:
            return match[0]
        days.add(day)
        return " "

    rest = text.lower()
    for pattern in (_ISO, _DAY_FIRST, _MONTH_FIRST):
        rest = pattern.sub(take, rest)
    return days, rest


def mentions(text: str, phrase: str) -> bool:
    """Whether `phrase` stands in `text` as whole words or numbers, in any case."""
    return re.search(rf"(?<!\w){re.escape(phrase.lower())}(?!\w)", text.lower()) is not None

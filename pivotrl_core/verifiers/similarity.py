"""Strings by what they say: identifiers, names, dates and free text, told apart by the schema and by their shape.

| what the expert's string is | equal to it |
|---|---|
| dated by `format` (date, date-time, time) | the same day, instant or time, however spelt |
| with `enum`, `const`, `pattern` or another `format`, or one word | the same characters (NFKC, outer space stripped); case counts, but for `format: email, hostname, uuid` and `x-ignore-case` |
| two to four words (a name) | the same words in any case |
| five words or more (free text) | the same numbers in the same order, and a similarity in [0, 1] that reaches the threshold |

Identical strings are equal under every rule.
"""  # noqa: E501  (a table row cannot be wrapped)

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

from rapidfuzz.distance import Indel

from pivotrl_core.types import Json
from pivotrl_core.verifiers.comparators import Comparator
from pivotrl_core.verifiers.dates import same_day, same_instant, same_time
from pivotrl_core.verifiers.schema import IGNORE_CASE, IGNORE_PREFIX

FREE_TEXT_WORDS = 5
MAX_CHARACTERS = 20_000
"""Longer texts are compared for equality only: the time of a similarity grows with the product of the lengths."""

_DATED: Mapping[str, Callable[[str, str], bool]] = {
    "date": same_day, "date-time": same_instant, "time": same_time,
}  # fmt: skip
_CASELESS_FORMATS = ("email", "idn-email", "hostname", "uuid")
_UNSEEN = "\u115f\u1160\u2800\u3164\uffa0"  # letters and a sign that look like a space: fillers, an empty cell
_IDENTIFYING = ("enum", "const", "pattern", "format")


def text_similarity(expected: str, actual: str) -> float:
    """Similarity of two free texts in [0, 1], symmetric: 1 - insertions and deletions / total length, in any case.

    Texts whose numbers differ, in their sign too, or stand in another order, have similarity 0: one digit is the
    difference between two orders, and 'from 3 to 5' is not 'from 5 to 3'.
    """
    first, second = _words(expected), _words(actual)
    if first == second:
        return 1.0
    if max(len(first), len(second)) > MAX_CHARACTERS or _numbers(first) != _numbers(second):
        return 0.0
    return float(Indel.normalized_similarity(first, second))


def string_similarity(expected: str, actual: str, schema: Mapping[str, Json]) -> float:
    """1 where the strings mean the same under `schema`; below 1 only for free text; 0 otherwise."""
    if expected == actual:
        return 1.0
    kind = schema.get("format")
    first, second = _normal(expected, schema), _normal(actual, schema)
    if first == second:
        return 1.0
    if isinstance(kind, str) and kind in _DATED:
        return float(_DATED[kind](first, second))
    if any(key in schema for key in _IDENTIFYING) or len(first.split()) < 2:
        return 0.0
    if len(first.split()) < FREE_TEXT_WORDS:
        return float(_words(first) == _words(second))
    return text_similarity(first, second)


def _normal(text: str, schema: Mapping[str, Json]) -> str:
    normal = _nfkc(text).strip()
    prefix = schema.get(IGNORE_PREFIX)
    if isinstance(prefix, str):
        normal = normal.removeprefix(prefix)
    kind = schema.get("format")
    caseless = schema.get(IGNORE_CASE) is True or (isinstance(kind, str) and kind in _CASELESS_FORMATS)
    return " ".join(normal.casefold().split()) if caseless else normal


def _words(text: str) -> str:
    return " ".join(_nfkc(text).casefold().split())


def _nfkc(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _numbers(text: str) -> list[str]:
    """Runs of digits in order, each with a minus that belongs to it: `-5`, but not `2026-05`."""
    return [found.replace("\u2212", "-") for found in re.findall(r"(?:(?<!\w)[-\u2212])?\d+", text)]


def is_blank(text: str) -> bool:
    """Whether nothing in `text` can be seen: white space, control and format characters, marks without a letter."""
    return all(unicodedata.category(character)[0] in "ZCM" or character in _UNSEEN for character in text)


STRING_COMPARATORS: Mapping[Comparator, Callable[[str, str], float]] = {
    Comparator.EXACT: lambda expected, actual: float(expected == actual),
    Comparator.IDENTIFIER: lambda expected, actual: float(_normal(expected, {}) == _normal(actual, {})),
    Comparator.CASELESS: lambda expected, actual: float(_words(expected) == _words(actual)),
    Comparator.WORDS: lambda expected, actual: float(
        sorted(_words(expected).split()) == sorted(_words(actual).split())
    ),
    Comparator.TEXT: text_similarity,
    Comparator.DATE: lambda expected, actual: float(expected == actual or same_day(expected, actual)),
    Comparator.DATE_TIME: lambda expected, actual: float(expected == actual or same_instant(expected, actual)),
    Comparator.TIME: lambda expected, actual: float(expected == actual or same_time(expected, actual)),
}
"""How strings are compared where a configuration says so, whatever the schema says. Identical strings score 1."""

"""Strings by what they say: identifiers, names, dates and free text, told apart by the schema and by their shape.

| what the expert's string is | equal to it |
|---|---|
| dated by `format` (date, date-time, time) | the same day, instant or time, however spelt |
| with `enum`, `const`, `pattern` or another `format`, or one word | the same characters (NFKC, outer space stripped); case counts, but for `format: email, hostname, uuid`, hosts of URLs and `x-ignore-case` |
| an arithmetic expression | the same numbers and signs; of one value where the schema's description names an expression |
| two to four words (a name) | the same words in any case, marks at their ends left out; the same day; a command or path to the letter |
| five words or more (free text) | the same numbers in the same order, no other word that matters (`wording.py`), and a similarity in [0, 1] that reaches the threshold |

Identical strings are equal under every rule.
"""  # noqa: E501  (a table row cannot be wrapped)

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from rapidfuzz.distance import Indel

from pivotrl_core.types import Json
from pivotrl_core.verifiers.arithmetic import is_expression, same_expression
from pivotrl_core.verifiers.comparators import Comparator
from pivotrl_core.verifiers.dates import same_day, same_instant, same_time
from pivotrl_core.verifiers.schema import IGNORE_CASE, IGNORE_PREFIX
from pivotrl_core.verifiers.signs import nfkc
from pivotrl_core.verifiers.wording import is_prose, plain_signs, sense

FREE_TEXT_WORDS = 5
MAX_CHARACTERS = 20_000
"""Longer texts are compared for equality only: the time of a similarity grows with the product of the lengths."""

_DATED: Mapping[str, Callable[[str, str], bool]] = {
    "date": same_day, "date-time": same_instant, "time": same_time,
}  # fmt: skip
_CASELESS_FORMATS = ("email", "idn-email", "hostname", "uuid")
_UNSEEN = "\u115f\u1160\u2800\u3164\uffa0"  # letters and a sign that look like a space: fillers, an empty cell
_URLS = ("uri", "iri", "url")
_MARKS = ".,;:!?"
_PATH = re.compile(r"(?:~|\.{0,2})/\S|.*/.*\.\w{1,5}$")
"""Of a file or folder: in another case it may be another one."""
_IDENTIFYING = ("enum", "const", "pattern", "format")


def text_similarity(expected: str, actual: str) -> float:
    """Similarity of two texts in [0, 1], symmetric: 1 - insertions and deletions / total length, in any case.

    Texts whose numbers differ, in their sign too, or stand in another order, have similarity 0: one digit is the
    difference between two orders, and 'from 3 to 5' is not 'from 5 to 3'.
    """
    first, second = _words(expected), _words(actual)
    if first == second:
        return 1.0
    if max(len(first), len(second)) > MAX_CHARACTERS or _numbers(first) != _numbers(second):
        return 0.0
    return float(Indel.normalized_similarity(first, second))


def free_text_similarity(expected: str, actual: str) -> float:
    """The same where words that matter tell no other: at most 1/2 if they differ, at least 9/10 if they agree."""
    if expected == actual:
        return 1.0
    by_character = text_similarity(expected, actual)
    if not by_character or (by_character == 1.0 and is_prose(expected) and is_prose(actual)):
        return by_character
    same = sense(nfkc(expected), nfkc(actual))
    if same is None:
        return by_character
    return max(by_character, 0.9) if same else by_character / 2


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
    if any(key in schema for key in _IDENTIFYING):
        return 0.0
    if is_expression(first) and is_expression(second):
        return float(same_expression(first, second, schema))
    if len(first.split()) < 2:
        return 0.0
    if len(first.split()) < FREE_TEXT_WORDS:
        return float(_same_name(first, second))
    return free_text_similarity(first, second)


def _same_name(first: str, second: str) -> bool:
    if not (is_prose(first) and is_prose(second)) or _PATH.match(first):
        return first.split() == second.split()
    words, others = ([word.rstrip(_MARKS) for word in _words(text).split()] for text in (first, second))
    return words == others or same_day(first, second)


def _normal(text: str, schema: Mapping[str, Json]) -> str:
    normal = nfkc(text).strip()
    if not any(key in schema for key in _IDENTIFYING):
        normal = plain_signs(normal)
    prefix = schema.get(IGNORE_PREFIX)
    if isinstance(prefix, str):
        normal = normal.removeprefix(prefix)
    kind = schema.get("format")
    if isinstance(kind, str) and kind in _URLS:
        return _plain_url(normal)
    caseless = schema.get(IGNORE_CASE) is True or (isinstance(kind, str) and kind in _CASELESS_FORMATS)
    return " ".join(normal.casefold().split()) if caseless else normal


def _plain_url(text: str) -> str:
    """Scheme and host in small letters, no port that goes without saying, `/` for no path (RFC 3986, 6.2)."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return text
    if not host or "@" in parts.netloc:
        return text
    own = {"http": 80, "https": 443}.get(parts.scheme)
    place = host if port is None or port == own else f"{host}:{port}"
    return parts._replace(netloc=place, path=parts.path or "/").geturl()


def _words(text: str) -> str:
    return " ".join(plain_signs(nfkc(text)).casefold().split())


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

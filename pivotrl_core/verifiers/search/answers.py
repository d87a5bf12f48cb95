r"""Answers by what they say: words in one case without articles and punctuation, numbers by value, days by the day.

What an answer is, in a longer text, is what it marks as such: `<answer>...</answer>`, `\boxed{...}`, or a line that
begins with `Answer:`, `Final answer:` or `Exact answer:`; the last mark counts. A text without marks is one answer.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, InvalidOperation

from pivotrl_core.verifiers.dates import parse_day

MAX_CHARACTERS = 20_000
_MAX_DIGITS = 24
_MARKED = re.compile(
    r"<answer>(?P<tag>[^<]*)</answer>|\\boxed\{(?P<box>[^{}]*)\}"
    r"|^[ \t*#_>-]*(?:(?:final|exact|short)[ \t]+)?answer[ \t*_]*[:=][ \t*_]*(?P<line>[^\n]+)$",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER = r"[-+\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d{1,3})?"
_PIECE = re.compile(rf"(?P<money>[$€£¥])?(?P<number>(?<![\w.]){_NUMBER})(?P<percent>\s*%)?|(?P<word>\w+)")
_ARTICLES = frozenset({"a", "an", "the"})
_MAGNITUDES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_COUNTED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COUNTS = {word: str(value) for value, word in enumerate(_COUNTED)}
_MONEY = {"$": "dollar", "€": "euro", "£": "pound", "¥": "yen"}
_SINGULAR = {f"{name}s": name for name in (*_MONEY.values(), *_MAGNITUDES)}


def marked_answer(text: str) -> str:
    """The part of a text that is marked as the answer, or the whole text."""
    marks = list(_MARKED.finditer(text[-MAX_CHARACTERS:]))
    return next(part for part in marks[-1].groups() if part is not None) if marks else text


def plain_answer(text: str) -> tuple[str, ...]:
    """The words and values of an answer; equal ones say the same."""
    day = parse_day(text.strip().rstrip(".")) if len(text) < 40 else None
    if day is not None:
        return ("day", str(day.year), str(day.month), str(day.day))
    tokens: list[str] = []
    for match in _PIECE.finditer(unicodedata.normalize("NFKC", text[:MAX_CHARACTERS]).casefold()):
        if match["number"]:
            tokens.append(_value(match["number"]))
            tokens += [_MONEY[match["money"]]] if match["money"] else []
            tokens += ["percent"] if match["percent"] else []
        elif match["word"] not in _ARTICLES:
            _add_word(tokens, match["word"])
    if len(text) > MAX_CHARACTERS:
        tokens.append(text[MAX_CHARACTERS:])
    return tuple(tokens)


def _add_word(tokens: list[str], word: str) -> None:
    """A word; `5 million` and `$5 million` become the number, `three` is 3."""
    word = _SINGULAR.get(word, word)
    factor = _MAGNITUDES.get(word)
    at = len(tokens) - (2 if tokens and tokens[-1] in _MONEY.values() else 1)
    if factor is not None and at >= 0 and tokens[at].startswith("="):
        tokens[at] = _value(str(Decimal(tokens[at][1:]) * factor))
    else:
        tokens.append(_value(_COUNTS[word]) if word in _COUNTS else word)


def _value(number: str) -> str:
    """A number by its value: `1,000`, `1000.0` and `1e3` are one. Longer ones than decimals hold stay as written."""
    if len(number) > _MAX_DIGITS:
        return number
    try:
        value = Decimal(number.replace(",", "").replace("\u2212", "-"))
    except InvalidOperation:
        return number
    return f"={value.normalize() + 0}" if value.adjusted() < 400 else number

r"""Answers by what they say: words in one case without articles and punctuation, numbers by value, days by the day.

What an answer is, in a longer text, is what it marks as such: `<answer>...</answer>`, `\boxed{...}`, or a line that
begins with `Answer:`, `Final answer:` or `Exact answer:`; the last mark counts. A text without marks is one answer.

A sentence that repeats the question says what is left when the question's own words, and such as `it is`, are taken
out of it; what denies, bounds or offers a choice (`not`, `over`, `or`), and what the question lets choose from, is
never taken out. A number without a unit has the one that the question asks for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pivotrl_core.verifiers.dates import parse_day
from pivotrl_core.verifiers.search.quantities import (
    AFTER_MONEY,
    CURRENCIES,
    MAGNITUDES,
    NUMBER,
    UNITS,
    is_value,
    scaled,
    value_of,
)
from pivotrl_core.verifiers.signs import AFTER, LETTER_MINUS, MARKS, SYMBOLS, nfkc, spell_signs

MAX_CHARACTERS = 20_000
_MAX_QUESTION = 4_000
_MARKED = re.compile(
    r"<answer>(?P<tag>[^<]*)</answer>|\\boxed\{(?P<box>[^{}]*)\}"
    r"|^[ \t*#_>-]*(?:(?:final|exact|short)[ \t]+)?answer[ \t*_]*[:=][ \t*_]*(?P<line>[^\n]+)$",
    re.IGNORECASE | re.MULTILINE,
)
_EMPHASIS = re.compile(r"`+|(?<!\w)[*_]+(?=\S)|(?<=\S)[*_]+(?!\w)")
_BULLET = re.compile(r"^[ \t]*(?:[-+*\u2022]|\d{1,2}[.)])[ \t]+", re.MULTILINE)
_DAY = re.compile(
    r"(?<![\w.,-])(?:\d{4}-\d{2}-\d{2}|\d{1,2}(?:st|[nr]d|th)?(?: of)? [a-z]{3,9}\.?,? \d{4}"
    r"|[a-z]{3,9}\.? \d{1,2}(?:st|[nr]d|th)?,? \d{4})(?![\w-])"
)
_PIECE = re.compile(
    rf"(?P<day>=day:[\d-]+)|(?P<money>[-\u2212]?(?:us\$|[$€£¥]))?(?P<number>(?<![\w.]){NUMBER})(?P<percent>\s*%)?"
    rf"|(?P<word>{LETTER_MINUS}|\w[\w{MARKS}]*)"
    rf"|(?P<sign>[$&{SYMBOLS}]|(?<=\w){AFTER}|[<>]=?(?=\s*[-+]?\d))|(?<=[\w)])\s*(?P<between>[*^])\s*\{{?(?=[\w(-])"
)
_ENDS = " \t\n*_\"')"
_ARTICLES = frozenset({"a", "an", "the"})
_COUNTED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COUNTS = {word: value_of(str(value)) for value, word in enumerate(_COUNTED)}
_MONEY = frozenset(CURRENCIES.values())
_SINGULAR = {f"{name}s": name for name in (*_MONEY, *MAGNITUDES, *UNITS) if len(name) > 2}
_ERA = frozenset({"ad", "ce"})
_SAYING = frozenset({
    "it", "its", "he", "she", "they", "this", "that", "there", "is", "are", "was", "were", "in", "on", "at", "of", "by",
    "for", "as", "has", "have", "had", "which", "who", "called", "named", "answer", "year",
})  # fmt: skip
"""Words that carry an answer and say nothing themselves."""
_BOUNDS = frozenset({
    "not", "no", "never", "nor", "neither", "or", "before", "after", "over", "under", "above", "below", "than", "more",
    "less", "least", "most", "about", "around", "between", "to", "from", "until", "since", "except", "without", "only",
    "half", "twice", "per", "but",
})  # fmt: skip
"""Words that stay, whatever the question says."""
_NAME = r"(?:(?:the|an?) )?(?:[A-Z][\w'-]{0,40}(?: [A-Z][\w'-]{0,40}){0,5}"
_CHOICE = re.compile(rf"(?:{_NAME}), ){{0,8}}{_NAME}|\w{{1,40}}),? or {_NAME}|\w{{1,40}})")
"""Names, or single words, with `or` between the last two."""
_BASES = frozenset(base for _, base in UNITS.values())
_ORDERED = frozenset({"order", "ordered", "ranked", "ranking", "sequence", "chronological", "first", "last", "from"})
_JOINED = re.compile(r"\band\b|[&;\n]")
_ITEMS = re.compile(r"\s*(?:;|\n|,(?!\d{3}\b)\s*(?:and\b|&)?|\band\b|&)\s*")


def marked_answer(text: str) -> str:
    """The part of a text that is marked as the answer, or the whole text."""
    marks = list(_MARKED.finditer(text[-MAX_CHARACTERS:]))
    return next(part for part in marks[-1].groups() if part is not None) if marks else text


def same_answer(expected: str, actual: str, question: str = "") -> bool:
    """Whether two answers to a question say the same. Symmetric."""
    first, second = plain_answer(expected), plain_answer(actual)
    if not first or not second:
        return False
    if first == second:
        return True
    if expected.rstrip(_ENDS).endswith("?") != actual.rstrip(_ENDS).endswith("?"):
        return False  # who asks back does not answer
    asked = frozenset(plain_answer(question[:_MAX_QUESTION])) - _offered(question[:_MAX_QUESTION])
    if _spoken(first, second, asked):
        return True
    return not _ORDERED & asked and _same_items(expected, actual, asked)


def plain_answer(text: str) -> tuple[str, ...]:
    """The words and values of an answer; equal ones say the same."""
    plain = nfkc(text[:MAX_CHARACTERS]).casefold()
    plain = spell_signs(_DAY.sub(_spell_day, _EMPHASIS.sub("", _without_bullets(plain))))
    day = parse_day(plain.strip().rstrip(".")) if len(plain) < 40 else None
    if day is not None:
        return ("day", str(day.year), str(day.month), str(day.day))
    tokens: list[str] = []
    for match in _PIECE.finditer(plain):
        if match["number"]:
            _add_number(tokens, match)
        elif match["day"]:
            tokens += ["day", *match["day"][5:].split("-")]
        elif (word := match["word"] or match["sign"] or match["between"]) not in _ARTICLES:
            _add_word(tokens, word)
    if len(text) > MAX_CHARACTERS:
        tokens.append(text[MAX_CHARACTERS:])
    return tuple(tokens)


def _without_bullets(text: str) -> str:
    return _BULLET.sub("", text) if len(_BULLET.findall(text)) > 1 else text


def _spell_day(match: re.Match[str]) -> str:
    day = parse_day(match[0])
    return f"=day:{day.year}-{day.month}-{day.day}" if day else match[0]


def _add_number(tokens: list[str], match: re.Match[str]) -> None:
    """A number, and behind it the currency that stands before it as a sign or a code."""
    money, value = match["money"] or "", value_of(match["number"])
    currency = CURRENCIES.get(money.lstrip("-\u2212"))
    if currency is None and tokens[-1:] and tokens[-1] in _MONEY and not (len(tokens) > 1 and is_value(tokens[-2])):
        currency = tokens.pop()
    if money[:1] in ("-", "\u2212") and is_value(value):
        value = scaled(value, -1)
    tokens += [value, *([currency] if currency else []), *(["percent"] if match["percent"] else [])]


def _add_word(tokens: list[str], word: str) -> None:
    """A word; `5 million`, `$5m` and `5 km` become the number with its unit, `three` is 3."""
    word = _SINGULAR.get(word, word)
    word = CURRENCIES.get(word, word)
    paid = bool(tokens) and tokens[-1] in _MONEY
    at = len(tokens) - (2 if paid else 1)
    factor = MAGNITUDES.get(word) or (AFTER_MONEY.get(word) if paid else None)
    if at < 0 or not is_value(tokens[at]):
        tokens.append("and" if word == "&" else _COUNTS.get(word, word))
    elif factor:
        tokens[at] = scaled(tokens[at], factor)
    elif word in UNITS and not paid:
        tokens[at:] = _measured(tokens[at], word)
    elif word not in _ERA and not (paid and tokens[-1] == word):
        tokens.append("and" if word == "&" else _COUNTS.get(word, word))


def _measured(value: str, unit: str) -> list[str]:
    factor, base = UNITS[unit]
    return [scaled(value, factor), base]


def _spoken(first: Sequence[str], second: Sequence[str], asked: frozenset[str]) -> bool:
    """Whether two answers say the same once words of the question, and those that only carry an answer, are left out.

    Not where that leaves nothing of either: then the question offers the answers, and its words are what is said. Nor
    where each uses a word of the question that the other does not.
    """
    units = [word for word in asked if word in UNITS]
    one, two = (_carried(tokens, units) for tokens in (first, second))
    if one and one == two:
        return True
    echoes = [{token for token in said if _is_echo(token, asked)} for said in (one, two)]
    left = [tuple(token for token in said if not _is_echo(token, asked)) for said in (one, two)]
    return bool(left[0]) and left[0] == left[1] and (echoes[0] <= echoes[1] or echoes[1] <= echoes[0])


def _offered(question: str) -> frozenset[str]:
    """Words of the answers among which a question lets choose: said in an answer, they are the answer."""
    return frozenset(token for match in _CHOICE.finditer(question) for token in plain_answer(match[0])) - {"or"}


def _is_echo(token: str, asked: frozenset[str]) -> bool:
    return token in asked and token not in _BOUNDS and token not in _BASES


def _carried(tokens: Sequence[str], units: Sequence[str]) -> tuple[str, ...]:
    """An answer without the words that only carry it; its only number has the unit that is asked for, if no other."""
    alone = sum(map(is_value, tokens)) == 1 and len(units) == 1
    left: list[str] = []
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        if is_value(token) and alone and following not in _BASES and following not in _MONEY | {"percent"}:
            left += _measured(token, units[0])
        elif not _says_nothing(token, following):
            left.append(token)
    return tuple(left)


def _says_nothing(word: str, following: str) -> bool:
    """`by 1990` and `for 3` bound a number; `by Ann` does not."""
    return word in _SAYING and not (word in ("by", "for") and (is_value(following) or following == "day"))


def _same_items(expected: str, actual: str, asked: frozenset[str]) -> bool:
    """Whether two lists of three or more things, or of two with `and` between them, hold the same in any order."""
    first, second = _items(expected, asked), _items(actual, asked)
    return len(first) > 1 and sorted(first) == sorted(second)


def _items(text: str, asked: frozenset[str]) -> list[tuple[str, ...]]:
    plain = _without_bullets(text[:MAX_CHARACTERS].casefold())
    parts = (_carried(plain_answer(part), ()) for part in _ITEMS.split(plain))
    items = [one for part in parts if (one := tuple(token for token in part if not _is_echo(token, asked)))]
    return items if len(items) > 2 or _JOINED.search(plain) else []

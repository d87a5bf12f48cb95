"""What free texts say, as far as words tell: two texts that look alike may differ in the one word that matters.

A text is prose, a query of a database, or technical (it has an option of a command, or a sign of a programming language
that stands alone).

- Prose: its words without articles, auxiliaries, pronouns, light prepositions and courtesies, in their order, plurals
  as singulars, contractions written out, days as month and number. Texts with the same of these say the same, unless
  one has another pronoun or preposition in place of the other's ('her' for 'his'), has them in other places ('to Anna
  for Ben', 'for Anna to Ben'), or says what will be where the other says what was. A word that only one of them has is
  taken for a remark in long texts, unless it is a name or one that turns what is said ('not', 'only', 'before'). All
  else is another text: 'after' for 'before', 'June' for 'July', 'Anna' for 'Ben'.
  Signs that touch a word or number, symbols and emoji are words that matter (`signs.py`).
- Queries (SQL): the same signs and words in any case and spaces; what is quoted, to the character.
- Technical texts: the same lines, runs of spaces inside of them as one.

This is no understanding. Texts in other words ('she called', 'she rang') are other texts here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache

from pivotrl_core.verifiers.signs import LETTER_MINUS, MARKS, SYMBOLS, spell_signs

REMARK_SHARE = 0.1
"""Share of a text's words that another text may have in addition."""
KEPT_TEXTS = 256
"""What is known of these many texts is kept: the expert's is compared with every sample."""

_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-"})
_OPTION = re.compile(r"(?<!\S)--?[A-Za-z][\w-]*")
_LONE_SIGN = re.compile(r"(?<!\S)(?:[<>|&+*/%^=!]{1,3}|\$\(|[{}])(?!\S)")
_CODE_SIGN = re.compile(r"[=!<>]=|=>|->|[{}`\\]|\w=\S|;\s*$|\w\((?!e?s\))")
_QUERY = re.compile(
    r"\s*(?:select\b.*\bfrom|insert\s+into|update\s+\S+\s+set|delete\s+from|with\s+\w+\s+as|"
    r"(?:create|alter|drop)\s+(?:table|view|index))\b",
    re.IGNORECASE | re.DOTALL,
)
_QUERY_TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|\w+(?:\.\w+)*|[<>!=]=|<>|\|\||\S")
_LETTERS = rf"[^\W\d_](?:[^\W\d_]|[{MARKS}])*"
_TOKEN = re.compile(
    rf"{LETTER_MINUS}|{_LETTERS}(?:'{_LETTERS})?|\d+(?:[.,:]\d+)*|(?<=\w)[+#](?!\w)|(?<=[+#])[+#](?!\w)"
    rf"|(?<=\w)\+(?=\w)|#(?=[^\W\d_])|[<>=]+(?=\w)|(?<=\w)[<>=]|[\^]|(?<=\d)\*+(?=[\d(])|[{SYMBOLS}]"
)

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = "|".join(f"{name}|{name[:3]}" for name in _MONTHS)
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTH})\b\.?", re.I)
_MONTH_FIRST = re.compile(rf"\b({_MONTH})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b", re.I)
_MONEY = (
    (re.compile(r"€\s?(\d[\d.,]*)"), r"\1 euro"), (re.compile(r"\$\s?(\d[\d.,]*)"), r"\1 dollar"),
    (re.compile(r"£\s?(\d[\d.,]*)"), r"\1 pound"), (re.compile(r"(\d)\s?%"), r"\1 percent"),
)  # fmt: skip
_LETTER_A = re.compile(r"(?<=\w )A(?![\w'+-])(?! [A-Z])")
"""A name, such as that of a group or a place; but for headings in capitals."""
_SPELT = (
    (re.compile(r"\bcan(?:not|'t)\b"), "can not"), (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"n't\b"), " not"), (re.compile(r"'(?:s|re|ll|ve|d|m)\b"), ""), (re.compile(r"\bno one\b"), "nobody"),
    (re.compile(r"\bwould like\b"), "want"), (re.compile(r"\bbut not\b"), "except"), (re.compile(r"\be-mail"), "email"),
    (re.compile(r"\bas well as\b|&"), "and"), (re.compile(r"licen[cs]e"), "license"),
    (re.compile(r"(?<=[a-z]{3})ise(?=[sdr]?\b)"), "ize"), (re.compile(r"(?<=[a-z]{2})our\b"), "or"),
    (re.compile(r"celled\b"), "celed"), (re.compile(r"\bour\b"), "my"), (re.compile(r"\bwe\b"), "i"),
    (re.compile(r"\bus\b"), "me"),
)  # fmt: skip


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PRONOUNS = _set("i you he she it we they me him her us them my your his its our their this that these those")
_PREPOSITIONS = _set("to of in on at for by with as")
_FILLING = _set("""
    a an the is are was were be been being am will would shall has have had having do does did please kindly just really
    very so then there here and which who come came comes coming get got getting going hi hello dear thanks thank
""")
_PAST, _FUTURE = _set("was were did had"), _set("will shall")
_LIGHT = _FILLING | _PRONOUNS | _PREPOSITIONS
_TURNING = _set("""
    not no never nobody nothing none neither nor without except unless only or either all any both each every some few
    more less fewer most least before after until till since if when while instead again back front left right up down
    first last next once twice half too enough almost over under above below from into out off against between high low
    new old same other another can must may might should lettera
""")


class Sort(Enum):
    PROSE = "prose"
    QUERY = "query"
    TECHNICAL = "technical"


def plain_signs(text: str) -> str:
    """Curly quotation marks and long dashes as straight and short ones."""
    return text if text.isascii() else text.translate(_QUOTES)


@lru_cache(maxsize=KEPT_TEXTS)
def sort_of(text: str) -> Sort:
    """What a text is."""
    if _QUERY.match(text):
        return Sort.QUERY
    technical = _OPTION.search(text) or _LONE_SIGN.search(text) or _CODE_SIGN.search(text)
    return Sort.TECHNICAL if technical else Sort.PROSE


def is_prose(text: str) -> bool:
    """Whether case and spaces of a text say nothing."""
    return sort_of(text) is Sort.PROSE


def sense(expected: str, actual: str) -> bool | None:
    """Whether two texts say the same: true, false, or None where they only differ in remarks. Symmetric."""
    first, second = plain_signs(expected), plain_signs(actual)
    sorts = {sort_of(first), sort_of(second)}
    if sorts == {Sort.QUERY}:
        return _query_tokens(first) == _query_tokens(second)
    if sorts != {Sort.PROSE}:
        return _lines(first) == _lines(second)
    return _same_prose(first, second)


def _same_prose(first: str, second: str) -> bool | None:
    words, others = _words(first), _words(second)
    one, two = ([_singular(word) for word in text if word not in _LIGHT] for text in (words, others))
    if _other_time(words, others) or any(
        _other_particles(words, others, group, placed=one == two) for group in (_PRONOUNS, _PREPOSITIONS)
    ):
        return False
    if one == two:
        return True if one else None
    shorter, longer = sorted((one, two), key=len)
    added = _added(shorter, longer)
    if added is None or len(added) > REMARK_SHARE * len(longer):
        return False
    if any(not word[0].isalnum() for word in added):  # a sign
        return False
    return None if _TURNING.union(_capitalised(first), _capitalised(second)).isdisjoint(added) else False


def _other_particles(first: Sequence[str], second: Sequence[str], group: frozenset[str], placed: bool) -> bool:
    """Whether each text has a word of the group that the other lacks, or both have the same in other places.

    `placed`: all other words agree, so that a place is the word that follows; else their order alone counts.
    """
    own, theirs = ([word for word in text if word in group] for text in (first, second))
    if Counter(own) != Counter(theirs):
        return bool(Counter(own) - Counter(theirs)) and bool(Counter(theirs) - Counter(own))
    return _followed(first, group) != _followed(second, group) if placed else own != theirs


def _followed(text: Sequence[str], group: frozenset[str]) -> list[tuple[str, str]]:
    """The words of a group, each with the next word that is not a light one."""
    found: list[tuple[str, str]] = []
    following = ""
    for word in reversed(text):
        if word in group:
            found.append((word, following))
        elif word not in _LIGHT:
            following = word
    return [(word, _singular(content)) for word, content in found]


def _other_time(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether one text says that something was, where the other says that it will be."""
    own, theirs = (Counter(word for word in text if word in _PAST | _FUTURE) for text in (first, second))
    left, right = (own - theirs).keys(), (theirs - own).keys()
    return bool((left & _PAST and right & _FUTURE) or (left & _FUTURE and right & _PAST))


def _capitalised(text: str) -> set[str]:
    """Words that begin with a capital: names, and what stands first in a sentence."""
    return {_singular(word.casefold()) for word in _TOKEN.findall(text) if word[0].isupper()}


def _query_tokens(text: str) -> list[str]:
    tokens = _QUERY_TOKEN.findall(text.strip().rstrip("; \n"))
    return [token if token[0] in "'\"" else token.casefold() for token in tokens]


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return [line[: len(line) - len(line.lstrip())] + " ".join(line.split()) for line in lines]


@lru_cache(maxsize=KEPT_TEXTS)
def _words(text: str) -> tuple[str, ...]:
    """Words, numbers and signs in their order, in one spelling."""
    for pattern, written in _MONEY:
        text = pattern.sub(written, text)
    text = _DAY_FIRST.sub(lambda match: _day(match[2], match[1]), text)
    text = _MONTH_FIRST.sub(lambda match: _day(match[1], match[2]), text)
    text = spell_signs(_LETTER_A.sub("lettera", text).casefold())
    for pattern, written in _SPELT:
        text = pattern.sub(written, text)
    return tuple(_TOKEN.findall(text))


def _day(month: str, day: str) -> str:
    """One word, which nothing takes apart again."""
    return f" {month[:3].lower()}day {int(day)} "


def _singular(word: str) -> str:
    """A plural or a verb's third person without its ending."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(("oes", "xes", "ches", "shes", "sses", "zes")) else word[:-1]


def _added(shorter: Sequence[str], longer: Sequence[str]) -> list[str] | None:
    """The words that the longer sequence has in addition; None where the shorter one is no part of it in its order."""
    rest = iter(shorter)
    wanted = next(rest, None)
    added = []
    for word in longer:
        if word == wanted:
            wanted = next(rest, None)
        else:
            added.append(word)
    return None if wanted is not None else added

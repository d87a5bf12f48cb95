"""Queries by the words that a search engine looks at.

Words are in one case, without articles and question words, plurals as singulars; operators (`site:`, `-word`, `OR`),
numbers and words with signs (`c++`, `a-`, `>30`) are words that nothing can stand in for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pivotrl_core.verifiers.signs import AFTER, LETTER_MINUS, MARKS, SYMBOLS, nfkc

MAX_CHARACTERS = 4_000
_PIECE = re.compile(
    rf"(?:(?<=\s)|^)(-\w[\w.-]*|[a-z]{{2,12}}:[^\s:/]\S*)"
    rf"|({LETTER_MINUS}|(?:[<>]=?(?=\d))?\w[\w{MARKS}]*(?:[.,^*]\d+)*(?:{AFTER})?|[{SYMBOLS}])"
)
_SIGN = re.compile(rf"[<>^*+#{SYMBOLS}]|-$")
_EITHER = re.compile(r"(?<=\S)\s+(?:OR|\|)\s+(?=\S)")
"""In capitals, between two words, and not in a query that is all in capitals: what search engines take for a choice."""
_UNSAID = frozenset({
    "a", "an", "the", "of", "in", "on", "at", "for", "and", "or", "is", "are", "was", "were", "be", "been", "do",
    "does", "did", "has", "have", "had", "what", "which", "who", "whom", "whose", "when", "where", "why", "how", "s",
})  # fmt: skip
_DIRECTIONS = frozenset({"from", "to", "into", "before", "after", "than", "over", "under", "versus", "vs", "by"})
"""Where one of these stands in a query, the order of its words counts."""
_NO_PLURALS = frozenset({"news", "series", "species", "lens"})


@dataclass(frozen=True, slots=True)
class Query:
    """The words of a query in their order, and those among them that must be equal: numbers and operators."""

    words: tuple[str, ...]
    fixed: frozenset[str]
    is_ordered: bool
    operators: tuple[str, ...] = ()


def read_query(text: str) -> Query:
    """The words of a query."""
    said = nfkc(text[:MAX_CHARACTERS])
    plain = said.casefold()
    words: dict[str, None] = {}
    fixed: set[str] = set()
    operators: list[str] = []
    if _EITHER.search(said) and said != said.upper():
        fixed.add("|")
        operators.append("|")
    for operator, word in _PIECE.findall(plain):
        if operator:
            words[operator] = None
            fixed.add(operator)
            operators.append(operator)
        elif word not in _UNSAID:
            stem = _singular(word)
            words[stem] = None
            signed = _SIGN.search(stem)
            if signed or any(character.isdigit() for character in stem):
                fixed.add(stem)
            if signed:  # an index that looks for words does not see it, as it does no operator
                operators.append(stem)
    return Query(tuple(words), frozenset(fixed), not _DIRECTIONS.isdisjoint(words), tuple(operators))


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is", "ics")) or word in _NO_PLURALS:
        return word
    return f"{word[:-3]}y" if word.endswith("ies") else word[:-1]


def query_similarity(expected: Query, actual: Query) -> tuple[float, bool]:
    """(shared words / all words, whether that says anything), symmetric.

    It says nothing where numbers or operators differ, where each has a word that the other lacks (one name in place of
    another), or where the order of the shared words counts and differs.
    """
    first, second = set(expected.words), set(actual.words)
    if not first or not second:
        return 0.0, False
    shared = first & second
    similarity = len(shared) / len(first | second)
    nested = first <= second or second <= first
    in_order = not (expected.is_ordered or actual.is_ordered) or (
        [word for word in expected.words if word in shared] == [word for word in actual.words if word in shared]
    )
    return similarity, nested and in_order and expected.fixed == actual.fixed

"""Two rankings of the invented pages that labels come from, and what they say of two queries.

Neither is the ranking of the verifier's index (BM25 over stems): one is query likelihood with Dirichlet smoothing
(Zhai and Lafferty 2001), the other the cosine of tf-idf vectors; both over words as they are written, without stems,
titles counted twice. A label needs both to agree.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from tests.labelled.making.search_facts import Page

_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d[\d.,]*")
_COMMON = frozenset(
    [
        "a", "an", "the", "of", "in", "on", "at", "for", "and", "or", "is", "are", "was", "were", "what",
        "which", "who", "when", "where", "how", "did", "does", "do", "by",
    ]
)  # fmt: skip
_PRIOR = 60.0


def words_of(text: str) -> list[str]:
    """Words in lower case, without the commonest."""
    return [word for word in _WORD.findall(text.casefold()) if word not in _COMMON]


class Rankings:
    """Both rankings over the pages."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self._names = [page.url for page in pages]
        self._counts = [Counter(words_of(f"{page.title} {page.title} {page.text}")) for page in pages]
        self._total: Counter[str] = sum(self._counts, Counter())
        self._in_pages = Counter(word for counts in self._counts for word in counts)
        self._words = sum(self._total.values())

    def both(self, query: str, count: int) -> tuple[list[str], list[str]]:
        """The first pages of a query by either ranking, best first; pages without a word of the query are none."""
        asked = Counter(word for word in words_of(query) if word in self._total)
        if not asked:
            return [], []
        hit = [place for place, counts in enumerate(self._counts) if any(word in counts for word in asked)]
        rankings = []
        for score in (self._likelihood, self._cosine):
            best = sorted(hit, key=lambda place: (-score(asked, self._counts[place]), self._names[place]))
            rankings.append([self._names[place] for place in best[:count]])
        return rankings[0], rankings[1]

    def _likelihood(self, asked: Counter[str], counts: Counter[str]) -> float:
        length = sum(counts.values())
        return sum(
            times * math.log((counts[word] + _PRIOR * self._total[word] / self._words) / (length + _PRIOR))
            for word, times in asked.items()
        )

    def _cosine(self, asked: Counter[str], counts: Counter[str]) -> float:
        def weight(times: int, word: str) -> float:
            return (1 + math.log(times)) * math.log(len(self._names) / self._in_pages[word]) if times else 0.0

        length = math.sqrt(sum(weight(times, word) ** 2 for word, times in counts.items()))
        return sum(weight(times, word) * weight(counts[word], word) for word, times in asked.items()) / length


def finds_first(rankings: Rankings, query: str, page: str) -> bool:
    """Whether both rankings have the page first: what an expert's query must do."""
    return all(found[:1] == [page] for found in rankings.both(query, 1))


def query_label(rankings: Rankings, page: str, expert: str, other: str) -> str:
    """`valid`, `wrong`, or nothing where the results do not settle it.

    Valid: by both rankings the page that holds the answer comes first, and of the first three pages half or more are
    shared; numbers, where both have some, are the expert's. Wrong: by both rankings that page is not among the first
    three, and of the first five pages a third or less is shared; or the other asks for other numbers and has another
    page first.
    """
    pairs = list(zip(rankings.both(expert, 5), rankings.both(other, 5), strict=True))
    numbers = [sorted(set(_NUMBER.findall(query))) for query in (expert, other)]
    if numbers[0] != numbers[1] and all(numbers):
        return "wrong" if all(found[:1] != [page] for _, found in pairs) else ""
    if all(found[:1] == [page] and _shared(wanted[:3], found[:3]) >= 0.5 for wanted, found in pairs):
        return "valid"
    if all(page not in found[:3] and _shared(wanted, found) <= 1 / 3 for wanted, found in pairs):
        return "wrong"
    return ""


def _shared(first: Sequence[str], second: Sequence[str]) -> float:
    together = set(first) | set(second)
    return len(set(first) & set(second)) / len(together) if together else 0.0

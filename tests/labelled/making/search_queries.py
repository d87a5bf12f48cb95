"""Pairs of searches: queries that the bundled model wrote for one question, and the expert's query rewritten by rules.

Labels come from what both queries find (`search_engine.py`). A query that was rewritten must besides be what the rule
meant it to be: one that should find the same and does not, or the other way round, is no pair.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pivotrl_core.types import Json
from tests.labelled.making.pair_rows import Pair
from tests.labelled.making.search_engine import Rankings, finds_first, query_label, words_of
from tests.labelled.making.search_facts import Fact
from tests.labelled.making.search_states import INDEX, Tools, asked, family_of

_LEAST_SHARED = 0.25
"""Of the words of two queries: a query that has less in common with the expert's is no hard negative."""


def sampled_pairs(fact: Fact, texts: Sequence[str], rankings: Rankings) -> Iterator[Pair]:
    """Of one expert's query and every other that was sampled."""
    tools = family_of(fact)
    queries, expert = _sampled(fact, texts, rankings)
    for query in queries:
        label = query_label(rankings, fact.page, expert, query)
        if query == expert or not label or (label == "wrong" and not _is_hard(expert, query)):
            continue
        kind = f"query_{_difference(expert, query)}"
        yield _pair(fact, tools, tools.searching(expert), tools.searching(query), (label, "model", kind, "executed"))


_ASK_FOR_ANOTHER = ("like_name", "other_year")
"""Kinds that ask for something else by their words: wrong where another page comes first, whatever comes behind it."""


def sampled_counts(fact: Fact, texts: Sequence[str], rankings: Rankings) -> tuple[int, int]:
    """How many queries were valid as they were sampled, and how many of those were the expert's to the letter."""
    queries, expert = _sampled(fact, texts, rankings)
    found = (query_label(rankings, fact.page, expert, query) == "valid" for query in queries)
    return sum(count for count, valid in zip(queries.values(), found, strict=True) if valid), queries[expert]


def _sampled(fact: Fact, texts: Sequence[str], rankings: Rankings) -> tuple[Counter[str], str]:
    """Queries with how often they were written, and the one that finds the page first and was written most often.

    Where none does there are no queries.
    """
    queries = Counter(query for text in texts if (query := " ".join(text.split())))
    good = [query for query, _ in queries.most_common() if finds_first(rankings, query, fact.page)]
    return (queries, good[0]) if good else (Counter(), "")


def _is_hard(expert: str, query: str) -> bool:
    first, second = set(words_of(expert)), set(words_of(query))
    return len(first & second) >= _LEAST_SHARED * len(first | second) > 0


def _difference(expert: str, query: str) -> str:
    """How the words of two queries differ."""
    first, second = words_of(expert), words_of(query)
    if sorted(first) == sorted(second):
        return "spelt_otherwise" if first == second else "in_another_order"
    if set(second) <= set(first):
        return "with_fewer_words"
    return "with_more_words" if set(first) <= set(second) else "with_other_words"


def rewritten_pairs(fact: Fact, rankings: Rankings) -> Iterator[Pair]:
    """The fact's own query, changed."""
    if not finds_first(rankings, fact.query, fact.page):
        return
    tools = family_of(fact)
    draw = random.Random(f"queries {fact.question}")
    expert = tools.searching(fact.query)
    for label, made in (("valid", _same(fact, draw)), ("wrong", _other(fact, draw))):
        always = [(kind, made.pop(kind)) for kind in ("other_year", "year_left_out") if kind in made]
        chosen = [*always, *draw.sample(sorted(made.items()), min(4 if label == "valid" else 3, len(made)))]
        for kind, query in chosen:
            found = query_label(rankings, fact.page, fact.query, query)
            missed = kind in _ASK_FOR_ANOTHER and not any(found[:1] == [fact.page] for found in rankings.both(query, 1))
            if query != fact.query and (found == label or missed):
                yield _pair(fact, tools, expert, tools.searching(query), (label, "rewritten", kind, "executed"))
    yield from _with_options(fact, tools, draw)


def _same(fact: Fact, draw: random.Random) -> dict[str, str]:
    """Queries that should find the same, by the kind of change."""
    query, name = fact.query, fact.subject
    rest = " ".join(query.replace(name, " ").split())
    words = rest.split()
    draw.shuffle(words)
    synonyms = {f"{old}": new for old, new in fact.synonyms.items() if old in query}
    made = {
        "word_order": " ".join([*words, name]) if query.startswith(name) else f"{name} {' '.join(words)}",
        "question": fact.question,
        "stop_words": f"what is the {rest} of the {name}?",
        "quoted_name": query.replace(name, f'"{name}"'),
        "upper_case": query.upper(),
        "lower_case": query.lower(),
        "punctuation": f"{name}: {rest}?",
        "wide_space": query.replace(" ", "\u00a0\u00a0"),
        "possessive": f"{name}'s {rest}",
        "name_twice": f"{query} {name}",
    }
    for old, new in synonyms.items():
        made["synonym"] = query.replace(old, new)
    return made


def _other(fact: Fact, draw: random.Random) -> dict[str, str]:
    """Queries that should find something else, by the kind of change."""
    query, name = fact.query, fact.subject
    years = re.findall(r"\b(?:19|20)\d\d\b", query)
    made = {
        "like_name": query.replace(name, fact.rival),
        "name_left_out": " ".join(query.replace(name, " ").split()),
        "name_misspelt": query.replace(name, _misspelt(name, draw)),
        "half_of_name": query.replace(name, name.split()[draw.randrange(len(name.split()))]),
    }
    if years:
        made["other_year"] = query.replace(years[0], str(int(years[0]) + draw.choice([-1, 1])))
        made["year_left_out"] = " ".join(query.replace(years[0], " ").split())
    return made


def _misspelt(name: str, draw: random.Random) -> str:
    """The name with one letter of each long word changed."""
    words = []
    for word in name.split():
        at = draw.randrange(1, len(word) - 1) if len(word) > 3 else 0
        words.append(f"{word[:at]}{draw.choice('bdfgklmnprstvz')}{word[at + 1 :]}" if at else word)
    return " ".join(words)


def _with_options(fact: Fact, tools: Tools, draw: random.Random) -> Iterator[Pair]:
    """Operators, and arguments beside the query: what they do follows from what they are."""
    query, site = fact.query, fact.page.split("/")[2]
    word = fact.subject.split()[-1].lower()
    wrong = {"name_excluded": f"{query} -{word}", "site_elsewhere": f"{query} site:{draw.choice('abc')}.{site}"}
    for kind, text in draw.sample(sorted(wrong.items()), 1):
        yield _pair(fact, tools, tools.searching(query), tools.searching(text), ("wrong", "rewritten", kind, BY_RULE))
    if tools.options:
        one, more = tools.searching(query, num_results=5), tools.searching(query, num_results=10)
        yield _pair(fact, tools, one, more, ("valid", "rewritten", "more_results_shown", BY_RULE))
        other = tools.searching(query, language="fr")
        yield _pair(fact, tools, tools.searching(query), other, ("wrong", "rewritten", "other_language", BY_RULE))


BY_RULE = "by_construction"


def _pair(
    fact: Fact, tools: Tools, expert: Mapping[str, Json], other: Mapping[str, Json], told: tuple[str, str, str, str]
) -> Pair:
    return Pair(asked(fact.question, tools), expert, other, *told, {"index": INDEX})

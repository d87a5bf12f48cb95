"""Makes the labelled pairs of domain search, with the documents of their index.

    python -m tests.labelled.making.search

writes `tests/labelled/search/pages/world.jsonl` and `pairs.jsonl` from the invented world and `samples.jsonl`. The same
bytes every time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.labelled.making.pair_rows import Pair, write_pairs
from tests.labelled.making.search_addresses import address_pairs, pattern_pairs
from tests.labelled.making.search_answers import rewritten_answers, sampled_answers
from tests.labelled.making.search_engine import Rankings
from tests.labelled.making.search_facts import SEED, Fact, Page, World, make_world
from tests.labelled.making.search_queries import rewritten_pairs, sampled_pairs
from tests.labelled.making.search_samples import SAMPLES, answer_facts, chosen, query_facts
from tests.labelled.making.search_states import INDEX

FOLDER = SAMPLES.parent
_REWRITTEN_QUERIES, _ADDRESSES, _PATTERNS, _ANSWERS = 34, 20, 14, 30


def all_pairs(world: World, samples: Path) -> Iterator[Pair]:
    """Sampled pairs of all facts, then the rewritten ones."""
    pages = {page.url: page for page in world.pages}
    rankings = Rankings(world.pages)
    said = [json.loads(line) for line in samples.read_text("utf-8").splitlines()]
    texts = {(row["kind"], row["page"], row["question"]): row["texts"] for row in said}
    for fact in query_facts(world):
        yield from sampled_pairs(fact, texts.get(("query", fact.page, fact.question), []), rankings)
    for fact in answer_facts(world):
        found = texts.get(("answer", fact.page, fact.question), [])
        yield from sampled_answers(fact, pages[fact.page], found)
    for fact in chosen(world, _REWRITTEN_QUERIES, SEED + 3):
        yield from rewritten_pairs(fact, rankings)
    for fact in chosen(world, _ADDRESSES, SEED + 4):
        yield from address_pairs(fact, pages[fact.page], _rival(fact, world))
    for fact in chosen(world, _PATTERNS, SEED + 5):
        yield from pattern_pairs(fact, pages[fact.page], _rival(fact, world))
    for fact in chosen(world, _ANSWERS, SEED + 6):
        yield from rewritten_answers(fact, pages[fact.page])


def _rival(fact: Fact, world: World) -> Page:
    """The page of the subject that is easily taken for this one."""
    return next(page for page in world.pages if page.title.startswith(fact.rival) and page.url != fact.page)


def main() -> None:
    world = make_world()
    index = FOLDER / INDEX / "world.jsonl"
    index.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"url": page.url, "title": page.title, "text": page.text}) for page in world.pages]
    index.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for (label, origin), count in sorted(write_pairs(FOLDER / "pairs.jsonl", all_pairs(world, SAMPLES)).items()):
        print(f"{label:6} {origin:10} {count}")


if __name__ == "__main__":
    main()

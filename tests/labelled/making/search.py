"""Makes the labelled pairs of domain search, with the documents of their index.

    python -m tests.labelled.making.search

writes `pages/world.jsonl`, `pairs.jsonl.gz` and `sampled.json` in `tests/labelled/search` from the invented world and
`samples.jsonl`. The same bytes every time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.labelled.making.pair_rows import Pair, write_pairs
from tests.labelled.making.search_addresses import address_pairs, pattern_pairs
from tests.labelled.making.search_answers import rewritten_answers, sampled_answers, says
from tests.labelled.making.search_engine import Rankings
from tests.labelled.making.search_facts import SEED, Fact, Page, World, make_world
from tests.labelled.making.search_queries import rewritten_pairs, sampled_counts, sampled_pairs
from tests.labelled.making.search_samples import SAMPLES, answer_facts, chosen, query_facts
from tests.labelled.making.search_states import INDEX

FOLDER = SAMPLES.parent
_REWRITTEN_QUERIES, _ADDRESSES, _PATTERNS, _ANSWERS, _OF_YEARS = 30, 18, 12, 40, 14


def all_pairs(world: World, samples: Path) -> Iterator[Pair]:
    """Sampled pairs of all facts, then the rewritten ones."""
    pages = {page.url: page for page in world.pages}
    rankings, texts = Rankings(world.pages), _texts(samples)
    for fact in query_facts(world):
        yield from sampled_pairs(fact, texts["query", fact.page, fact.question], rankings)
    for fact in answer_facts(world):
        yield from sampled_answers(fact, pages[fact.page], texts["answer", fact.page, fact.question])
    of_years = chosen(world, _OF_YEARS, SEED + 7, ("report", "census", "edition"))
    for fact in [*chosen(world, _REWRITTEN_QUERIES, SEED + 3), *of_years]:
        yield from rewritten_pairs(fact, rankings)
    for fact in chosen(world, _ADDRESSES, SEED + 4):
        yield from address_pairs(fact, pages[fact.page], _rival(fact, world))
    for fact in chosen(world, _PATTERNS, SEED + 5):
        yield from pattern_pairs(fact, pages[fact.page], _rival(fact, world))
    for fact in chosen(world, _ANSWERS, SEED + 6):
        yield from rewritten_answers(fact, pages[fact.page])


def counted(world: World, samples: Path) -> dict[str, int]:
    """How many actions were valid as the model sampled them, and how many of those were the expert's to the letter."""
    rankings, texts = Rankings(world.pages), _texts(samples)
    pages = {page.url: page for page in world.pages}
    counts = [sampled_counts(fact, texts["query", fact.page, fact.question], rankings) for fact in query_facts(world)]
    for fact in answer_facts(world):
        said = [" ".join(text.split()) for text in texts["answer", fact.page, fact.question]]
        same = said.count(fact.answer)
        valid = sum(says(fact, pages[fact.page], one) == "valid" for one in said if one != fact.answer)
        counts.append((same + valid, same))
    return {"valid": sum(valid for valid, _ in counts), "identical": sum(same for _, same in counts)}


def _texts(samples: Path) -> dict[tuple[str, str, str], list[str]]:
    """What was sampled, by kind, page and question."""
    said = [json.loads(line) for line in samples.read_text("utf-8").splitlines()]
    return {(row["kind"], row["page"], row["question"]): list(map(_text, row["texts"])) for row in said}


def _text(sampled: str) -> str:
    """A text up to the mark that ends a turn."""
    return sampled.partition("<|")[0]


def _rival(fact: Fact, world: World) -> Page:
    """The page of the subject that is easily taken for this one."""
    return next(page for page in world.pages if page.title.startswith(fact.rival) and page.url != fact.page)


def main() -> None:
    world = make_world()
    index = FOLDER / INDEX / "world.jsonl"
    index.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"url": page.url, "title": page.title, "text": page.text}) for page in world.pages]
    index.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (FOLDER / "sampled.json").write_text(json.dumps(counted(world, SAMPLES)) + "\n", encoding="utf-8")
    for (label, origin), count in sorted(write_pairs(FOLDER / "pairs.jsonl.gz", all_pairs(world, SAMPLES)).items()):
        print(f"{label:6} {origin:10} {count}")


if __name__ == "__main__":
    main()

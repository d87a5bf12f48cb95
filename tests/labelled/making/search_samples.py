"""What the bundled model writes as queries and as answers for questions of the invented world.

    python -m tests.labelled.making.search_samples MODEL_FOLDER

writes `tests/labelled/search/samples.jsonl`: one line a question, with the texts as they were sampled. It is kept in
the repository, so that the set can be made again without the model.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.labelled.making.sampling import Sampling, sample
from tests.labelled.making.search_facts import SEED, Fact, World, make_world

SAMPLES = Path(__file__).parents[1] / "search" / "samples.jsonl"
QUERY_QUESTIONS = 120
ANSWER_QUESTIONS = 48
_QUERY_SHOTS = [
    ("Who painted the ceiling of the Sistine Chapel?",
     ["Sistine Chapel ceiling painter", "who painted Sistine Chapel"]),
    ("In which year did the Kodak company file for bankruptcy?", ["Kodak bankruptcy year", "Kodak bankruptcy filing"]),
    ("What was the population of Leeds in 1951?", ["Leeds population 1951", "population of Leeds census 1951"]),
    ("How long is the Humber Bridge?", ["length of the Humber Bridge", "Humber Bridge how long"]),
    ("On which day was Clara Schumann born?", ["Clara Schumann born", "birthday of Clara Schumann"]),
]  # fmt: skip
_ANSWER_SHOTS = [
    ("The Forth Bridge was opened on 4 March 1890. It is 2,467 metres long.",
     "How many metres long is the Forth Bridge?",
     ["2,467 metres", "The Forth Bridge is 2467 metres long.", "2467 m"]),
    ("Ada Moser wrote 'Fields' in 1931. The book was printed by Hirsch & Sons.", "Who wrote 'Fields'?",
     ["Ada Moser", "It was written by Ada Moser.", "Ada Moser wrote 'Fields'."]),
    ("The mill in Dorn was founded in 1844 by two brothers.", "In which year was the mill in Dorn founded?",
     ["1844", "It was founded in 1844.", "in 1844"]),
]  # fmt: skip


def chosen(world: World, count: int, seed: int, topics: Sequence[str] = ()) -> list[Fact]:
    """Facts spread evenly over the topics (all where none is named) and their questions, at most one of a page."""
    draw = random.Random(seed)
    by_kind: dict[tuple[str, str], list[Fact]] = {}
    for fact in (one for one in world.facts if not topics or one.topic in topics):
        by_kind.setdefault((fact.topic, fact.question.replace(fact.subject, "")[:24]), []).append(fact)
    for facts in by_kind.values():
        draw.shuffle(facts)
    picked: list[Fact] = []
    pages: set[str] = set()
    while len(picked) < count:
        for facts in by_kind.values():
            while facts and facts[-1].page in pages:
                facts.pop()
            if facts and len(picked) < count:
                pages.add(facts[-1].page)
                picked.append(facts.pop())
        if not any(by_kind.values()):
            break
    return picked


def query_facts(world: World) -> list[Fact]:
    """Facts whose questions queries are sampled for."""
    return chosen(world, QUERY_QUESTIONS, SEED + 1)


def answer_facts(world: World) -> list[Fact]:
    """Facts whose questions answers are sampled for, with the page at hand."""
    return chosen(world, ANSWER_QUESTIONS, SEED + 2)


def _query_prompt(fact: Fact, draw: random.Random) -> str:
    shots = draw.sample(_QUERY_SHOTS, 3)
    shown = "".join(f"Question: {question}\nQuery: {draw.choice(queries)}\n\n" for question, queries in shots)
    return f"Short queries for a search engine.\n\n{shown}Question: {fact.question}\nQuery:"


def _answer_prompt(fact: Fact, text: str, draw: random.Random) -> str:
    shots = draw.sample(_ANSWER_SHOTS, 2)
    shown = "".join(f"Text: {page}\nQuestion: {asked}\nAnswer: {draw.choice(said)}\n\n" for page, asked, said in shots)
    return f"{shown}Text: {text}\nQuestion: {fact.question}\nAnswer:"


def main(model_folder: Path) -> None:
    world, draw = make_world(), random.Random(SEED)
    texts = {page.url: page.text for page in world.pages}
    queries, answers = query_facts(world), answer_facts(world)
    prompts = [_query_prompt(fact, draw) for fact in queries]
    asked = [_answer_prompt(fact, texts[fact.page], draw) for fact in answers]
    how = Sampling(count=8, max_tokens=16, stop="\n", temperatures=(0.8, 1.2))
    said = Sampling(count=8, max_tokens=20, stop="\n", temperatures=(0.9,))
    with SAMPLES.open("w") as file:
        for kind, facts, sampled in (
            ("query", queries, sample(model_folder, prompts, how)),
            ("answer", answers, sample(model_folder, asked, said)),
        ):
            for fact, found in zip(facts, sampled, strict=True):
                row = {"kind": kind, "page": fact.page, "question": fact.question, "texts": found}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

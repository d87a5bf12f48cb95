"""An invented world for the labelled pairs of domain search: documents with facts, and questions about those facts.

Everything follows from one seed. Names come in families (two companies of one stem, an Upper and a Lower town), pages
mention one another, and some subjects have a page a year, so that a query that is a little off finds other pages.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tests.labelled.making.search_topics import TOPICS, Topic

SEED = 20261201
_ONSETS = [
    "b", "br", "c", "cl", "d", "dr", "f", "g", "gr", "h", "k", "l", "m", "n", "p", "pr", "r", "s", "st", "t",
    "tr", "v", "w", "z",
]  # fmt: skip
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "io"]
_CODAS = ["l", "lm", "n", "nd", "r", "rk", "s", "st", "th", "x"]
_FIRST = [
    "Alma", "Bertil", "Carla", "Dario", "Edda", "Fabio", "Greta", "Hanno", "Irma", "Jonas", "Katja", "Leander",
    "Mira", "Nils", "Oda", "Pavel", "Rosa", "Silas", "Tilda", "Ugo", "Vera", "Wanda", "Yorick", "Zora",
]  # fmt: skip
_MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]  # fmt: skip
_INDUSTRIES = {
    "Textiles": "wool blankets", "Foods": "smoked cheese", "Optics": "telescope lenses", "Shipyards": "river ferries",
    "Ceramics": "floor tiles", "Instruments": "cellos", "Paper": "banknote paper", "Clocks": "tower clocks",
}  # fmt: skip
_HABITATS = ["pine forests", "salt marshes", "limestone caves", "alpine meadows", "peat bogs", "river gravel"]
_DIETS = ["rotting bark", "moss", "aphids", "fungus spores", "leaf litter", "snail eggs"]
_PRIZES = ["Amber Quill", "Silver Lantern", "Northern Laurel", "Glass Feather"]
_JOBS = ["botanist", "surveyor", "composer", "astronomer", "glassmaker", "geologist"]
_CRAFTS = ["lace", "bells", "cider", "kites", "pottery", "salt"]
_MATERIALS = ["granite", "steel", "timber", "brick"]


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a page says, with a question about it and a query that finds it.

    `other` has fields of a subject that is easily confused with this one; `synonyms` replace words of the query;
    `shape` says what the answer is: name, number, year, day, list, or amount.
    """

    topic: str
    page: str
    question: str
    query: str
    answer: str
    shape: str
    subject: str
    rival: str
    synonyms: Mapping[str, str] = field(default_factory=dict)
    pages: tuple[str, ...] = ()
    """All pages that hold the answer."""


@dataclass(frozen=True, slots=True)
class Page:
    """A document of the index; `url` is its id."""

    url: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class World:
    """Pages in order, and facts."""

    pages: tuple[Page, ...]
    facts: tuple[Fact, ...]


Fields = dict[str, str]


class _Names:
    """Words that no language has, each once."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._used: set[str] = set()

    def word(self, ending: str = "") -> str:
        while True:
            pick = self._draw.choice
            word = pick(_ONSETS) + pick(_VOWELS) + pick(_CODAS) + (ending or pick(["a", "en", "o", "ia", "ey"]))
            if word not in self._used:
                self._used.add(word)
                return word.capitalize()

    def person(self) -> str:
        return f"{self._draw.choice(_FIRST)} {self.word(self._draw.choice(['sen', 'mann', 'ova', 'etti', 'ard']))}"


def make_world() -> World:
    """The world of `SEED`."""
    draw = random.Random(SEED)
    names = _Names(draw)
    towns = [f"{side} {stem}" for stem in (names.word() for _ in range(14)) for side in ("Upper", "Lower")]
    rivers = [names.word() for _ in range(12)]
    makers: dict[str, list[Fields]] = {
        "town": [_town(draw, names, town, rivers) for town in towns],
        "company": _twice(14, partial(_company, draw, names, towns)),
        "beetle": [_beetle(draw, names, genus) for genus in (names.word("us") for _ in range(9)) for _ in range(3)],
        "bridge": [_bridge(draw, names, towns, river) for river in rivers for _ in range(2)],
        "novel": _twice(13, partial(_novel, draw, names, towns)),
        "person": _twice(13, partial(_person, draw, names, towns)),
        "peak": [_peak(draw, names, chain) for chain in (names.word() for _ in range(8)) for _ in range(3)],
        "festival": [_festival(draw, names, town) for town in towns[::2] for _ in range(2)],
        "ship": _twice(10, partial(_ship, draw, names, towns)),
    }
    makers["report"] = [one for one in makers["company"] if one["reports"]][:14]
    makers["census"] = makers["town"][:14]
    makers["edition"] = makers["festival"][:12]
    pages: list[Page] = []
    facts: list[Fact] = []
    for name, subjects in makers.items():
        topic = TOPICS[name]
        for place, subject in enumerate(subjects):
            rival = subjects[place ^ 1] if (place ^ 1) < len(subjects) else subjects[place - 1]
            for year in topic.years or (0,):
                _add(topic, name, _of_year(subject, year), _of_year(rival, year), pages, facts)
    return World(tuple(pages), tuple(facts))


def _of_year(subject: Fields, year: int) -> Fields:
    """Fields of a year: figures are drawn from subject and year."""
    if not year:
        return subject
    draw = random.Random(f"{subject['name']} {year}")
    figures = {
        "year": str(year), "before": str(year - 1), "revenue": f"{draw.randint(20, 980) / 10} million dollars",
        "staff": f"{draw.randint(1100, 9900):,}", "inhabitants": f"{draw.randint(2100, 58000):,}",
        "households": f"{draw.randint(600, 1900):,}", "winner": f"{draw.choice(_FIRST)} {draw.choice(_FIRST)}sen",
        "guests": f"{draw.randint(1100, 48000):,}", "chair": f"{draw.choice(_FIRST)} {draw.choice(_FIRST)}ova",
    }  # fmt: skip
    return subject | figures


def _add(topic: Topic, name: str, one: Fields, rival: Fields, pages: list[Page], facts: list[Fact]) -> None:
    title = topic.title.format(**one)
    url = f"https://{name}.example.org/{title.lower().replace(' ', '-')}"
    text = topic.texts[len(pages) % len(topic.texts)].format(**one)
    pages.append(Page(url, title, text))
    for question, query, answer, shape, synonyms in topic.asked:
        facts.append(
            Fact(
                name, url, question.format(**one), query.format(**one), one[answer], shape, one["name"],
                rival["name"], synonyms, (url,),
            )
        )  # fmt: skip


def _twice(count: int, make: Callable[[str], Fields | list[Fields]]) -> list[Fields]:
    made: list[Fields] = []
    for _ in range(count):
        pair = make("")
        made += pair if isinstance(pair, list) else [pair]
    return made


def _day(draw: random.Random, low: int, high: int) -> str:
    return f"{draw.randint(1, 28)} {draw.choice(_MONTHS)} {draw.randint(low, high)}"


def _town(draw: random.Random, names: _Names, town: str, rivers: list[str]) -> Fields:
    crafts = draw.sample(_CRAFTS, 3)
    return {
        "name": town, "river": draw.choice(rivers), "mayor": names.person(), "height": str(draw.randint(80, 1900)),
        "crafts": f"{crafts[0]}, {crafts[1]} and {crafts[2]}", "hall": names.word(),
        "year": str(draw.randint(1100, 1700)),
    }  # fmt: skip


def _company(draw: random.Random, names: _Names, towns: list[str], _: str) -> list[Fields]:
    stem = names.word()
    return [
        {
            "name": f"{stem} {industry}", "product": _INDUSTRIES[industry], "town": draw.choice(towns),
            "founder": names.person(), "year": str(draw.randint(1850, 1990)), "people": f"{draw.randint(60, 9000):,}",
            "director": names.person(), "reports": "yes",
        }
        for industry in draw.sample(sorted(_INDUSTRIES), 2)
    ]  # fmt: skip


def _beetle(draw: random.Random, names: _Names, genus: str) -> Fields:
    return {
        "name": f"{genus} {names.word('is').lower()}", "author": names.person(), "year": str(draw.randint(1780, 1960)),
        "habitat": draw.choice(_HABITATS), "length": f"{draw.randint(20, 350) / 10}", "diet": draw.choice(_DIETS),
        "genus": genus, "country": names.word("land"),
    }  # fmt: skip


def _bridge(draw: random.Random, names: _Names, towns: list[str], river: str) -> Fields:
    return {
        "name": f"{names.word()} Bridge", "river": river, "town": draw.choice(towns), "architect": names.person(),
        "length": f"{draw.randint(1001, 2900):,}", "day": _day(draw, 1870, 1995), "stuff": draw.choice(_MATERIALS),
        "spans": str(draw.randint(3, 19)),
    }  # fmt: skip


def _novel(draw: random.Random, names: _Names, towns: list[str], _: str) -> list[Fields]:
    thing = names.word()
    return [
        {
            "name": f"The {kind} of {thing}", "author": names.person(), "year": str(draw.randint(1890, 2015)),
            "press": f"{names.word()} Press", "prize": draw.choice(_PRIZES), "town": draw.choice(towns),
            "hero": names.person(), "count": str(draw.randint(150, 890)),
        }
        for kind in draw.sample(["Orchard", "Keeper", "Winter", "Mirror", "Ferryman"], 2)
    ]  # fmt: skip


def _person(draw: random.Random, names: _Names, towns: list[str], _: str) -> list[Fields]:
    family = names.word("berg")
    return [
        {
            "name": f"{first} {family}", "job": draw.choice(_JOBS), "town": draw.choice(towns),
            "day": _day(draw, 1890, 1912), "school": f"{names.word()} Academy", "works": names.word("um"),
            "teacher": names.person(), "medal": f"{names.word()} Medal", "year": str(draw.randint(1935, 1975)),
        }
        for first in draw.sample(_FIRST, 2)
    ]  # fmt: skip


def _peak(draw: random.Random, names: _Names, chain: str) -> Fields:
    return {
        "name": f"Mount {names.word()}", "chain": f"{chain} Range", "height": f"{draw.randint(1900, 7200):,}",
        "climber": names.person(), "day": _day(draw, 1820, 1970), "lake": f"Lake {names.word()}",
        "hut": f"{names.word()} Hut", "rock": draw.choice(["basalt", "gneiss", "dolomite", "slate"]),
    }  # fmt: skip


def _festival(draw: random.Random, names: _Names, town: str) -> Fields:
    return {
        "name": f"{names.word()} {draw.choice(['Kite', 'Organ', 'Cider', 'Lantern'])} Festival", "town": town,
        "month": draw.choice(_MONTHS), "year": str(draw.randint(1920, 2005)), "founder": names.person(),
        "days": str(draw.randint(2, 12)), "square": f"{names.word()} Square",
    }  # fmt: skip


def _ship(draw: random.Random, names: _Names, towns: list[str], _: str) -> list[Fields]:
    stem = names.word()
    return [
        {
            "name": f"{prefix} {stem}", "yard": f"{names.word()} Yard", "day": _day(draw, 1880, 1960),
            "captain": names.person(), "length": f"{draw.randint(400, 1990) / 10}", "cargo": draw.choice(_CRAFTS),
            "town": draw.choice(towns), "year": str(draw.randint(1961, 1999)),
        }
        for prefix in ("Princess", "Queen")
    ]  # fmt: skip

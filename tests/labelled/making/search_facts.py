"""An invented world for the labelled pairs of domain search: documents with facts, and questions about those facts.

Everything follows from one seed. Names come in families (two companies of one stem, an Upper and a Lower town), pages
mention one another, and some subjects have a page a year, so that a query that is a little off finds other pages.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

SEED = 20261201
_ONSETS = "b br c cl d dr f g gr h k l m n p pr r s st t tr v w z".split()
_VOWELS = "a e i o u ai ea io".split()
_CODAS = "l lm n nd r rk s st th x".split()
_FIRST = (
    "Alma Bertil Carla Dario Edda Fabio Greta Hanno Irma Jonas Katja Leander Mira Nils Oda Pavel Rosa Silas Tilda Ugo "
    "Vera Wanda Yorick Zora"
).split()
_MONTHS = "January February March April May June July August September October November December".split()
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


@dataclass(frozen=True, slots=True)
class _Topic:
    """How pages of one kind are written: per subject one page, or one a year where `years` are named.

    `asked`: (question, query, field of the answer, shape, synonyms).
    """

    title: str
    texts: Sequence[str]
    asked: Sequence[tuple[str, str, str, str, Mapping[str, str]]]
    years: Sequence[int] = ()


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


def _add(topic: _Topic, name: str, one: Fields, rival: Fields, pages: list[Page], facts: list[Fact]) -> None:
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
        "crafts": f"{crafts[0]}, {crafts[1]} and {crafts[2]}", "hall": names.word(), "year": str(draw.randint(1100, 1700)),
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


TOPICS: Mapping[str, _Topic] = {
    "town": _Topic(
        "{name}",
        [
            "{name} is a town on the river {river}, at {height} metres above the sea. Its mayor is {mayor}. The town was "
            "first mentioned in {year}. It is known for {crafts}, which are sold in {hall} Hall.",
            "The town of {name} lies in the valley of the {river}, {height} metres above sea level. It got its charter "
            "in {year}. {mayor} was elected mayor. Markets for {crafts} are held around {hall} Hall.",
        ],
        [
            ("On which river does {name} lie?", "{name} river", "river", "name", {"river": "stream"}),
            ("Who is the mayor of {name}?", "mayor of {name}", "mayor", "name", {"mayor": "head of council"}),
            ("Which three goods is the town of {name} known for?", "{name} town known for", "crafts", "list",
             {"known": "famous"}),
            ("How many metres above sea level is {name}?", "{name} altitude metres", "height", "metres",
             {"altitude": "elevation"}),
        ],
    ),
    "company": _Topic(
        "{name}",
        [
            "{name} is a company in {town} that makes {product}. It was founded in {year} by {founder} and employs "
            "{people} people. {director} has been its managing director since the family sold its shares.",
            "{founder} founded {name} in {year}. From its works in {town} the company sells {product} to many "
            "countries. It has {people} employees. The managing director is {director}.",
        ],
        [
            ("Who founded {name}?", "{name} founder", "founder", "name", {"founder": "established by"}),
            ("In which year was {name} founded?", "{name} founded year", "year", "year", {"founded": "established"}),
            ("How many people does {name} employ?", "{name} number of employees", "people", "number",
             {"employees": "staff"}),
            ("In which town is the company {name} based?", "{name} company headquarters town", "town", "name",
             {"headquarters": "head office"}),
        ],
    ),
    "report": _Topic(
        "{name} annual report {year}",
        [
            "Annual report of {name} for {year}. Revenue was {revenue}, after a quiet {before}. At the end of the year "
            "the group had a staff of {staff}. The supervisory board was chaired by {chair}.",
            "In {year} {name} reported revenue of {revenue}. The board, chaired by {chair}, proposed no dividend. The "
            "annual report counts a staff of {staff} and warns of the price of coal, as that of {before} did.",
        ],
        [
            ("What was the revenue of {name} in {year}?", "{name} revenue {year}", "revenue", "amount",
             {"revenue": "turnover"}),
            ("Who chaired the supervisory board of {name} in {year}?", "{name} supervisory board chair {year}", "chair",
             "name", {"chair": "chairman"}),
        ],
        years=(2018, 2019, 2020),
    ),
    "census": _Topic(
        "{name} census {year}",
        [
            "The census of {year} counted {inhabitants} inhabitants in {name}, in {households} households. Most of them "
            "work in the trades of the valley.",
            "Census results {year}: the population of {name} was {inhabitants}, and there were {households} households.",
        ],
        [
            ("How many inhabitants did {name} have at the census of {year}?", "{name} population census {year}",
             "inhabitants", "number", {"population": "inhabitants"}),
        ],
        years=(1991, 2011),
    ),
    "beetle": _Topic(
        "{name}",
        [
            "{name} is a species of ground beetle in the genus {genus}. It was described by {author} in {year}. Adults "
            "are {length} mm long and live in {habitat}. Larvae feed on {diet}. It is found in {country}.",
            "The beetle {name}, described in {year} by {author}, is endemic to {country}. This species of {genus} lives "
            "in {habitat} and eats {diet}. The body measures {length} mm.",
        ],
        [
            ("Who described the beetle {name}?", "{name} beetle described by", "author", "name",
             {"described": "first named"}),
            ("How long in millimetres is the beetle {name}?", "{name} beetle body length", "length", "millimetres",
             {"length": "size"}),
            ("In which country is {name} found?", "{name} distribution country", "country", "name",
             {"distribution": "range"}),
        ],
    ),
    "bridge": _Topic(
        "{name}",
        [
            "{name} crosses the {river} near {town}. It was designed by {architect} and opened on {day}. The {stuff} "
            "bridge has {spans} spans and is {length} metres long.",
            "Opened on {day}, {name} carries the road from {town} over the river {river}. {architect} was the "
            "architect. With {spans} spans of {stuff} it reaches a length of {length} metres.",
        ],
        [
            ("Who designed {name}?", "{name} architect", "architect", "name", {"architect": "designer"}),
            ("On which day was {name} opened?", "{name} opening date", "day", "day", {"opening": "inauguration"}),
            ("How many metres long is {name}?", "{name} length metres", "length", "metres", {"length": "span"}),
        ],
    ),
    "novel": _Topic(
        "{name}",
        [
            "{name} is a novel by {author}, published by {press} in {year}. It won the {prize} prize. The story follows "
            "{hero} through one year in {town}. The first edition has {count} pages.",
            "In the novel {name} by {author} a teacher named {hero} returns to {town}. {press} brought it out in {year}; "
            "it received the {prize} prize. It has {count} pages.",
        ],
        [
            ("Who wrote the novel {name}?", "{name} novel author", "author", "name", {"author": "writer"}),
            ("Which publisher brought out {name}?", "{name} publisher", "press", "name", {"publisher": "publishing house"}),
            ("In which year was the novel {name} published?", "{name} novel publication year", "year", "year",
             {"publication": "release"}),
        ],
    ),
    "person": _Topic(
        "{name}",
        [
            "{name} was a {job}, born on {day} in {town}. After years at {school} as a pupil of {teacher}, the work "
            "'{works}' made the name known. The {medal} followed in {year}.",
            "The {job} {name} (born {day} in {town}) studied with {teacher} at {school}, wrote '{works}', and was given "
            "the {medal} in {year}.",
        ],
        [
            ("On which day was {name} born?", "{name} date of birth", "day", "day", {"birth": "born"}),
            ("Where was {name} born?", "{name} birthplace", "town", "name", {"birthplace": "place of birth"}),
            ("Which medal was {name} given?", "{name} medal awarded", "medal", "name", {"awarded": "received"}),
        ],
    ),
    "peak": _Topic(
        "{name}",
        [
            "{name} is a mountain of the {chain}, {height} metres high. It was first climbed on {day} by {climber}. The "
            "way up starts at {hut} above {lake}. The summit is {rock}.",
            "{climber} made the first ascent of {name} in the {chain} on {day}. The {rock} summit stands at {height} "
            "metres. Climbers sleep in {hut} by {lake}.",
        ],
        [
            ("Who first climbed {name}?", "{name} first ascent", "climber", "name", {"ascent": "climb"}),
            ("How many metres high is {name}?", "{name} height metres", "height", "metres", {"height": "elevation"}),
            ("When was {name} first climbed?", "date of first ascent of {name}", "day", "day", {"ascent": "climbing"}),
        ],
    ),
    "festival": _Topic(
        "{name}",
        [
            "The {name} takes place in {town} every {month} and lasts {days} days. It was started in {year} by "
            "{founder}. The parade ends on {square}.",
            "Every {month} {town} holds the {name}, for {days} days. {founder} began it in {year}. Stalls stand on "
            "{square}.",
        ],
        [
            ("In which month does the {name} take place?", "{name} month", "month", "name", {"month": "date"}),
            ("Who started the {name}?", "{name} started by", "founder", "name", {"started": "founded"}),
        ],
    ),
    "edition": _Topic(
        "{name} {year}",
        [
            "At the {name} of {year} the first prize went to {winner}. The organisers counted {guests} visitors, more "
            "than in {before}.",
            "{winner} won the {name} in {year}. There were {guests} visitors; in {before} rain had kept many away.",
        ],
        [
            ("Who won the {name} in {year}?", "{name} {year} winner", "winner", "name", {"winner": "first prize"}),
            ("How many visitors came to the {name} in {year}?", "{name} visitors {year}", "guests", "number",
             {"visitors": "attendance"}),
        ],
        years=(2016, 2017),
    ),
    "ship": _Topic(
        "{name}",
        [
            "The steamer {name} was launched on {day} at {yard}. She was {length} metres long and carried {cargo} to "
            "{town}. Her last captain was {captain}. She was broken up in {year}.",
            "Built by {yard} and launched on {day}, {name} ({length} metres) carried {cargo} under captain {captain} "
            "until she was scrapped in {year} near {town}.",
        ],
        [
            ("At which yard was the steamer {name} built?", "{name} steamer built shipyard", "yard", "name",
             {"built": "constructed"}),
            ("Who was the last captain of {name}?", "captain of the {name}", "captain", "name",
             {"captain": "commander"}),
            ("On which day was the steamer {name} launched?", "{name} steamer launch date", "day", "day",
             {"launch": "launched"}),
        ],
    ),
}  # fmt: skip

"""What pages of the invented world say, and what is asked about it, by topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """How pages of one kind are written: per subject one page, or one a year where `years` are named.

    `asked`: (question, query, field of the answer, shape, synonyms).
    """

    title: str
    texts: Sequence[str]
    asked: Sequence[tuple[str, str, str, str, Mapping[str, str]]]
    years: Sequence[int] = ()


TOPICS: Mapping[str, Topic] = {
    "town": Topic(
        "{name}",
        [
            "{name} is a town on the river {river}, at {height} metres above the sea. Its mayor is "
            "{mayor}. The town was "
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
    "company": Topic(
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
    "report": Topic(
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
    "census": Topic(
        "{name} census {year}",
        [
            "The census of {year} counted {inhabitants} inhabitants in {name}, in {households} "
            "households. Most of them "
            "work in the trades of the valley.",
            "Census results {year}: the population of {name} was {inhabitants}, and there were "
            "{households} households.",
        ],
        [
            ("How many inhabitants did {name} have at the census of {year}?", "{name} population census {year}",
             "inhabitants", "number", {"population": "inhabitants"}),
        ],
        years=(1991, 2011),
    ),
    "beetle": Topic(
        "{name}",
        [
            "{name} is a species of ground beetle in the genus {genus}. It was described by {author} in {year}. Adults "
            "are {length} mm long and live in {habitat}. Larvae feed on {diet}. It is found in {country}.",
            "The beetle {name}, described in {year} by {author}, is endemic to {country}. This "
            "species of {genus} lives "
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
    "bridge": Topic(
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
    "novel": Topic(
        "{name}",
        [
            "{name} is a novel by {author}, published by {press} in {year}. It won the {prize} "
            "prize. The story follows "
            "{hero} through one year in {town}. The first edition has {count} pages.",
            "In the novel {name} by {author} a teacher named {hero} returns to {town}. {press} "
            "brought it out in {year}; "
            "it received the {prize} prize. It has {count} pages.",
        ],
        [
            ("Who wrote the novel {name}?", "{name} novel author", "author", "name", {"author": "writer"}),
            ("Which publisher brought out {name}?", "{name} publisher", "press", "name",
             {"publisher": "publishing house"}),
            ("In which year was the novel {name} published?", "{name} novel publication year", "year", "year",
             {"publication": "release"}),
        ],
    ),
    "person": Topic(
        "{name}",
        [
            "{name} was a {job}, born on {day} in {town}. After years at {school} as a pupil of {teacher}, the work "
            "'{works}' made the name known. The {medal} followed in {year}.",
            "The {job} {name} (born {day} in {town}) studied with {teacher} at {school}, wrote "
            "'{works}', and was given "
            "the {medal} in {year}.",
        ],
        [
            ("On which day was {name} born?", "{name} date of birth", "day", "day", {"birth": "born"}),
            ("Where was {name} born?", "{name} birthplace", "town", "name", {"birthplace": "place of birth"}),
            ("Which medal was {name} given?", "{name} medal awarded", "medal", "name", {"awarded": "received"}),
        ],
    ),
    "peak": Topic(
        "{name}",
        [
            "{name} is a mountain of the {chain}, {height} metres high. It was first climbed on "
            "{day} by {climber}. The "
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
    "festival": Topic(
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
    "edition": Topic(
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
    "ship": Topic(
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

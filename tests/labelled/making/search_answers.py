"""Pairs of answers: what the bundled model said with the page at hand, and the right answer rewritten by rules.

Whether an answer is right is read off the fact, by `says` here: the value must be there, and nothing that contradicts
it. What cannot be told this way is no pair.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence

from pivotrl_core.types import Json
from tests.labelled.making.pair_rows import Pair, message, said
from tests.labelled.making.search_facts import Fact, Page
from tests.labelled.making.search_states import Tools, asked, call, family_of, opened

_BY_RULE = "by_construction"
_MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]  # fmt: skip
_HEDGES = re.compile(
    r"\?|\b(?:not|or|never|no|unknown|maybe|perhaps|neither|before|after|between|about|approximately|roughly|nearly)\b",
    re.IGNORECASE,
)
_SPELLINGS = {"metres": {"metres", "meters", "m"}, "millimetres": {"millimetres", "mm", "millimeters"}}
_LENGTHS = {"metres", "meters", "m", "km", "feet", "mm", "millimetres", "millimeters", "cm", "miles", "inches"}
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def sampled_answers(fact: Fact, page: Page, texts: Sequence[str]) -> Iterator[Pair]:
    """What the model said, beside the right answer as the page has it."""
    tools = family_of(fact)
    for text in dict.fromkeys(" ".join(text.split()) for text in texts):
        label = says(fact, page, text)
        if label and text != fact.answer:
            worded = "sentence" if len(text.split()) > len(fact.answer.split()) + 2 else "short"
            kind = f"answer_{worded}_{fact.shape}"
            yield _pair(fact, page, tools, text, (label, "model", kind, _BY_RULE))


def says(fact: Fact, page: Page, text: str) -> str:
    """`valid`, `wrong`, or nothing where it cannot be told by rule."""
    if not text or _HEDGES.search(text):
        return ""
    if fact.shape == "name":
        return _says_name(fact, page, text)
    if fact.shape == "list":
        goods = re.split(r", | and ", fact.answer)
        given = [word for word in re.findall(r"[a-z]+", text.casefold()) if word in _goods(page) or word in goods]
        if set(given) == set(goods):
            return "valid"
        return "wrong" if given and set(given) != set(goods) else ""
    return _says_number(fact, text)


def _goods(page: Page) -> set[str]:
    return set(re.findall(r"[a-z]+", page.text.casefold())) - {"markets", "sold", "known"}


def _says_name(fact: Fact, page: Page, text: str) -> str:
    """Names are words with a capital: the right one must be there, and no other but those of the question."""
    known = set(re.findall(r"\w+", f"{fact.question} {fact.answer} The It In On At A An They He She"))
    strange = [word for word in re.findall(r"\b[A-Z]\w+", text) if word not in known]
    if fact.answer in text:
        return "" if strange else "valid"
    parts = [word for word in fact.answer.split() if word in text and word not in fact.question]
    is_there = fact.answer.casefold() in text.casefold() or len(parts) == len(fact.answer.split())
    return "wrong" if strange and not is_there else ""


def _says_number(fact: Fact, text: str) -> str:
    """Numbers but for those of the question: they must be the right ones, and units those of the question."""
    left = text.replace(fact.subject, " ")
    ours = [number.replace(",", "") for number in _NUMBER.findall(fact.answer)]
    given = [number.replace(",", "").rstrip(".") for number in _NUMBER.findall(left)]
    for number in _NUMBER.findall(fact.question.replace(fact.subject, " ")):
        given = [one for one in given if one != number]
    if not given:
        return ""
    if [float(one) for one in given] != [float(one) for one in ours]:
        return "wrong" if not set(ours) & set(given) else ""
    words = set(re.findall(r"[a-z]+", left.casefold()))
    if fact.shape == "day":
        month = next(month for month in _MONTHS if month in fact.answer)
        return "valid" if month.casefold() in words else ""
    if fact.shape == "amount":
        return "valid" if {"million", "dollars"} <= words else ""
    return "" if (words & _LENGTHS) - _SPELLINGS.get(fact.shape, set()) else "valid"


def rewritten_answers(fact: Fact, page: Page) -> Iterator[Pair]:
    """The right answer, written otherwise or changed."""
    tools, draw = family_of(fact), random.Random(f"answers {fact.question}")
    same, other = _VARIANTS[fact.shape](fact, page, draw)
    same |= {"in_a_sentence": _sentence(fact), "marked": f"I found it on the page.\n\n**Answer:** {fact.answer}"}
    for label, made in (("valid", same), ("wrong", other)):
        for kind, text in draw.sample(sorted(made.items()), min(3, len(made))):
            if text != fact.answer:
                yield _pair(fact, page, tools, text, (label, "rewritten", f"answer_{kind}", _BY_RULE))


def _sentence(fact: Fact) -> str:
    return f"It is {fact.answer}." if fact.shape != "list" else f"It is known for {fact.answer}."


def _pair(fact: Fact, page: Page, tools: Tools, text: str, told: tuple[str, str, str, str]) -> Pair:
    params = asked(fact.question, tools, *opened(tools, page, f"{page.title}. {page.text}"))
    expert: Mapping[str, Json] = call(tools.answer, {"answer": fact.answer}) if tools.answer else message(fact.answer)
    other = call(tools.answer, {"answer": text}) if tools.answer else said(text)
    return Pair(params, expert, other, *told, {})


Variants = tuple[dict[str, str], dict[str, str]]


def _of_name(fact: Fact, page: Page, draw: random.Random) -> Variants:
    name = fact.answer
    names = re.findall(r"[A-Z]\w+(?: [A-Z]\w+)+", page.text.replace(fact.subject, ""))
    others = [one for one in names if one != name and len(one.split()) == len(name.split())] or [fact.rival]
    same = {
        "upper_case": name.upper(),
        "lower_case": name.lower(),
        "full_stop": f"{name}.",
        "bold": f"**{name}**",
        "quoted": f'"{name}"',
        "boxed": f"\\boxed{{{name}}}",
        "tagged": f"<answer>{name}</answer>",
    }
    other = {
        "other_name_of_page": draw.choice(others),
        "negated": f"not {name}",
        "hedged": f"{name} or {draw.choice(others)}",
        "two_names": f"{name} and {draw.choice(others)}",
        "misspelt": name[:-2] + "x" + name[-1],
        "subject_for_answer": fact.subject,
    }
    if " " in name:
        other["other_first_name"] = f"{draw.choice(['Bruno', 'Elsa', 'Otto', 'Ines'])} {name.split(maxsplit=1)[1]}"
    return same, other


def _of_number(fact: Fact, page: Page, draw: random.Random) -> Variants:
    value = int(fact.answer.replace(",", ""))
    what = _counted(fact)
    same = {
        "without_commas": str(value),
        "narrow_spaces": f"{value:,}".replace(",", "\u202f"),
        "spaces": f"{value:,}".replace(",", " "),
        "with_decimals": f"{value}.0",
        "with_noun": f"{value:,} {what}",
        "bold": f"**{fact.answer}**",
        "boxed": f"\\boxed{{{value}}}",
    }
    other = {
        "one_more": f"{value + 1:,}",
        "one_less": f"{value - 1:,}",
        "digits_swapped": _swapped(str(value)),
        "ten_times": f"{value * 10:,}",
        "percent": f"{value}%",
        "thousands": f"{value:,} thousand",
        "negative": f"-{value}",
        "over": f"over {value:,}",
        "range": f"{value - 100:,} to {value:,}",
    }
    return same, other


def _counted(fact: Fact) -> str:
    return next((word for word in ("people", "inhabitants", "visitors") if word in fact.question), "")


def _swapped(digits: str) -> str:
    at = next((place for place in range(len(digits) - 1) if digits[place] != digits[place + 1]), 0)
    return digits[:at] + digits[at + 1] + digits[at] + digits[at + 2 :]


def _of_length(fact: Fact, page: Page, draw: random.Random) -> Variants:
    plain = fact.answer.replace(",", "")
    value = float(plain)
    small = fact.shape == "millimetres"
    unit, word, american = ("mm", "millimetres", "millimeters") if small else ("m", "metres", "meters")
    converted = f"{value / 10:.2f} cm" if small else f"{value / 1000:.3f} km"
    same = {
        "with_unit": f"{plain} {unit}",
        "with_unit_word": f"{fact.answer} {word}",
        "with_unit_joined": f"{plain}{unit}",
        "american_unit": f"{fact.answer} {american}",
        "unit_converted": converted,
        "with_decimals": f"{value:.2f} {unit}",
        "bold": f"**{fact.answer} {word}**",
    }
    other = {
        "other_unit": f"{fact.answer} {'inches' if small else 'feet'}",
        "larger_unit": f"{fact.answer} {'cm' if small else 'km'}",
        "one_more": f"{value + 1:g} {unit}",
        "digits_swapped": f"{_swapped(plain)} {unit}",
        "tenth": f"{value / 10:g} {unit}",
        "over": f"over {fact.answer} {word}",
        "range": f"{value - 2:g} to {value:g} {unit}",
        "negative": f"-{plain} {unit}",
    }
    return same, other


def _of_year(fact: Fact, page: Page, draw: random.Random) -> Variants:
    year = int(fact.answer)
    same = {
        "with_preposition": f"in {year}",
        "the_year": f"the year {year}",
        "full_stop": f"{year}.",
        "bold": f"**{year}**",
        "boxed": f"\\boxed{{{year}}}",
        "tagged": f"<answer>{year}</answer>",
        "of_our_era": f"{year} AD",
    }
    other = {
        "year_after": str(year + 1),
        "year_before": f"in {year - 1}",
        "decade": f"{year // 10 * 10}s" if year % 10 else f"{year}s",
        "before": f"before {year}",
        "after": f"after {year}",
        "bc": f"{year} BC",
        "digits_swapped": _swapped(str(year)),
        "range": f"{year} to {year + 4}",
        "with_day": f"1 May {year + 1}",
    }
    return same, other


def _of_day(fact: Fact, page: Page, draw: random.Random) -> Variants:
    day, month, year = fact.answer.split()
    number = _MONTHS.index(month) + 1
    ending = "th" if 10 < int(day) < 14 else {"1": "st", "2": "nd", "3": "rd"}.get(day[-1], "th")
    same = {
        "month_first": f"{month} {day}, {year}",
        "iso": f"{year}-{number:02}-{int(day):02}",
        "ordinal": f"{day}{ending} {month} {year}",
        "ordinal_of": f"the {day}{ending} of {month} {year}",
        "short_month": f"{day} {month[:3]} {year}",
        "month_first_ordinal": f"{month} {day}{ending}, {year}",
        "with_preposition": f"on {day} {month} {year}",
        "bold": f"**{day} {month} {year}**",
        "no_comma": f"{month} {day} {year}",
    }
    later = _MONTHS[number % 12]
    other = {
        "next_day": f"{int(day) + 1} {month} {year}",
        "next_month": f"{day} {later} {year}",
        "next_year": f"{day} {month} {int(year) + 1}",
        "iso_of_next_day": f"{year}-{number:02}-{int(day) + 1:02}",
        "month_first_of_next": f"{later} {day}, {year}",
        "before": f"before {day} {month} {year}",
        "two_days": f"{day} or {int(day) + 1} {month} {year}",
        "not_that_day": f"not on {day} {month} {year}",
    }
    if int(day) <= 12 and int(day) != number:
        other["month_and_day_swapped"] = f"{year}-{int(day):02}-{number:02}"
    return same, other


def _of_amount(fact: Fact, page: Page, draw: random.Random) -> Variants:
    millions = float(fact.answer.split()[0])
    dollars = round(millions * 1_000_000)
    same = {
        "sign": f"${millions} million",
        "sign_short": f"${millions}M",
        "written_out": f"{dollars:,} dollars",
        "sign_written_out": f"${dollars:,}",
        "code": f"USD {millions} million",
        "code_behind": f"{millions} million USD",
        "country": f"US${millions} million",
        "word_short": f"{millions} mn dollars",
    }
    other = {
        "billion": f"${millions} billion",
        "euros": f"{millions} million euros",
        "thousand": f"{millions} thousand dollars",
        "tenth_more": f"${millions + 0.1:.1f} million",
        "pounds": f"£{millions} million",
        "without_magnitude": f"${millions}",
        "loss": f"-${millions} million",
        "over": f"over ${millions} million",
        "percent": f"{millions}%",
    }
    return same, other


def _of_list(fact: Fact, page: Page, draw: random.Random) -> Variants:
    goods = re.split(r", | and ", fact.answer)
    turned = goods[1:] + goods[:1]
    strange = next(craft for craft in ("rope", "paper", "glass") if craft not in goods)
    same = {
        "another_order": f"{turned[0]}, {turned[1]} and {turned[2]}",
        "serial_comma": f"{goods[0]}, {goods[1]}, and {goods[2]}",
        "commas_only": ", ".join(goods),
        "semicolons": "; ".join(turned),
        "lines": "\n".join(f"- {one}" for one in goods),
        "ampersand": f"{goods[0]}, {goods[1]} & {goods[2]}",
        "numbered": "\n".join(f"{at}. {one}" for at, one in enumerate(goods, 1)),
        "capitals": ", ".join(one.capitalize() for one in reversed(goods)),
    }
    other = {
        "one_missing": " and ".join(goods[:2]),
        "one_replaced": f"{goods[0]}, {goods[1]} and {strange}",
        "one_more": f"{', '.join(goods)} and {strange}",
        "one_negated": f"{goods[0]}, {goods[1]}, but not {goods[2]}",
        "choice": " or ".join(goods),
        "one_twice": f"{goods[0]}, {goods[1]} and {goods[1]}",
    }
    return same, other


_VARIANTS = {
    "name": _of_name,
    "number": _of_number,
    "metres": _of_length,
    "millimetres": _of_length,
    "year": _of_year,
    "day": _of_day,
    "amount": _of_amount,
    "list": _of_list,
}

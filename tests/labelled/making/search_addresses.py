"""Pairs of pages that are opened and of texts that are looked for on them, rewritten by rules.

What addresses mean is known by construction (RFC 3986, RFC 5891, and which parameters only follow visitors). Patterns
are tried on the page: they are the same where they are found at the same places.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pivotrl_core.types import Json
from tests.labelled.making.pair_rows import Pair
from tests.labelled.making.search_facts import Fact, Page
from tests.labelled.making.search_states import asked, family_of, opened, searched

_BY_RULE = "by_construction"
_TRACKING = (
    "utm_source=newsletter",
    "gclid=Cj0KCQ",
    "fbclid=IwAR2x",
    "utm_campaign=spring&utm_medium=mail",
    "mc_eid=7a",
)


@dataclass(frozen=True, slots=True)
class _Address:
    """An address in parts. `shape` says of which sort it is."""

    shape: str
    host: str
    path: str
    query: str = ""

    def text(self, scheme: str = "https", host: str = "", path: str = "", query: str | None = None) -> str:
        """The address with some parts changed."""
        asked_for = self.query if query is None else query
        return f"{scheme}://{host or self.host}{path or self.path}{'?' if asked_for else ''}{asked_for}"


def _address(page: Page, rival: Page, draw: random.Random) -> tuple[_Address, _Address]:
    """The addresses of two pages on a site of one of five shapes."""
    first, second = (one.url.rpartition("/")[2] for one in (page, rival))
    site = page.url.split("/")[2].replace("example.org", draw.choice(["example.org", "example.net", "pages.example"]))
    number = draw.randint(100, 900)
    title = [one.title.replace(" ", "_") for one in (page, rival)]
    shapes = [
        (_Address("plain", f"www.{site}", f"/{first}"), _Address("plain", f"www.{site}", f"/{second}")),
        (_Address("wiki", f"en.{site}", f"/wiki/{title[0]}"), _Address("wiki", f"en.{site}", f"/wiki/{title[1]}")),
        (
            _Address("numbered", site, "/page", f"id={number}&lang=en"),
            _Address("numbered", site, "/page", f"id={number + 1}&lang=en"),
        ),
        (
            _Address("file", site, f"/archive/~press/{first}.html"),
            _Address("file", site, f"/archive/~press/{second}.html"),
        ),
        (
            _Address("accented", f"bücher.{site}", f"/über/{first}"),
            _Address("accented", f"bücher.{site}", f"/über/{second}"),
        ),
        (
            _Address("asked", site, "/find", f"q={first.replace('-', '+')}&sort=date"),
            _Address("asked", site, "/find", f"q={second.replace('-', '+')}&sort=date"),
        ),
    ]
    return draw.choice(shapes)


def address_pairs(fact: Fact, page: Page, rival: Page) -> Iterator[Pair]:
    """The expert opens a page that a search showed."""
    tools, draw = family_of(fact), random.Random(f"pages {fact.question}")
    one, two = _address(page, rival, draw)
    shown = f"1. {page.title} {one.text()}\n2. {rival.title} {two.text()}"
    params = asked(fact.question, tools, *searched(tools, fact.query, shown))
    goal: dict[str, Json] = {"goal": fact.question} if tools.options else {}
    expert = tools.opening(one.text(), **goal)
    for label, made in (("valid", _same(one, draw)), ("wrong", _other(one, two, draw))):
        for kind, url in draw.sample(sorted(made.items()), min(5 if label == "valid" else 4, len(made))):
            if url != one.text():
                yield Pair(params, expert, tools.opening(url, **goal), label, "rewritten", kind, _BY_RULE, {})
    if goal:
        why = tools.opening(one.text(), goal=f"find out: {fact.query}")
        yield Pair(params, expert, why, "valid", "rewritten", "other_goal", _BY_RULE, {})


def _same(one: _Address, draw: random.Random) -> dict[str, str]:
    url, slug = one.text(), one.path.rpartition("/")[2]
    joined = "&" if one.query else "?"
    folder = one.path.rpartition("/")[0]
    made = {
        "fragment": f"{url}#history",
        "tracking": f"{url}{joined}{draw.choice(_TRACKING)}",
        "tracking_first": one.text(query="&".join(filter(None, [draw.choice(_TRACKING), one.query]))),
        "scheme": one.text("http"),
        "own_port": one.text(host=f"{one.host}:443"),
        "host_in_capitals": one.text(host=one.host.upper() if one.host.isascii() else one.host.title()),
        "dot_segments": one.text(path=f"{folder}/./x/../{slug}"),
        "escaped_letter": one.text(path=f"{folder}/%{ord(slug[0]):02X}{slug[1:]}"),
        "final_dot_of_host": one.text(host=f"{one.host}."),
    }
    if not one.query:
        made |= {"final_slash": f"{url}/", "empty_query": f"{url}?", "no_scheme": url.removeprefix("https://")}
    if one.host.count(".") > 1:
        made["without_www"] = one.text(host=one.host.removeprefix("www.")) if one.shape == "plain" else url
    if one.shape in ("numbered", "asked"):
        made["parameters_reordered"] = one.text(query="&".join(reversed(one.query.split("&"))))
    if one.shape == "asked":
        made["space_escaped"] = one.text(query=one.query.replace("+", "%20"))
    if one.shape == "file":
        made["tilde_escaped"] = one.text(path=one.path.replace("~", "%7E"))
    if one.shape == "accented":
        made |= {
            "path_escaped": one.text(path=one.path.replace("ü", "%C3%BC")),
            "host_in_ascii": one.text(host=one.host.replace("bücher", "xn--bcher-kva")),
            "escapes_in_small": one.text(path=one.path.replace("ü", "%c3%bc")),
        }
    return made


def _other(one: _Address, two: _Address, draw: random.Random) -> dict[str, str]:
    url = one.text()
    joined = "&" if one.query else "?"
    made = {
        "like_page": two.text(),
        "second_page": f"{url}{joined}page=2",
        "other_port": one.text(host=f"{one.host}:8080"),
        "http_on_443": one.text("http", host=f"{one.host}:444"),
        "route_in_fragment": f"{url}#!/{two.path.rpartition('/')[2]}",
        "other_site": one.text(host=f"{one.host}.mirror.example"),
        "name_before_host": f"https://{one.host}@other.example{one.path}",
        "other_scheme": one.text("ftp"),
        "below_the_page": one.text(path=f"{one.path}/talk"),
        "slash_escaped": one.text(path=one.path[:1] + one.path[1:].replace("/", "%2F") + "%2Ftalk"),
    }
    if one.shape == "wiki":
        made |= {
            "other_language": url.replace("//en.", "//de."),
            "other_case": one.text(path=one.path.swapcase().replace("/WIKI/", "/wiki/")),
            "talk_page": url.replace("/wiki/", "/wiki/Talk:"),
        }
    if one.shape == "numbered":
        made |= {
            "other_number": one.text(query=one.query.replace("id=", "id=1")),
            "other_value": one.text(query=one.query.replace("lang=en", "lang=fr")),
            "parameter_left_out": one.text(query=one.query.partition("&")[2]),
        }
    if one.shape == "asked":
        made |= {
            "plus_escaped": one.text(query=one.query.replace("+", "%2B")),
            "other_value": one.text(query=one.query.replace("sort=date", "sort=name")),
        }
    if one.shape == "file":
        made |= {"other_file_type": url.replace(".html", ".pdf"), "without_file_type": url.removesuffix(".html")}
    if one.shape == "accented":
        made["accent_left_out"] = one.text(path=one.path.replace("ü", "u"))
    return made


def pattern_pairs(fact: Fact, page: Page, rival: Page) -> Iterator[Pair]:
    """The expert looks for a word of the sentence that holds the answer."""
    tools, draw = family_of(fact), random.Random(f"find {fact.question}")
    sentence = next(one for one in page.text.split(". ") if fact.answer in one)
    words = [word.strip(",;()'.") for word in sentence.split()]
    spoken = [place for place, word in enumerate(words) if word.isalpha() and word.islower() and len(word) > 4]
    if not spoken:
        return
    at = draw.choice(spoken)
    pattern = (
        " ".join(words[at : at + 2]) if f"{words[at]} {' '.join(words[at + 1 : at + 2])}" in page.text else words[at]
    )
    params = asked(fact.question, tools, *opened(tools, page, f"Page 1 of 3. {page.title}"))
    expert = tools.finding(pattern, page.url)
    for label, made in (("valid", _same_pattern(pattern)), ("wrong", _other_pattern(pattern, page, draw))):
        for kind, text in draw.sample(sorted(made.items()), min(3, len(made))):
            same = places(page.text, text) == places(page.text, pattern)
            if text != pattern and same == (label == "valid"):
                yield Pair(params, expert, tools.finding(text, page.url), label, "rewritten", kind, "executed", {})
    other = {"other_page": tools.finding(pattern, rival.url)}
    spelt = {"page_with_fragment": tools.finding(pattern, f"{page.url}#top")}
    yield Pair(params, expert, other["other_page"], "wrong", "rewritten", "other_page", _BY_RULE, {})
    yield Pair(params, expert, spelt["page_with_fragment"], "valid", "rewritten", "page_with_fragment", _BY_RULE, {})


def places(text: str, pattern: str) -> list[int]:
    """Where a browser finds a pattern: in any case, white space as one space, typographic signs as plain ones."""
    plain = str.maketrans({"\u2019": "'", "\u2018": "'", "\u00a0": " "})
    wanted = " ".join(pattern.translate(plain).casefold().split())
    place, found = text.casefold().find(wanted), []
    while place >= 0:
        found.append(place)
        place = text.casefold().find(wanted, place + 1)
    return found


def _same_pattern(pattern: str) -> Mapping[str, str]:
    return {
        "upper_case": pattern.upper(),
        "first_letter_large": pattern.capitalize(),
        "space_around": f" {pattern}  ",
        "wide_space": pattern.replace(" ", "\u00a0"),
        "double_space": pattern.replace(" ", "  "),
        "full_width": "".join(chr(ord(sign) + 0xFEE0) if sign.isalpha() else sign for sign in pattern[:1])
        + pattern[1:],
    }


def _other_pattern(pattern: str, page: Page, draw: random.Random) -> Mapping[str, str]:
    others: Sequence[str] = [word.strip(",;()'.") for word in page.text.split()]
    near = [word for word in others if word.isalpha() and len(word) > 4 and word not in pattern]
    return {
        "other_word_of_page": draw.choice(near),
        "one_letter_less": pattern[:-1] + "x",
        "plural": f"{pattern}s",
        "words_swapped": " ".join(reversed(pattern.split())),
        "word_doubled": f"{pattern} {pattern.split()[-1]}",
        "regular_expression": pattern.replace(" ", ".*") + ".*",
    }

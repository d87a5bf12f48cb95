"""Turns of browsing agents: tables of steps that are, and are not, interchangeable with the expert's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.errors import DataError
from pivotrl_core.types import Action, Candidate, Json, Message, Role, Tool, ToolCall
from pivotrl_core.verifiers.protocol import GradingDecision
from pivotrl_core.verifiers.search.answers import marked_answer, same_answer
from pivotrl_core.verifiers.search.grader import SearchGrader
from pivotrl_core.verifiers.search.index import DocumentIndex, result_overlap
from pivotrl_core.verifiers.search.queries import query_similarity, read_query
from pivotrl_core.verifiers.search.urls import plain_url, same_page
from pivotrl_core.verifiers.settings import SearchSettings

Call = tuple[str, dict[str, Any]]


def calls(*pairs: Call) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name, json.dumps(arguments)) for name, arguments in pairs)


def decide(
    expected: tuple[Call, ...], actual: tuple[Call, ...], grader: SearchGrader | None = None, **row: Json
) -> GradingDecision:
    candidate = Candidate((), (), Message(Role.ASSISTANT, tool_calls=calls(*expected)), "t", 0, "search", metadata=row)
    grader = grader or SearchGrader()
    components = grader.grade(candidate, Action(tool_calls=calls(*actual)))
    assert components["judged"] is False
    return grader.decide(json.loads(json.dumps(components)))


def search(query: str, **options: Any) -> Call:
    return "search", {"query": query, **options}


def visit(url: str) -> Call:
    return "open_url", {"url": url}


SAME: list[tuple[Call, Call]] = [
    (search("CATS OR DOGS"), search("cats dogs")),  # nothing says that it is an operator here
    (search("capital of France"), search("What is the capital of france?")),
    (search("capital of France"), ("web_search", {"q": "France capital"})),
    (search("2020 census results of Ohio counties"), search("Ohio county 2020 census result", num_results=20)),
    (search("battle of Hastings date and casualties"), search("battle of Hastings date casualties numbers")),  # 4 of 5
    (search("flights from Paris to London"), search("flights from paris to london")),
    (("search", {"queries": ["a river", "a lake"]}), ("search", {"queries": ["lakes", "rivers"]})),
    (("search", {"search_query": [{"q": "rivers"}]}), search("river")),
    (("search", {"queries": [{"q": "rivers", "domains": ["a.com"]}]}), search("river", domains=["a.com"])),
    (("answer", {"answer": ["Paris", "Rome"]}), ("answer", {"answer": ["rome", "Paris"]})),
    (("find", {"pattern": ["foo", "bar"]}), ("find", {"pattern": ["Bar", "foo"]})),
    (visit("http://www.Example.com:80/a/?utm_source=x&b=2&a=1#top"), visit("https://example.com/a?a=1&b=2")),
    (visit("https://bücher.example/ä"), ("visit", {"url": ["https://xn--bcher-kva.example/%C3%A4"], "goal": "prices"})),
    (("open", {"id": 3, "cursor": 1}), ("open", {"id": "3", "cursor": 1})),
    (("find", {"pattern": "Total  Area", "cursor": 2}), ("find_in_page", {"text": "total area", "cursor": 2})),
    (("final_answer", {"answer": "The Eiffel Tower"}), ("final_answer", {"answer": "eiffel tower."})),
    (("answer", {"answer": "$5 million"}), ("answer", {"answer": "5,000,000 dollars", "confidence": 90})),
    (("calculator", {"x": 1.0}), ("calculator", {"x": 1})),
]


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_steps_that_do_the_same_are_accepted_in_both_orders(expected: Call, actual: Call) -> None:
    assert decide((expected,), (actual,)).accepted
    assert decide((actual,), (expected,)).accepted


DIFFERENT: list[tuple[Call, Call, str]] = [
    (search("capital of France"), search("capital of Spain"), "arguments_differ"),
    # One name in place of another is another question, however long the rest: 10 of 12 words are shared.
    (search("list all novels written by Jane Austen during her early years at home in Hampshire"),
     search("list all novels written by Emily Austen during her early years at home in Hampshire"), "arguments_differ"),
    (search("Barack Obama birth hospital"), search("Obama"), "arguments_differ"),  # 1 of 4
    (search("Ohio population census 1990"), search("Ohio population census 1980"), "arguments_differ"),
    (search("flights from Paris to London"), search("flights from London to Paris"), "arguments_differ"),
    (search("jaguar speed animal site:nature.com"), search("jaguar speed animal"), "arguments_differ"),
    (search("cats OR dogs"), search("cats dogs"), "arguments_differ"),
    (search("jaguar -car"), search("jaguar car"), "arguments_differ"),
    (search("C++ jobs Berlin"), search("C# jobs Berlin"), "arguments_differ"),
    (search("phones >30 cm"), search("phones <30 cm"), "arguments_differ"),
    (search("rivers"), search("rivers", language="fr"), "target_differs"),
    (search("rivers"), ("search", {}), "target_differs"),
    (search("rivers"), ("search", {"queries": ["rivers", "lakes"]}), "arguments_differ"),
    (search("rivers"), visit("https://a.com"), "name_differs"),
    (visit("https://a.com/x"), visit("https://a.com/y"), "target_differs"),
    (visit("https://a.com/x?page=1"), visit("https://a.com/x?page=2"), "target_differs"),
    (visit("https://a.com"), visit("https://a.com@evil.com"), "target_differs"),
    (("open", {"id": 3, "cursor": 1}), ("open", {"id": 3, "cursor": 2}), "target_differs"),
    (("find", {"pattern": "a", "cursor": 1}), ("find", {"pattern": "a", "cursor": 2}), "target_differs"),
    (("find", {"pattern": "area", "cursor": 1}), ("find", {"pattern": "population", "cursor": 1}), "arguments_differ"),
    (("answer", {"answer": "1912"}), ("answer", {"answer": "1913"}), "answer_differs"),
    (("answer", {"answer": "-5"}), ("answer", {"answer": "5"}), "answer_differs"),
    (("answer", {"answer": "!"}), ("answer", {"answer": "?"}), "answer_differs"),
    (("answer", {"answer": "5"}), ("answer", {"answer": "5%"}), "answer_differs"),
    (("answer", {"answer": ["Paris", "London"]}), ("answer", {"answer": ["Paris", "Rome"]}), "answer_differs"),
    (("answer", {"answer": ["Paris", "London"]}), ("answer", {"answer": "Paris"}), "answer_differs"),
    (("find", {"pattern": ["foo", "bar"]}), ("find", {"pattern": ["foo", "zzz"]}), "arguments_differ"),
    (("search", {"queries": [{"q": "rivers", "domains": ["a.com"]}]}),
     ("search", {"queries": [{"q": "rivers", "domains": ["b.com"]}]}), "target_differs"),
    (("calculator", {"x": 1}), ("calculator", {"x": True}), "arguments_differ"),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "actual", "reason"), DIFFERENT)
def test_steps_that_do_something_else_are_refused_in_both_orders(expected: Call, actual: Call, reason: str) -> None:
    found = decide((expected,), (actual,))
    assert (found.accepted, found.reason) == (False, reason)
    assert not decide((actual,), (expected,)).accepted


def test_several_calls_are_matched_in_any_order() -> None:
    one, two = search("rivers of Europe"), visit("https://a.com/")
    assert decide((one, two), (visit("http://a.com"), search("Europe river"))).accepted
    assert decide((one, two), (one,)) == GradingDecision(False, "count_differs", 0.5)
    assert decide((one,), (one, one)) == GradingDecision(False, "count_differs", 0.5)
    assert decide((one, two), (one, search("lakes"))) == GradingDecision(False, "name_differs", 0.5)


def test_another_threshold_is_decided_on_what_was_graded_before() -> None:
    candidate = Candidate((), (), Message(Role.ASSISTANT, tool_calls=calls(search("rivers lakes seas"))), "t", 0)
    components = SearchGrader().grade(candidate, Action(tool_calls=calls(search("rivers lakes"))))
    assert components["similarity"] == pytest.approx(2 / 3)
    assert not SearchGrader().decide(components).accepted
    assert SearchGrader(SearchSettings(query_similarity=0.66)).decide(components).accepted


def test_an_answer_in_a_message_is_compared_and_other_spellings_of_the_row_count() -> None:
    grader = SearchGrader()
    expert = Message(Role.ASSISTANT, "It is on the river.\n\n**Answer:** Paris")
    candidate = Candidate((), (), expert, "t", 0, "search", metadata={"answers": ["City of Light"]})
    for said, reason in [
        ("Final answer: paris.", "accepted"),
        ("I found it. <answer>The City of Light</answer>", "accepted"),
        ("Final answer: Lyon", "answer_differs"),
        ("It is Paris or Lyon.", "answer_differs"),  # in other words: for a judge
        ("<think>Paris</think>", "no_answer"),
    ]:
        assert grader.decide(grader.grade(candidate, Action(said))).reason == reason
    assert grader.decide(grader.grade(candidate, Action(tool_calls=calls(search("x"))))).reason == "message_expected"
    assert grader.decide(grader.grade(candidate, Action(error="no JSON"))).reason == "malformed"


def test_a_tool_that_the_row_does_not_offer_cannot_take_the_experts_place() -> None:
    tools = (Tool("search"), Tool("open_url", "", {"type": "object", "required": ["url", "why"]}))
    candidate = Candidate((), tools, Message(Role.ASSISTANT, tool_calls=calls(search("rivers"))), "t", 0, "search")
    grader = SearchGrader()
    assert grader.decide(grader.grade(candidate, Action(tool_calls=calls(search("river"))))).accepted
    other = grader.grade(candidate, Action(tool_calls=calls(("web_search", {"query": "rivers"}))))
    assert grader.decide(other).reason == "name_differs"
    opened = Candidate((), tools, Message(Role.ASSISTANT, tool_calls=calls(visit("https://a.com"))), "t", 0, "search")
    again = grader.grade(opened, Action(tool_calls=calls(visit("http://a.com"))))
    assert again["difference"] == "missing: why"


@pytest.mark.parametrize(
    ("first", "second", "shared", "says"),
    [
        ("rivers of Europe", "Europe's river", 1.0, True),
        ("river length", "river", 0.5, True),
        ("river length", "river depth", 1 / 3, False),
        ("", "river", 0.0, False),
        ("physics news", "physic new", 0.0, False),
    ],
)
def test_similarity_of_queries(first: str, second: str, shared: float, says: bool) -> None:
    one, two = read_query(first), read_query(second)
    assert query_similarity(one, two) == query_similarity(two, one) == (pytest.approx(shared), says)


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("HTTPS://Example.COM", "//example.com"),
        ("http://example.com:8080/", "//example.com:8080"),
        ("https://example.com:80/", "//example.com:80"),  # not the port that https has anyway
        ("http://example.com/a/./b/../c/", "//example.com/a/c"),
        ("http://example.com/%7Euser/%2f%e4", "//example.com/~user/%2F%E4"),
        ("http://example.com/?b=1&a=2&a=1&fbclid=x&UTM_campaign=y", "//example.com?a=2&a=1&b=1"),
        ("http://example.com/#!/page", "//example.com#!/page"),
        ("http://example.com./x", "//example.com/x"),
        ("https://faß.de/", "//xn--fa-hia.de"),  # IDNA 2008; the older rule would make it fass.de
        ("http://192.168.0.1/x", "//192.168.0.1/x"),
        ("http://under_score.example.com/", "//under_score.example.com"),
        ("ftp://example.com:21/x", "ftp://example.com/x"),
        ("www.example.com/x", "//example.com/x"),
        ("http://www.com/x", "//www.com/x"),
        ("http://[::1", None),
        ("http://?a=1", None),
        ("http://a.b:99999/", None),
        ("no url", None),
        ("", None),
    ],
)
def test_urls_have_one_form(url: str, plain: str | None) -> None:
    assert plain_url(url) == plain


def test_names_of_documents_are_no_urls() -> None:
    assert same_page("Doc.One", "Doc.One")
    assert not same_page("Doc.One", "doc.one")
    assert same_page("example.com/a", "https://example.com/a/")
    assert not same_page("", "https://example.com")


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("1,000", "1e3", True),
        ("3.50", "3.5", True),
        ("three", "3", True),
        ("2.5 billion euros", "€2,500,000,000", True),
        ("50 percent", "50%", True),
        ("May 12, 2020", "2020-05-12", True),
        ("May 12", "2020-05-12", False),
        ("12345678901234567890123456789", "12345678901234567890123456780", False),
        ("O'Brien", "o’brien", True),
        ("from 3 to 5", "from 5 to 3", False),
        ("not guilty", "guilty", False),
        ("-0", "0", True),
        ("", "x", False),
        ("x" * 30_000 + "a", "x" * 30_000 + "b", False),
        ("C++", "C", False),
        ("C++", "C#", False),
        ("AB+", "AB-", False),
        ("> 5", "< 5", False),
        ("2^10", "2*10", False),
        ("1/2", "1-2", False),
        ("10\u00b2", "102", False),
        ("10\u00b2", "10^2", True),
        ("CO\u2082", "CO2", True),
        ("12 km\u00b2", "12 km2", True),
        ("\u0926\u093f\u0928", "\u0926\u093e\u0928", False),
        ("3 \u00d7 4", "3*4", True),
    ],
)
def test_answers_by_words_and_values(first: str, second: str, same: bool) -> None:
    assert same_answer(first, second) is same_answer(second, first) is same


HEIGHT = "How many metres high is Mount Arn?"
WINNER = "Who won, Ann or Bob, and by how many points?"
YEAR = "In which year did Ann Lee found the Arn Mill?"


@pytest.mark.parametrize(
    ("question", "expected", "actual", "same"),
    [
        (HEIGHT, "1,084", "Mount Arn is 1084 metres high.", True),
        (HEIGHT, "1,084", "1.084 km", True),
        (HEIGHT, "1,084", "1,084 feet", False),
        (HEIGHT, "1,084", "over 1,084 metres", False),
        (HEIGHT, "1,084 feet", "1,084", False),  # without a unit it has the one that is asked for
        ("How long in millimetres is it?", "8.0", "0.8 cm", True),
        (YEAR, "1885", "It was founded in 1885", False),  # `founded` is no word of the question: no stems here
        (YEAR, "1885", "Ann Lee did found the Arn Mill in 1885.", True),
        (YEAR, "1885", "the year 1885 AD", True),
        (YEAR, "1885", "by 1885", False),
        (YEAR, "1885", "1885 BC", False),
        ("Which is longer, the Rhine or the Elbe?", "Rhine", "The Elbe is longer than the Rhine", False),
        ("Did Ann or Bob win, and when?", "Ann in 1990", "Bob in 1990", False),
        ("Did Ann or Bob win, and when?", "Ann, 1990", "Ann won in 1990", False),
        (WINNER, "Bob won by 5 points", "Ann and Bob won by 5 points", False),
        (WINNER, "Bob, by 5 points", "5", False),
        (WINNER, "Bob, by 5 points", "Bob won by 5 points.", True),
        ("When?", "12 May 2020", "It was on May 12th, 2020.", True),
        ("When?", "12 May 2020", "It was on May 13th, 2020.", False),
        ("How much?", "48.8 million dollars", "US$48.8M", True),
        ("How much?", "48.8 million dollars", "USD 48.8 million", True),
        ("How much?", "48.8 million dollars", "-$48.8 million", False),
        ("How much?", "48.8 million dollars", "$48.8 billion", False),
        ("How many?", "6,610", "6\u202f610", True),
        ("What do they sell?", "lace, bells and cider", "- Cider\n- Lace\n- Bells", True),
        ("What do they sell?", "lace, bells and cider", "lace, bells or cider", False),
        ("What do they sell?", "lace, bells and cider", "lace, bells and bells", False),
        ("In which order?", "lace, bells and cider", "bells, cider and lace", False),
        ("Where?", "Paris, Texas", "Texas, Paris", False),
        ("Who?", "Ann Lee", "**Ann Lee**", True),
        ("Who?", "Ann Lee", "not Ann Lee", False),
        ("Who?", "Ann Lee", "Was it Ann Lee?", False),
        ("Which play?", "Who is afraid?", "Who is afraid", True),
        ("Compute.", "3*4*5", "345", False),
    ],
)
def test_answers_to_a_question(question: str, expected: str, actual: str, same: bool) -> None:
    assert same_answer(expected, actual, question) is same_answer(actual, expected, question) is same


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so <answer>42</answer>", "42"),
        ("Answer: 1\nno, exact answer: 2", "1"),  # not at the beginning of a line
        ("Answer: 1\nFinal answer: 2\n", "2"),
        ("thus \\boxed{7}.", "7"),
        ("**Answer:** Paris", "Paris"),
        ("My answers: many", "My answers: many"),
    ],
)
def test_the_last_mark_says_which_part_is_the_answer(text: str, answer: str) -> None:
    assert marked_answer(text) == answer


PAGES = {
    "rhine.txt": "The Rhine is a river in Europe. It flows through Basel and Cologne.",
    "danube.md": "The Danube is a river in Europe. It flows through Vienna and Budapest.",
    "nile.html": "<html><style>river {}</style><p>The Nile is a river in Africa.</p></html>",
    "bread.txt": "Bread is made of flour, water and yeast.",
    "cake.txt": "A cake is made of flour, eggs and sugar.",
}


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text)
    (folder / "more.jsonl").write_text('{"id": "amazon", "title": "Amazon", "text": "A river in Brazil."}\n\n')
    return folder


def test_queries_that_find_the_same_pages_are_the_same(pages: Path) -> None:
    grader = SearchGrader(SearchSettings(index=str(pages), results=2))
    same = decide((search("Rhine Cologne Danube Vienna"),), (search("streams through Basel and Budapest"),), grader)
    assert (same.accepted, same.reason) == (True, "same_results")
    assert not decide((search("Rhine Danube"),), (search("flour"),), grader).accepted
    assert not decide((search("qwertz"),), (search("asdfgh"),), grader).accepted  # neither finds anything
    assert not decide((search("Rhine Danube"),), (search("Basel Budapest", language="fr"),), grader).accepted
    assert grader.version != SearchGrader(SearchSettings(results=2)).version


def test_the_index_ranks_by_bm25_and_its_digest_follows_its_documents(pages: Path) -> None:
    index = DocumentIndex(pages)
    assert index.search("river in Africa", 1) == ("nile.html",)
    assert index.search("rivers", 9) == index.search('"river" AND (', 9)  # a query has no syntax here
    assert set(index.search("river", 9)) == {"rhine.txt", "danube.md", "nile.html", "more.jsonl#amazon"}
    assert index.search("  !?", 3) == ()
    assert DocumentIndex(pages).digest == index.digest
    (pages / "bread.txt").write_text("Bread.")
    assert DocumentIndex(pages).digest != index.digest


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        ("ab", "ab", 1.0),
        ("ab", "bc", 1 / 6),  # (0 + 0.5 x 1/2) / 1.5
        ("ab", "ba", 1 / 3),  # (0 + 0.5 x 1) / 1.5: another page comes first
        ("abcde", "axyzv", 1.37708 / 1.9375),  # 1 + 1/4 + 1/12 + 1/32 + 1/80: the first page alone
        ("abcde", "abxyz", 1.75417 / 1.9375),  # 1 + 1/2 + 1/6 + 1/16 + 1/40: the first two
        ("a", "abc", (1 + 0.25 + 0.25 / 3) / 1.75),
        ("", "a", 0.0),
        ("", "", 0.0),
    ],
)
def test_results_agree_by_what_comes_first(first: str, second: str, overlap: float) -> None:
    assert result_overlap(first, second) == result_overlap(second, first) == pytest.approx(overlap, abs=1e-3)


def test_a_row_names_its_own_index_below_the_folder_of_rows(pages: Path) -> None:
    one, two = search("Rhine Cologne Danube Vienna"), search("streams through Basel and Budapest")
    grader = SearchGrader(SearchSettings(results=2), pages.parent)
    assert decide((one,), (two,), grader, index="pages").reason == "same_results"
    assert not decide((one,), (two,), grader).accepted
    assert not decide((one,), (two,), SearchGrader(SearchSettings(results=2)), index="pages").accepted
    with pytest.raises(DataError, match="below"):
        decide((one,), (two,), grader, index="../pages")


def test_several_queries_find_the_same_only_where_each_does(pages: Path) -> None:
    grader = SearchGrader(SearchSettings(index=str(pages), results=2))
    asked = ["Rhine Cologne Danube Vienna", "flour water yeast"]
    expected = ("search", {"queries": asked})
    assert decide(
        (expected,), (("search", {"queries": ["streams through Basel and Budapest", asked[1]]}),), grader
    ).accepted
    for other in (asked[:1], ["streams through Basel and Budapest"], [asked[0], "Africa"], [*asked, *["Africa"] * 9]):
        assert not decide((expected,), (("search", {"queries": other}),), grader).accepted
        assert not decide((("search", {"queries": other}),), (expected,), grader).accepted


def test_an_index_without_operators_says_nothing_of_them(pages: Path) -> None:
    grader = SearchGrader(SearchSettings(index=str(pages), results=2))
    for other in ("Rhine Danube -Vienna", "Rhine Danube site:a.com", "Rhine++ Danube"):
        assert not decide((search("Rhine Danube"),), (search(other),), grader).accepted


def test_an_index_that_cannot_be_built_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        DocumentIndex(tmp_path / "missing")
    with pytest.raises(DataError, match="no document"):
        DocumentIndex(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"title": "b"}\n')
    with pytest.raises(DataError, match="line 2"):
        DocumentIndex(tmp_path)

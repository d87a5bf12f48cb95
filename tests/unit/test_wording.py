"""Free texts by what they say: which differences of words are none, and which single word makes another text."""

from __future__ import annotations

import pytest

from pivotrl_core.types import Json
from pivotrl_core.verifiers.similarity import free_text_similarity, string_similarity
from pivotrl_core.verifiers.wording import Sort, sense, sort_of

ACCEPTED = 0.8  # the default of verifier.text_threshold

SAME = [
    ("Put the crates into the cellar, please.", "Please put crates into the cellar"),
    ("We can't deliver on Sundays this year", "We cannot deliver on Sundays this year"),
    ("Meet at the station on 4 July, gate 2", "Meet at the station on July 4th, gate 2"),
    ("She has paid $15 for the blue tickets", "She paid 15 dollars for the blue tickets."),
    ("It's the customer\u2019s second call this week", "It is the customer's second call this week"),
    ("No one organised the shelves in May", "Nobody organized the shelves in May"),
    ("Boxes go to the lift, bags to the stairs", "box goes to the lift; bag to the stairs!"),
    ("We wait for our parcel at the depot", "I wait for my parcel at the depot"),
    ("Add 20% to the price of each item", "Add 20 percent to the price of each item"),
    ("Once upon a time in the old West", "Once Upon A Time in the Old West"),
    ("Mark the **urgent** ones by 2026/05/12 please", "Mark the urgent ones by 2026-05-12 please"),
]
OTHER = [
    ("Call the driver before the lorry leaves", "Call the driver after the lorry leaves"),
    ("You must switch the heating off at night", "You must switch the heating on at night"),
    ("Send it to his office in the old town", "Send it to her office in the old town"),
    ("Put the keys in the box near the door", "Put the keys on the box near the door"),
    ("Move the funds from savings to checking", "Move the funds to savings from checking"),
    ("Tell Ruth that Omar has the spare keys", "Tell Omar that Ruth has the spare keys"),
    ("They will accept dogs in the garden", "They will never accept dogs in the garden"),
    ("Order the grey sofa for the living room", "Order the green sofa for the living room"),
    ("The first delivery failed because nobody answered", "The last delivery failed because nobody answered"),
    ("Book two rooms with three beds each", "Book three rooms with two beds each"),
    ("Ask for tea and coffee at the counter", "Ask for tea or coffee at the counter"),
    ("Tell him that I saw her yesterday evening", "Tell her that I saw him yesterday evening"),
    ("Send an invoice to Anna for Ben by tomorrow", "Send an invoice for Anna to Ben by tomorrow"),
    ("Give my regards to your wife and kids", "Give your regards to my wife and kids"),
    ("Move 3 boxes from A to B today", "Move 3 boxes from B to A today"),
    ("Assign the ticket to group A today please", "Assign the ticket to group today please"),
    ("The order was delivered to the depot", "The order will be delivered to the depot"),
    ("Alert me when the temperature is >30 degrees", "Alert me when the temperature is <30 degrees"),
    ("Patient with blood type A+ needs two units", "Patient with blood type A- needs two units"),
    ("Find open jobs for C++ developers in Berlin", "Find open jobs for C# developers in Berlin"),
    ("Find open jobs for C++ developers in Berlin", "Find open jobs for C developers in Berlin"),
    ("React with \U0001f44d to the last message", "React with \U0001f44e to the last message"),
    ("Set the ratio to 1/2 for all users", "Set the ratio to 1-2 for all users"),
    ("Remind me \u0926\u093f\u0928 in the next week", "Remind me \u0926\u093e\u0928 in the next week"),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_small_words_spellings_and_signs_make_no_other_text(first: str, second: str) -> None:
    assert free_text_similarity(first, second) >= ACCEPTED
    assert free_text_similarity(second, first) == free_text_similarity(first, second)


@pytest.mark.parametrize(("first", "second"), OTHER)
def test_a_word_that_matters_makes_another_text_however_long_it_is(first: str, second: str) -> None:
    around = "The depot has been told of all this and will see to it in the course of the following days."
    for one, two in ((first, second), (f"{first}. {around}", f"{second}. {around}")):
        assert free_text_similarity(one, two) <= 0.5
        assert free_text_similarity(two, one) == free_text_similarity(one, two)


def test_a_remark_in_a_long_text_is_none_unless_it_is_a_name_or_turns_what_is_said() -> None:
    text = "the courier rang twice, waited ten minutes, phoned the office and took the heavy parcel back to the depot"
    assert sense(text, text.replace("parcel", "brown parcel")) is None
    assert free_text_similarity(text, text.replace("parcel", "brown parcel")) >= ACCEPTED
    for changed in (text.replace("took", "never took"), text.replace("the office", "the office of Anna")):
        assert free_text_similarity(text, changed) <= 0.5
    assert sense("the heavy parcel is back", "the heavy brown parcel is back") is False


QUERY = "SELECT name FROM staff WHERE age >= 40 AND town = 'Ghent'"
COMMAND = "tar -xzf archive.tgz -C target"


def test_queries_are_compared_by_their_signs_and_commands_to_the_letter() -> None:
    assert (sort_of(QUERY), sort_of(COMMAND)) == (Sort.QUERY, Sort.TECHNICAL)
    assert sort_of("Please select a gift from the shop (any colour) - it's for Mum") is Sort.PROSE
    assert free_text_similarity(QUERY, "select name\n  from staff\n where age>=40 and town='Ghent';") >= ACCEPTED
    for changed in (QUERY.replace(">=", ">"), QUERY.replace("'Ghent'", "'ghent'"), QUERY.replace("AND", "OR")):
        assert free_text_similarity(QUERY, changed) <= 0.5
    assert free_text_similarity(COMMAND, "tar -xzf  archive.tgz -C target") >= ACCEPTED
    assert free_text_similarity(COMMAND, COMMAND.replace("-C", "-c")) <= 0.5
    assert string_similarity("ls -R src", "ls -r src", {}) == 0.0
    assert free_text_similarity("if a:\n    b()\nc()", "if a:\n    b()\n    c()") <= 0.5


SUM: dict[str, Json] = {"type": "string", "description": "A mathematical expression to evaluate."}


@pytest.mark.parametrize(
    ("first", "second", "schema", "score"),
    [
        ("(3 + 4) * 2", "(3+4)*2", {}, 1), ("(3 + 4) * 2", "2 * (3 + 4)", {}, 0),
        ("(3 + 4) * 2", "2 * (3 + 4)", SUM, 1), ("(3 + 4) * 2", "3 + 4 * 2", SUM, 0),
        ("12 - 5 - 1 + 3", "12 - 5 + 1 + 3", SUM, 0), ("2^3 + 1", "9 * 1", SUM, 1),
        ("8 \u00f7 2 - 1", "8 / 2 \u2212 1", {}, 1), ("1 2 + 3", "12 + 3", SUM, 0), ("1 / 0 + 2", "1 / 0 + 3", SUM, 0),
        ("9 ** 9 ** 9", "9 ** 9 ** 8", SUM, 0), ("10-20", "20-30", {}, 0),
        ("3\u00b2 + 4\u00b2", "32 + 42", {}, 0), ("3\u00b2 + 4\u00b2", "3^2 + 4^2", {}, 1),
        ("1.6*10^-19*3", "1.6*10^-19*4", SUM, 0), ("6.6*10^-34", "0*1", SUM, 0), ("5 - 5", "0*1", SUM, 1),
    ],
)  # fmt: skip
def test_arithmetic_is_the_same_by_its_signs_and_by_value_where_the_schema_says_so(
    first: str, second: str, schema: dict[str, Json], score: float
) -> None:
    assert string_similarity(first, second, schema) == score


@pytest.mark.parametrize(
    ("first", "second", "schema", "score"),
    [
        ("https://Shop.example:443/a", "https://shop.example/a", {"format": "uri"}, 1),
        ("http://shop.example", "HTTP://shop.example/", {"format": "uri"}, 1),
        ("https://shop.example/A", "https://shop.example/a", {"format": "uri"}, 0),
        ("http://shop.example/", "https://shop.example/", {"format": "uri"}, 0),
        ("https://shop.example:8443/", "https://shop.example/", {"format": "uri"}, 0),
        ("http://[bad", "http://[worse", {"format": "uri"}, 0),
        ("O'Hara", "O\u2019Hara", {}, 1), ("O'Hara", "O\u2019Hara", {"enum": ["O'Hara"]}, 0),
        ("4 Long Lane", "4 Long Lane.", {}, 1), ("4 Long Lane", "4 Long, Lane", {}, 1),
        ("2 June 2026", "June 2nd, 2026", {}, 1), ("2 June 2026", "3 June 2026", {}, 0),
    ],
)  # fmt: skip
def test_urls_names_and_days_without_a_format(first: str, second: str, schema: dict[str, Json], score: float) -> None:
    assert string_similarity(first, second, schema) == score

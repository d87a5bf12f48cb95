"""Tools of many kinds, values for their arguments, and by which rules calls of them stay the same or become others.

Each tool says with its schema what may differ: formats, defaults, lists without order. What is `valid` follows from the
schema, and what is `wrong` too; where a schema is silent, no pair is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pivotrl_core.types import Json, Tool
from tests.labelled.making import tool_rules as r
from tests.labelled.making.tool_rules import Arguments, Rule

TEXT: dict[str, Json] = {"type": "string"}
NUMBER: dict[str, Json] = {"type": "number"}
WHOLE: dict[str, Json] = {"type": "integer"}
DAY: dict[str, Json] = {"type": "string", "format": "date"}
INSTANT: dict[str, Json] = {"type": "string", "format": "date-time"}
TIME: dict[str, Json] = {"type": "string", "format": "time"}
SET_OF_TEXTS: dict[str, Json] = {"type": "array", "items": TEXT, "uniqueItems": True}

Rules = Sequence[tuple[str, Rule]]


@dataclass(frozen=True)
class Family:
    """A tool, what is asked of it, several calls of the expert's, and rules by kind."""

    tool: Tool
    request: str
    calls: Sequence[Arguments]
    valid: Rules
    wrong: Rules


def _tool(name: str, about: str, required: str, properties: dict[str, Json], **more: Json) -> Tool:
    schema = {"type": "object", "properties": properties, "required": required.split(), **more}
    return Tool(name, about, schema)


def _enum(*values: str, **more: Json) -> dict[str, Json]:
    return {"type": "string", "enum": list(values), **more}


def _default(schema: dict[str, Json], value: Json) -> dict[str, Json]:
    return {**schema, "default": value}


FAMILIES: tuple[Family, ...] = (
    Family(
        _tool(
            "book_train",
            "Book a train journey.",
            "from to date",
            {
                "from": TEXT,
                "to": TEXT,
                "date": DAY,
                "class": _enum("first", "second", default="second"),
                "bicycles": _default(WHOLE, 0),
                "seats": SET_OF_TEXTS,
                "discount": _default(NUMBER, 0),
            },
        ),
        "A train from {from} to {to} on {date}, please.",
        (
            {"from": "Leipzig", "to": "Ghent", "date": "2026-05-02", "class": "first", "seats": ["12A", "12B"]},
            {"from": "New Haven", "to": "Bay Ridge", "date": "2026-11-07", "bicycles": 2},
            {"from": "Köln", "to": "Zürich", "date": "2026-08-12", "class": "second", "seats": ["3C", "4C", "5C"]},
            {"from": "Oslo", "to": "Malmö", "date": "2027-01-09", "discount": 25, "class": "first"},
        ),
        (
            ("order_of_keys", r.order_of_keys),
            ("date_in_words", r.put("date", r.day_in_words)),
            ("date_day_first", r.put("date", r.day_first)),
            ("default_given", r.give("bicycles", 0)),
            ("default_left_out", r.leave_out("class", "second")),
            ("list_without_order", r.put("seats", r.reversed_list)),
            ("whole_number", r.put("discount", r.whole)),
            ("unicode_escapes", r.unicode_escapes),
            ("names_in_other_case", r.put("from", lambda one: one.lower() if " " in one else one)),
            ("date_with_slashes", r.put("date", r.short_day)),
        ),
        (
            ("swapped_arguments", r.swap("from", "to")),
            ("next_day", r.put("date", r.next_day)),
            ("other_month", r.put("date", r.other_month)),
            ("other_choice", r.leave_out("class", "first")),
            ("not_the_default", r.give("bicycles", 1)),
            ("shorter_list", r.put("seats", r.without_last)),
            ("other_year", r.put("date", r.other_year)),
            ("unknown_argument", r.rename("date", "day")),
            ("one_character_in_list", r.put("seats.0", r.one_character)),
            ("name_run_together", r.put("to", lambda one: one.replace(" ", ""))),
        ),
    ),
    Family(
        _tool(
            "create_event",
            "Put a meeting into the calendar.",
            "title start end",
            {
                "title": TEXT,
                "start": INSTANT,
                "end": INSTANT,
                "location": {"type": ["string", "null"]},
                "attendees": {"type": "array", "items": {"type": "string", "format": "email"}, "uniqueItems": True},
                "reminder_minutes": _default(WHOLE, 10),
                "repeat": {
                    "type": "object",
                    "properties": {
                        "every": _enum("day", "week", "month"),
                        "interval": _default(WHOLE, 1),
                    },
                    "required": ["every"],
                },
            },
        ),
        "Please enter {title}, from {start} to {end}.",
        (
            {
                "title": "Budget review",
                "start": "2026-06-03T14:00:00+02:00",
                "end": "2026-06-03T15:00:00+02:00",
                "attendees": ["ana@firm.example", "Bo@firm.example"],
                "repeat": {"every": "week"},
            },
            {
                "title": "Call with Dana",
                "start": "2026-02-10T09:30:00+00:00",
                "end": "2026-02-10T10:00:00+00:00",
                "reminder_minutes": 10,
            },
            {
                "title": "Team lunch",
                "start": "2026-09-21T12:00:00-04:00",
                "end": "2026-09-21T13:30:00-04:00",
                "location": None,
                "repeat": {"every": "month", "interval": 1},
            },
            {
                "title": "Fire drill",
                "start": "2026-03-30T16:15:00+09:00",
                "end": "2026-03-30T16:45:00+09:00",
                "attendees": ["kim@site.example", "lee@site.example", "max@site.example"],
                "reminder_minutes": 30,
            },
        ),
        (
            ("instant_in_utc", r.put("start", r.in_utc)),
            ("list_without_order", r.put("attendees", r.reversed_list)),
            ("default_left_out", r.leave_out("reminder_minutes", 10)),
            ("default_given", r.give("reminder_minutes", 10)),
            ("nested_default_given", r.put("repeat", lambda one: {**one, "interval": 1})),
            ("nested_default_left_out", r.put("repeat", lambda one: {"every": one["every"]})),
            ("null_left_out", r.null_left_out("location")),
            ("null_given", r.give("location", None)),
            ("email_in_other_case", r.put("attendees.0", str.upper)),
            ("instant_in_minutes", r.put("end", r.in_minutes)),
            ("whole_number", r.put("reminder_minutes", r.whole)),
        ),
        (
            ("other_zone", r.put("start", r.other_zone)),
            ("hour_later", r.put("end", r.later)),
            ("next_day", r.put("start", r.next_day)),
            ("swapped_arguments", r.swap("start", "end")),
            ("nested_not_the_default", r.put("repeat", lambda one: {**one, "interval": 2})),
            ("nested_other_choice", r.put("repeat.every", lambda one: "day" if one != "day" else "week")),
            ("shorter_list", r.put("attendees", r.without_last)),
            ("not_the_default", r.put("reminder_minutes", lambda one: 15)),
            (
                "one_character_in_list",
                r.put("attendees.0", lambda one: r.one_character(one.split("@")[0]) + "@firm.example"),
            ),
            ("number_as_text", r.put("reminder_minutes", r.as_text)),
            ("left_out", r.leave_out("attendees")),
            (
                "other_word",
                r.put(
                    "title",
                    lambda one: (
                        one.replace("lunch", "launch")
                        .replace("Dana", "Dan")
                        .replace("review", "preview")
                        .replace("Fire", "Tire")
                    ),
                ),
            ),
        ),
    ),
    Family(
        _tool(
            "transfer_money",
            "Move money between accounts.",
            "source target amount",
            {
                "source": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{6}$"},
                "target": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{6}$"},
                "amount": NUMBER,
                "currency": _enum("EUR", "USD", "CHF", default="EUR"),
                "urgent": _default({"type": "boolean"}, False),
                "day": DAY,
            },
            additionalProperties=False,
        ),
        "Please send {amount} from {source} to {target}.",
        (
            {"source": "DE104477", "target": "BE220913", "amount": 250, "currency": "EUR"},
            {"source": "FR889012", "target": "NL560031", "amount": 19.9, "urgent": True},
            {"source": "AT300512", "target": "CH771204", "amount": 1200.0, "currency": "CHF", "day": "2026-12-01"},
            {"source": "ES645510", "target": "PT118823", "amount": 75.25, "urgent": False, "day": "2026-07-04"},
        ),
        (
            ("whole_number", r.put("amount", r.whole)),
            ("default_left_out", r.leave_out("currency", "EUR")),
            ("default_given", r.give("urgent", False)),
            ("order_of_keys", r.order_of_keys),
            ("date_in_words", r.put("day", r.day_in_words)),
            ("spaces", r.spaces),
            ("outer_space", r.put("target", lambda one: f"{one} ")),
            ("trailing_zero", r.trailing_zero("amount")),
        ),
        (
            ("one_character_of_an_id", r.put("target", r.one_character)),
            ("swapped_arguments", r.swap("source", "target")),
            ("digits_exchanged", r.put("source", r.digits_exchanged)),
            ("other_choice", r.put("currency", lambda one: "USD")),
            ("number_times_ten", r.put("amount", lambda one: one * 10)),
            ("number_as_text", r.put("amount", r.as_text)),
            ("sign", r.put("amount", lambda one: -one)),
            ("rounded", r.put("amount", lambda one: round(one + 0.01))),
            ("case_of_an_id", r.put("target", str.lower)),
            ("not_the_default", r.give("urgent", True)),
            ("opposite_flag", r.put("urgent", lambda one: not one)),
        ),
    ),
    Family(
        _tool(
            "set_thermostat",
            "Set the heating of a room.",
            "room celsius",
            {
                "room": {**TEXT, "x-ignore-case": True},
                "celsius": NUMBER,
                "mode": _enum("heat", "cool", "auto", default="auto"),
                "until": TIME,
                "fan": _default(WHOLE, 1),
            },
        ),
        "Set {room} to {celsius} degrees.",
        (
            {"room": "kitchen", "celsius": 20.5, "until": "22:00"},
            {"room": "Bath", "celsius": 24, "mode": "heat"},
            {"room": "office", "celsius": 18, "mode": "auto", "until": "17:30", "fan": 1},
            {"room": "Nursery", "celsius": 21.0, "until": "06:45:00", "mode": "cool"},
        ),
        (
            ("case_that_the_schema_ignores", r.put("room", str.upper)),
            ("whole_number", r.put("celsius", r.whole)),
            ("time_with_seconds", r.put("until", r.with_seconds)),
            ("default_left_out", r.leave_out("mode", "auto")),
            ("default_given", r.give("fan", 1)),
            ("default_left_out", r.leave_out("fan", 1)),
            ("time_in_minutes", r.put("until", lambda one: one.removesuffix(":00") if one.count(":") == 2 else one)),
            ("whole_number", r.put("fan", r.whole)),
        ),
        (
            ("half_a_day_off", r.put("until", r.half_a_day_off)),
            ("true_for_one", r.put("fan", r.truth)),
            ("not_the_default", r.give("fan", 2)),
            ("other_choice", r.leave_out("mode", "heat")),
            ("number_a_little_off", r.put("celsius", lambda one: one + 0.5)),
            ("number_as_text", r.put("celsius", r.as_text)),
            ("other_room", r.put("room", lambda one: f"{one} 2")),
            ("unknown_argument", r.rename("celsius", "fahrenheit")),
            ("other_choice", r.put("mode", lambda one: "heat" if one != "heat" else "cool")),
        ),
    ),
    Family(
        _tool(
            "search_products",
            "Find products of the shop.",
            "query",
            {
                "query": TEXT,
                "sort": _enum("relevance", "price_up", "price_down", default="relevance"),
                "page": _default(WHOLE, 1),
                "filters": {
                    "type": "object",
                    "properties": {
                        "min_price": NUMBER,
                        "max_price": NUMBER,
                        "in_stock": _default({"type": "boolean"}, True),
                        "tags": {"type": "array", "items": TEXT, "x-unordered": True},
                    },
                },
            },
        ),
        "Show me {query}.",
        (
            {"query": "oak desk", "filters": {"max_price": 300, "tags": ["wood", "office"]}},
            {
                "query": "Rain Jacket",
                "sort": "price_up",
                "filters": {"min_price": 40, "max_price": 90, "in_stock": True},
            },
            {"query": "silk scarf", "page": 1, "filters": {"tags": ["silk", "gift", "red"], "in_stock": False}},
            {"query": "steel kettle", "sort": "relevance", "filters": {"min_price": 25.0}},
        ),
        (
            ("names_in_other_case", r.put("query", str.title)),
            ("default_given", r.give("page", 1)),
            ("default_left_out", r.leave_out("sort", "relevance")),
            ("whole_number", r.put("filters.max_price", r.whole)),
            ("list_without_order", r.put("filters.tags", r.reversed_list)),
            (
                "nested_default_given",
                r.put("filters", lambda one: {**one, "in_stock": True} if "in_stock" not in one else one),
            ),
            ("nested_default_left_out", r.put("filters", lambda one: {k: v for k, v in one.items() if v is not True})),
            ("order_of_keys", r.order_of_keys),
            ("whole_number", r.put("filters.min_price", r.whole)),
        ),
        (
            (
                "swapped_in_object",
                r.put(
                    "filters",
                    lambda one: (
                        {
                            **{k: v for k, v in one.items() if k != "max_price"},
                            "min_price": one["max_price"],
                        }
                        if "max_price" in one and "min_price" not in one
                        else one
                    ),
                ),
            ),
            ("number_times_ten", r.put("filters.max_price", lambda one: one * 10)),
            ("opposite_flag", r.put("filters.in_stock", lambda one: not one)),
            (
                "nested_not_the_default",
                r.put("filters", lambda one: {**one, "in_stock": False} if "in_stock" not in one else one),
            ),
            ("other_choice", r.put("sort", lambda one: "price_down")),
            ("shorter_list", r.put("filters.tags", r.without_last)),
            (
                "other_word",
                r.put(
                    "query",
                    lambda one: (
                        one.replace("oak", "oat")
                        .replace("Rain", "Train")
                        .replace("silk", "milk")
                        .replace("kettle", "settle")
                    ),
                ),
            ),
            ("not_the_default", r.give("page", 2)),
            ("left_out", r.leave_out("filters")),
            ("surplus_in_list", r.put("filters.tags", lambda one: [*one, "sale"])),
        ),
    ),
    Family(
        _tool(
            "plan_route",
            "Plan a route through several stops.",
            "stops",
            {
                "stops": {"type": "array", "items": TEXT, "minItems": 2},
                "avoid": SET_OF_TEXTS,
                "depart": INSTANT,
                "mode": _enum("car", "bicycle", "foot", default="car"),
                "return_to_start": _default({"type": "boolean"}, False),
            },
        ),
        "A route along {stops}.",
        (
            {"stops": ["Bern", "Thun", "Brig"], "avoid": ["tolls", "ferries"], "depart": "2026-04-18T07:00:00+02:00"},
            {"stops": ["Lyon", "Nice"], "mode": "bicycle", "return_to_start": False},
            {"stops": ["Cork", "Tralee", "Sligo", "Derry"], "mode": "car", "avoid": ["motorways", "tolls"]},
            {"stops": ["Porto", "Braga"], "depart": "2026-10-05T18:20:00+01:00", "return_to_start": True},
        ),
        (
            ("list_without_order", r.put("avoid", r.reversed_list)),
            ("instant_in_utc", r.put("depart", r.in_utc)),
            ("default_left_out", r.leave_out("mode", "car")),
            ("default_given", r.give("return_to_start", False)),
            ("default_left_out", r.leave_out("return_to_start", False)),
            ("spaces", r.spaces),
            ("default_given", r.give("mode", "car")),
        ),
        (
            ("order_that_counts", r.put("stops", r.reversed_list)),
            ("shorter_list", r.put("stops", r.without_last)),
            ("surplus_in_list", r.put("stops", lambda one: [*one, one[0]])),
            ("two_stops_exchanged", r.put("stops", lambda one: [*one[:-2], one[-1], one[-2]] if len(one) > 2 else one)),
            ("opposite_flag", r.put("return_to_start", lambda one: not one)),
            ("other_zone", r.put("depart", r.other_zone)),
            ("other_choice", r.put("mode", lambda one: "foot")),
            ("shorter_list", r.put("avoid", r.without_last)),
            ("list_as_text", r.put("stops", ", ".join)),
            ("not_the_default", r.give("return_to_start", True)),
        ),
    ),
    Family(
        _tool(
            "update_contact",
            "Change what is known of a contact.",
            "contact_id",
            {
                "contact_id": {"type": "string", "format": "uuid"},
                "email": {"type": "string", "format": "email"},
                "birthday": DAY,
                "name": TEXT,
                "website": {"type": "string", "format": "uri"},
                "phones": {"type": "array", "items": TEXT},
                "vip": _default({"type": "boolean"}, False),
            },
            additionalProperties=False,
        ),
        "Please update the entry of {name}.",
        (
            {
                "contact_id": "6f1c2d9a-0b7e-4c55-9d3e-2a1f00b4c7d8",
                "name": "Grace O'Neil",
                "email": "grace@home.example",
            },
            {"contact_id": "b3a9e1f0-77c2-4d18-8e60-95d1c4f2a3b7", "name": "Ivo Matić", "birthday": "1984-03-09"},
            {
                "contact_id": "0d4e8b12-5a6f-4e3c-b1d7-c8f9a0e2d346",
                "name": "Lena Brandt",
                "website": "https://brandt.example/",
                "vip": False,
            },
            {
                "contact_id": "e7c5a2d4-9f31-4b08-a6e2-1d0c3b5f7a98",
                "name": "Sam Nguyễn",
                "phones": ["555-0117", "555-0171"],
            },
        ),
        (
            ("case_of_a_uuid", r.put("contact_id", str.upper)),
            ("email_in_other_case", r.put("email", str.title)),
            ("date_day_first", r.put("birthday", r.day_first)),
            ("default_given", r.give("vip", False)),
            ("unicode_escapes", r.unicode_escapes),
            ("curly_apostrophe", r.put("name", lambda one: one.replace("'", "’"))),
            ("case_of_a_host", r.put("website", lambda one: one.replace("brandt", "Brandt"))),
            ("no_final_slash_of_a_host", r.put("website", lambda one: one.rstrip("/"))),
            ("accent_apart", r.put("name", lambda one: one.replace("ć", "c\u0301"))),
            ("names_in_other_case", r.put("name", str.upper)),
            ("default_left_out", r.leave_out("vip", False)),
        ),
        (
            ("one_character_of_an_id", r.put("contact_id", r.one_character)),
            ("digits_exchanged", r.put("contact_id", r.digits_exchanged)),
            ("next_day", r.put("birthday", r.next_day)),
            (
                "other_name",
                r.put(
                    "name",
                    lambda one: (
                        one.replace("Grace", "Gracie")
                        .replace("Ivo", "Iva")
                        .replace("Lena", "Lana")
                        .replace("Sam", "Sami")
                    ),
                ),
            ),
            ("order_that_counts", r.put("phones", r.reversed_list)),
            ("opposite_flag", r.give("vip", True)),
            ("other_scheme_and_path", r.put("website", lambda one: f"{one}Index")),
            ("other_mailbox", r.put("email", r.one_character)),
            ("day_and_month_exchanged", r.put("birthday", lambda one: "1984-09-03")),
            ("null_for_a_value", r.give("birthday", None)),
        ),
    ),
    Family(
        _tool(
            "order_pizza",
            "Order a pizza.",
            "size toppings address",
            {
                "size": _enum("small", "medium", "large"),
                "toppings": {**SET_OF_TEXTS, "items": {**TEXT, "x-ignore-case": True}},
                "quantity": _default(WHOLE, 1),
                "steps": {"type": "array", "items": TEXT, "description": "In this order."},
                "address": {"$ref": "#/$defs/address"},
            },
            **{
                "$defs": {
                    "address": {
                        "type": "object",
                        "required": ["street", "city"],
                        "properties": {
                            "street": TEXT,
                            "city": {**TEXT, "x-ignore-case": True},
                            "floor": _default(WHOLE, 0),
                            "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
                        },
                    }
                }
            },
        ),
        "A {size} pizza with {toppings}.",
        (
            {
                "size": "large",
                "toppings": ["olives", "ham"],
                "address": {"street": "12 Elm Road", "city": "Lund", "zip": "00412"},
            },
            {
                "size": "small",
                "toppings": ["basil", "garlic", "chilli"],
                "quantity": 3,
                "address": {"street": "Main Street 4", "city": "Vaasa"},
            },
            {
                "size": "medium",
                "toppings": ["tuna", "onion"],
                "address": {"street": "88 Bay Road", "city": "Oslo", "floor": 2},
                "steps": ["bake", "slice", "pack"],
            },
            {
                "size": "large",
                "toppings": ["egg", "spinach"],
                "quantity": 1,
                "address": {"street": "3 Mill Lane", "city": "Bergen", "floor": 0},
            },
        ),
        (
            ("list_without_order", r.put("toppings", r.reversed_list)),
            ("default_given", r.give("quantity", 1)),
            ("case_that_the_schema_ignores", r.put("toppings.0", str.title)),
            ("default_left_out", r.leave_out("quantity", 1)),
            ("nested_default_given", r.put("address", lambda one: {**one, "floor": 0} if "floor" not in one else one)),
            ("nested_default_left_out", r.put("address", lambda one: {k: v for k, v in one.items() if v != 0})),
            ("names_in_other_case", r.put("address.street", str.lower)),
            ("order_of_keys", r.order_of_keys),
            ("case_that_the_schema_ignores", r.put("address.city", str.upper)),
            ("whole_number", r.put("quantity", r.whole)),
            ("final_full_stop", r.put("address.street", lambda one: f"{one}.")),
        ),
        (
            ("leading_zeros", r.put("address.zip", lambda one: one.lstrip("0"))),
            ("other_choice", r.put("size", lambda one: "medium" if one != "medium" else "large")),
            (
                "other_number_in_a_name",
                r.put(
                    "address.street",
                    lambda one: one.replace("12", "21").replace("4", "14").replace("88", "8").replace("3", "33"),
                ),
            ),
            ("order_that_counts", r.put("steps", r.reversed_list)),
            ("nested_not_the_default", r.put("address", lambda one: {**one, "floor": 1})),
            ("other_item", r.put("toppings", lambda one: ["capers", *one[1:]])),
            ("true_for_one", r.put("quantity", r.truth)),
            ("not_the_default", r.give("quantity", 2)),
            ("number_as_text", r.put("quantity", r.as_text)),
            ("swapped_in_object", r.put("address", lambda one: {**one, "street": one["city"], "city": one["street"]})),
        ),
    ),
    Family(
        _tool(
            "file_expense",
            "Hand in an expense.",
            "items date",
            {
                "date": DAY,
                "category": _enum("travel", "meals", "other", default="other"),
                "items": {
                    "type": "array",
                    "x-unordered": True,
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": TEXT,
                            "cost": NUMBER,
                            "billable": _default({"type": "boolean"}, False),
                        },
                    },
                },
                "approver": {"anyOf": [TEXT, {"type": "null"}]},
            },
        ),
        "Expenses of {date}.",
        (
            {
                "date": "2026-01-15",
                "items": [{"name": "taxi", "cost": 23.5}, {"name": "hotel", "cost": 140}],
                "category": "travel",
            },
            {
                "date": "2026-06-28",
                "items": [{"name": "team dinner", "cost": 212.4, "billable": True}],
                "category": "meals",
            },
            {
                "date": "2026-10-02",
                "items": [{"name": "paper", "cost": 8}, {"name": "pens", "cost": 6}],
                "category": "other",
            },
            {
                "date": "2026-03-11",
                "items": [{"name": "parking", "cost": 12.0, "billable": False}, {"name": "fuel", "cost": 61.2}],
                "approver": None,
            },
        ),
        (
            ("list_of_objects_without_order", r.put("items", r.reversed_list)),
            ("whole_number", r.put("items.0.cost", r.whole)),
            ("default_left_out", r.leave_out("category", "other")),
            ("date_in_words", r.put("date", r.day_in_words)),
            (
                "nested_default_given",
                r.put("items.0", lambda one: {**one, "billable": False} if "billable" not in one else one),
            ),
            ("nested_default_left_out", r.put("items.0", lambda one: {k: v for k, v in one.items() if v is not False})),
            ("null_given", r.give("approver", None)),
            ("spaces", r.spaces),
            ("date_with_slashes", r.put("date", r.short_day)),
            ("null_left_out", r.null_left_out("approver")),
        ),
        (
            (
                "values_exchanged_between_objects",
                r.put(
                    "items",
                    lambda one: (
                        [{**one[0], "cost": one[1]["cost"]}, {**one[1], "cost": one[0]["cost"]}]
                        if len(one) > 1
                        else one
                    ),
                ),
            ),
            ("number_a_little_off", r.put("items.0.cost", lambda one: one + 1)),
            ("shorter_list", r.put("items", r.without_last)),
            (
                "nested_not_the_default",
                r.put("items.0", lambda one: {**one, "billable": True} if not one.get("billable") else one),
            ),
            ("opposite_flag", r.put("items.0.billable", lambda one: not one)),
            ("other_choice", r.leave_out("category", "travel")),
            ("item_twice", r.put("items", lambda one: [*one, one[0]])),
            ("next_day", r.put("date", r.next_day)),
            ("other_name", r.put("items.0.name", lambda one: f"{one} tip")),
        ),
    ),
    Family(
        _tool(
            "set_alarm",
            "Set an alarm.",
            "time",
            {
                "time": TIME,
                "days": {
                    "type": "array",
                    "items": _enum("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
                    "uniqueItems": True,
                },
                "label": TEXT,
                "snooze": {
                    "type": "object",
                    "properties": {"minutes": _default(WHOLE, 9), "times": _default(WHOLE, 3)},
                },
                "volume": _default(NUMBER, 0.5),
            },
        ),
        "Wake me at {time}.",
        (
            {"time": "06:30", "days": ["mon", "wed", "fri"]},
            {"time": "07:15:00", "label": "Morning run", "volume": 0.5},
            {"time": "21:45", "snooze": {"minutes": 5}, "days": ["sat", "sun"]},
            {"time": "05:00", "snooze": {"minutes": 9, "times": 1}, "volume": 1},
        ),
        (
            ("list_without_order", r.put("days", r.reversed_list)),
            ("time_with_seconds", r.put("time", r.with_seconds)),
            ("time_in_minutes", r.put("time", lambda one: one.removesuffix(":00") if one.count(":") == 2 else one)),
            ("default_left_out", r.leave_out("volume", 0.5)),
            ("default_given", r.give("volume", 0.5)),
            ("nested_default_given", r.put("snooze", lambda one: {"times": 3, **one})),
            ("nested_default_left_out", r.put("snooze", lambda one: {k: v for k, v in one.items() if v != 9})),
            ("names_in_other_case", r.put("label", str.lower)),
            ("whole_number", r.put("volume", r.whole)),
        ),
        (
            ("half_a_day_off", r.put("time", r.half_a_day_off)),
            ("shorter_list", r.put("days", r.without_last)),
            ("surplus_in_list", r.put("days", lambda one: [*one, "tue"])),
            ("other_item", r.put("days", lambda one: ["thu", *one[1:]])),
            ("nested_not_the_default", r.put("snooze", lambda one: {**one, "times": 4})),
            ("number_as_text", r.put("volume", r.as_text)),
            ("true_for_one", r.put("snooze.times", r.truth)),
            ("other_word", r.put("label", lambda one: "Morning fun")),
            (
                "minutes_exchanged",
                r.put(
                    "time",
                    lambda one: {"06:30": "06:03", "07:15:00": "07:51:00", "21:45": "21:54", "05:00": "00:05"}[one],
                ),
            ),
            ("not_the_default", r.give("volume", 0.9)),
        ),
    ),
    Family(
        _tool(
            "convert",
            "Convert a quantity.",
            "value unit target",
            {
                "value": NUMBER,
                "unit": _enum("kg", "g", "lb", "oz"),
                "target": _enum("kg", "g", "lb", "oz"),
                "digits": _default(WHOLE, 2),
            },
        ),
        "How many {target} are {value} {unit}?",
        (
            {"value": 3, "unit": "kg", "target": "lb"},
            {"value": 0.3, "unit": "oz", "target": "g", "digits": 2},
            {"value": 1500, "unit": "g", "target": "kg", "digits": 0},
            {"value": -40.0, "unit": "lb", "target": "oz"},
        ),
        (
            ("whole_number", r.put("value", r.whole)),
            ("default_given", r.give("digits", 2)),
            ("default_left_out", r.leave_out("digits", 2)),
            (
                "rounding_error",
                lambda one: (
                    '{"value": 0.30000000000000004, "unit": "oz", "target": "g"}' if one["value"] == 0.3 else None
                ),
            ),
            (
                "exponent",
                lambda one: (
                    '{"value": 1.5e3, "unit": "g", "target": "kg", "digits": 0}' if one["value"] == 1500 else None
                ),
            ),
            ("order_of_keys", r.order_of_keys),
            ("spaces", r.spaces),
        ),
        (
            ("swapped_arguments", r.swap("unit", "target")),
            ("number_times_ten", r.put("value", lambda one: one * 10)),
            ("sign", r.put("value", lambda one: -one)),
            (
                "other_choice",
                r.put(
                    "unit", lambda one: "g" if one == "kg" else "kg" if one == "g" else "lb" if one == "oz" else "oz"
                ),
            ),
            ("number_as_text", r.put("value", r.as_text)),
            ("not_the_default", r.give("digits", 3)),
            ("case_of_a_choice", r.put("unit", str.upper)),
            ("other_choice", r.leave_out("digits", 0)),
        ),
    ),
    Family(
        _tool(
            "set_grants",
            "Set who may do what.",
            "user grants",
            {
                "user": TEXT,
                "expires": INSTANT,
                "dry_run": _default({"type": "boolean"}, False),
                "grants": {
                    "type": "array",
                    "uniqueItems": True,
                    "items": {
                        "type": "object",
                        "properties": {
                            "resource": TEXT,
                            "level": _enum("read", "write", "admin", default="read"),
                        },
                    },
                },
                "rules": {"type": "object", "additionalProperties": WHOLE},
            },
        ),
        "Give {user} these rights.",
        (
            {
                "user": "mkoch",
                "grants": [{"resource": "wiki", "level": "read"}, {"resource": "repo", "level": "write"}],
            },
            {
                "user": "t.ahn",
                "grants": [{"resource": "billing"}],
                "expires": "2026-12-31T23:59:00+00:00",
                "dry_run": False,
            },
            {
                "user": "j_ruiz",
                "grants": [{"resource": "db", "level": "admin"}, {"resource": "logs"}],
                "rules": {"per_day": 5, "per_hour": 1},
            },
            {
                "user": "Pavel9",
                "grants": [{"resource": "backup", "level": "write"}, {"resource": "mail", "level": "write"}],
                "dry_run": True,
            },
        ),
        (
            ("list_of_objects_without_order", r.put("grants", r.reversed_list)),
            ("instant_in_utc", r.put("expires", r.in_utc)),
            ("nested_default_left_out", r.put("grants.0", lambda one: {k: v for k, v in one.items() if v != "read"})),
            ("nested_default_given", r.put("grants.0", lambda one: {"level": "read", **one})),
            ("default_left_out", r.leave_out("dry_run", False)),
            ("default_given", r.give("dry_run", False)),
            ("order_of_keys", r.order_of_keys),
            ("whole_number", r.put("rules.per_day", r.whole)),
            ("outer_space", r.put("user", lambda one: f" {one}")),
        ),
        (
            (
                "values_exchanged_between_objects",
                r.put(
                    "grants",
                    lambda one: (
                        [{**one[0], "resource": one[1]["resource"]}, {**one[1], "resource": one[0]["resource"]}]
                        if len(one) > 1 and one[0].get("level") != one[1].get("level")
                        else one
                    ),
                ),
            ),
            (
                "nested_other_choice",
                r.put("grants.0", lambda one: {**one, "level": "admin" if one.get("level") != "admin" else "write"}),
            ),
            ("case_of_an_id", r.put("user", str.swapcase)),
            ("one_character_of_an_id", r.put("user", r.one_character)),
            ("opposite_flag", r.put("dry_run", lambda one: not one)),
            ("hour_later", r.put("expires", r.later)),
            ("shorter_list", r.put("grants", r.without_last)),
            ("number_times_ten", r.put("rules.per_day", lambda one: one * 10)),
            ("swapped_in_object", r.put("rules", lambda one: {"per_day": one["per_hour"], "per_hour": one["per_day"]})),
            ("not_the_default", r.give("dry_run", True)),
            ("unknown_argument", r.rename("grants", "rights")),
        ),
    ),
)
"""Twelve tools, four calls of each."""

"""Tools of many kinds, values for their arguments, and by which rules calls of them stay the same or become others.

Each tool says with its schema what may differ: formats, defaults, lists without order. What is `valid` follows from the
schema, and what is `wrong` too; where a schema is silent, no pair is made of it.
"""

from __future__ import annotations

from tests.labelled.making import tool_rules as r
from tests.labelled.making.tool_kit import (
    DAY,
    INSTANT,
    NUMBER,
    SET_OF_TEXTS,
    TEXT,
    TIME,
    WHOLE,
    Family,
    default,
    enum,
    tool,
)
from tests.labelled.making.tool_more_schemas import MORE

FAMILIES: tuple[Family, ...] = (
    Family(
        tool(
            "book_train",
            "Book a train journey.",
            "from to date",
            {
                "from": TEXT,
                "to": TEXT,
                "date": DAY,
                "class": enum("first", "second", default="second"),
                "bicycles": default(WHOLE, 0),
                "seats": SET_OF_TEXTS,
                "discount": default(NUMBER, 0),
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
        tool(
            "create_event",
            "Put a meeting into the calendar.",
            "title start end",
            {
                "title": TEXT,
                "start": INSTANT,
                "end": INSTANT,
                "location": {"type": ["string", "null"]},
                "attendees": {"type": "array", "items": {"type": "string", "format": "email"}, "uniqueItems": True},
                "reminder_minutes": default(WHOLE, 10),
                "repeat": {
                    "type": "object",
                    "properties": {
                        "every": enum("day", "week", "month"),
                        "interval": default(WHOLE, 1),
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
        tool(
            "transfer_money",
            "Move money between accounts.",
            "source target amount",
            {
                "source": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{6}$"},
                "target": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{6}$"},
                "amount": NUMBER,
                "currency": enum("EUR", "USD", "CHF", default="EUR"),
                "urgent": default({"type": "boolean"}, False),
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
    *MORE,
    Family(
        tool(
            "set_alarm",
            "Set an alarm.",
            "time",
            {
                "time": TIME,
                "days": {
                    "type": "array",
                    "items": enum("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
                    "uniqueItems": True,
                },
                "label": TEXT,
                "snooze": {
                    "type": "object",
                    "properties": {"minutes": default(WHOLE, 9), "times": default(WHOLE, 3)},
                },
                "volume": default(NUMBER, 0.5),
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
        tool(
            "convert",
            "Convert a quantity.",
            "value unit target",
            {
                "value": NUMBER,
                "unit": enum("kg", "g", "lb", "oz"),
                "target": enum("kg", "g", "lb", "oz"),
                "digits": default(WHOLE, 2),
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
        tool(
            "set_grants",
            "Set who may do what.",
            "user grants",
            {
                "user": TEXT,
                "expires": INSTANT,
                "dry_run": default({"type": "boolean"}, False),
                "grants": {
                    "type": "array",
                    "uniqueItems": True,
                    "items": {
                        "type": "object",
                        "properties": {
                            "resource": TEXT,
                            "level": enum("read", "write", "admin", default="read"),
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

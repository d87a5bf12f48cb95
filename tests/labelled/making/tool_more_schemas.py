"""The middle six tools of `tool_schemas.py`."""

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

MORE: tuple[Family, ...] = (
    Family(
        tool(
            "set_thermostat",
            "Set the heating of a room.",
            "room celsius",
            {
                "room": {**TEXT, "x-ignore-case": True},
                "celsius": NUMBER,
                "mode": enum("heat", "cool", "auto", default="auto"),
                "until": TIME,
                "fan": default(WHOLE, 1),
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
        tool(
            "search_products",
            "Find products of the shop.",
            "query",
            {
                "query": TEXT,
                "sort": enum("relevance", "price_up", "price_down", default="relevance"),
                "page": default(WHOLE, 1),
                "filters": {
                    "type": "object",
                    "properties": {
                        "min_price": NUMBER,
                        "max_price": NUMBER,
                        "in_stock": default({"type": "boolean"}, True),
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
        tool(
            "plan_route",
            "Plan a route through several stops.",
            "stops",
            {
                "stops": {"type": "array", "items": TEXT, "minItems": 2},
                "avoid": SET_OF_TEXTS,
                "depart": INSTANT,
                "mode": enum("car", "bicycle", "foot", default="car"),
                "return_to_start": default({"type": "boolean"}, False),
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
        tool(
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
                "vip": default({"type": "boolean"}, False),
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
        tool(
            "order_pizza",
            "Order a pizza.",
            "size toppings address",
            {
                "size": enum("small", "medium", "large"),
                "toppings": {**SET_OF_TEXTS, "items": {**TEXT, "x-ignore-case": True}},
                "quantity": default(WHOLE, 1),
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
                            "floor": default(WHOLE, 0),
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
        tool(
            "file_expense",
            "Hand in an expense.",
            "items date",
            {
                "date": DAY,
                "category": enum("travel", "meals", "other", default="other"),
                "items": {
                    "type": "array",
                    "x-unordered": True,
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": TEXT,
                            "cost": NUMBER,
                            "billable": default({"type": "boolean"}, False),
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
)

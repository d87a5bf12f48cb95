"""The six tools as the agent sees them: names, descriptions and JSON schemas. What they do is in `tools.py`.

`x-ignore-case` and `x-ignore-prefix` say which spellings the tools do not tell apart; no model is shown them.
Optional arguments carry their default in the schema: leaving one out and giving its default is the same call.
"""

from __future__ import annotations

from pivotrl_core.types import Json, Tool

ORDER_ID: dict[str, Json] = {
    "type": "string",
    "pattern": "^#?[A-Za-z][0-9]{4}$",
    "x-ignore-case": True,
    "x-ignore-prefix": "#",
}
NAME: dict[str, Json] = {"type": "string", "x-ignore-case": True}
SLOTS = ("morning", "afternoon", "evening")
REASONS = ("unwanted", "mistake", "late")
REFUNDS = ("card", "credit")


def _tool(name: str, description: str, required: tuple[str, ...], properties: dict[str, Json]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return Tool(name, description, schema)


def _find_order() -> Tool:
    properties = {
        "order_id": ORDER_ID,
        "email": {"type": "string", "format": "email"},
        "phone": {"type": "string", "pattern": "^555-[0-9]{4}$"},
    }
    tool = _tool("find_order", "Find orders by any one key.", (), properties)
    return Tool(tool.name, tool.description, {**tool.parameters, "minProperties": 1})


TOOLS: tuple[Tool, ...] = (
    _find_order(),
    _tool(
        "cancel_order",
        "Cancel a pending order.",
        ("order_id",),
        {"order_id": ORDER_ID, "reason": {"type": "string", "enum": list(REASONS), "default": "unwanted"}},
    ),
    _tool(
        "return_items",
        "Take back items of a delivered order.",
        ("order_id", "items"),
        {
            "order_id": ORDER_ID,
            "items": {"type": "array", "items": NAME, "minItems": 1, "uniqueItems": True},
            "refund": {"type": "string", "enum": list(REFUNDS), "default": "card"},
        },
    ),
    _tool(
        "update_address",
        "Change the address.",
        ("order_id", "street", "city"),
        {
            "order_id": ORDER_ID,
            "street": {**NAME, "minLength": 3, "maxLength": 40},
            "city": {**NAME, "minLength": 2, "maxLength": 30},
        },
    ),
    _tool(
        "schedule_delivery",
        "Set the day of delivery.",
        ("order_id", "date"),
        {
            "order_id": ORDER_ID,
            "date": {"type": "string", "format": "date"},
            "slot": {"type": "string", "enum": list(SLOTS), "default": "morning"},
        },
    ),
    _tool(
        "change_quantity",
        "Change how many of an item.",
        ("order_id", "item", "quantity"),
        {
            "order_id": ORDER_ID,
            "item": NAME,
            "quantity": {"type": "integer", "minimum": 1, "maximum": 9},
        },
    ),
)

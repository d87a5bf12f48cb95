"""What the tools do: look up an order, or write. A refused call is a result with an `error`, never an exception.

A write needs an order that a look-up has shown before, and the status that the policy asks for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pivotrl_core.environments.helpdesk.arguments import TOOLS_BY_NAME, ArgumentError, parse_arguments
from pivotrl_core.environments.helpdesk.database import Database, Order, Status
from pivotrl_core.environments.helpdesk.policy import TODAY
from pivotrl_core.environments.helpdesk.spellings import canonical_words, day_text
from pivotrl_core.types import Json, ToolCall

Arguments = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call left behind: the database, the orders that have been looked up, and the text the agent gets."""

    database: Database
    seen: frozenset[str]
    text: str
    failed: bool = False


class _RefusalError(Exception):
    """A call that the shop's rules do not allow."""


def run_call(database: Database, seen: frozenset[str], call: ToolCall) -> Outcome:
    """Run one call of the agent's. Never raises on any call."""
    tool = TOOLS_BY_NAME.get(call.name)
    try:
        if tool is None:
            raise ArgumentError("there is no such tool")
        arguments = parse_arguments(tool, call.arguments)
        if tool.name == "find_order":
            found = _find(database, arguments)
            return Outcome(database, seen | {order.id for order in found}, _dump(_describe(found)))
        order = _writable(database, seen, arguments["order_id"])
        changed, note = _WRITES[tool.name](order, arguments)
        return Outcome(database.with_order(changed), seen, _dump({"ok": note}))
    except (ArgumentError, _RefusalError) as error:
        return Outcome(database, seen, _dump({"error": str(error)}), failed=True)


def _dump(value: Json) -> str:
    return json.dumps(value)


def _find(database: Database, keys: Arguments) -> list[Order]:
    found = [order for order in database.orders if _matches(database, order, keys)]
    if not found:
        raise _RefusalError("no such order")
    return found


def _matches(database: Database, order: Order, keys: Arguments) -> bool:
    known = {"order_id": order.id, "email": order.email, "phone": database.customer(order).phone}
    return all(known[key].lower() == str(value).lower() for key, value in keys.items())


def _describe(found: list[Order]) -> Json:
    # Items are sorted: JSON files may have lost the order of keys, and results must not depend on it.
    if len(found) > 1:
        return {"orders": [f"{order.id} {order.status}: {', '.join(sorted(order.items))}" for order in found]}
    order = found[0]
    items = ", ".join(f"{quantity} {item}" for item, quantity in sorted(order.items.items()))
    day = {"delivered" if order.status is Status.DELIVERED else "arrives": day_text(order.date)}
    return {"order": order.id, "status": str(order.status), "items": items, "total": order.total, **day}


def _writable(database: Database, seen: frozenset[str], order_id: str) -> Order:
    order = database.order(order_id)
    if order is None:
        raise _RefusalError("no such order")
    if order_id not in seen:
        raise _RefusalError("find the order first")
    return order


def _require(order: Order, status: Status) -> None:
    if order.status is not status:
        raise _RefusalError(f"order is {order.status}")


def _cancel(order: Order, arguments: Arguments) -> tuple[Order, str]:
    _require(order, Status.PENDING)
    return replace(order, status=Status.CANCELLED, reason=arguments["reason"]), "cancelled"


def _return(order: Order, arguments: Arguments) -> tuple[Order, str]:
    _require(order, Status.DELIVERED)
    items = set(arguments["items"])
    if not items <= set(order.items):
        raise _RefusalError("item is not in the order")
    if items & set(order.returned):
        raise _RefusalError("item is returned already")
    returned = tuple(sorted(items | set(order.returned)))
    return replace(order, returned=returned, refund=arguments["refund"]), "return booked"


def _address(order: Order, arguments: Arguments) -> tuple[Order, str]:
    _require(order, Status.PENDING)
    street, city = canonical_words(arguments["street"]), canonical_words(arguments["city"])
    return replace(order, street=street, city=city), "address changed"


def _delivery(order: Order, arguments: Arguments) -> tuple[Order, str]:
    _require(order, Status.PENDING)
    if arguments["date"] <= TODAY:
        raise _RefusalError("date is not in the future")
    return replace(order, date=arguments["date"], slot=arguments["slot"]), "delivery set"


def _quantity(order: Order, arguments: Arguments) -> tuple[Order, str]:
    _require(order, Status.PENDING)
    item = arguments["item"].strip().lower()
    if item not in order.items:
        raise _RefusalError("item is not in the order")
    return replace(order, items={**order.items, item: arguments["quantity"]}), "quantity changed"


_WRITES: dict[str, Callable[[Order, Arguments], tuple[Order, str]]] = {
    "cancel_order": _cancel,
    "return_items": _return,
    "update_address": _address,
    "schedule_delivery": _delivery,
    "change_quantity": _quantity,
}

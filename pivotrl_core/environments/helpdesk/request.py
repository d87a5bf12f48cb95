"""One request of a user: the opening, the details that come on asking, and the writes or answers it ends in."""

from __future__ import annotations

import random
from dataclasses import replace

from pivotrl_core.environments.helpdesk.catalogue import REASONS as REASON_CHOICES
from pivotrl_core.environments.helpdesk.catalogue import REFUNDS as REFUND_CHOICES
from pivotrl_core.environments.helpdesk.catalogue import SLOTS as SLOT_CHOICES
from pivotrl_core.environments.helpdesk.database import CITIES, STREETS, Order, Status, draw_date
from pivotrl_core.environments.helpdesk.scenario import Detail, Kind, Topic, UserRequest, Write
from pivotrl_core.environments.helpdesk.spellings import date_spellings, day_text
from pivotrl_core.environments.helpdesk.wording import (
    ADDRESSES,
    DAYS,
    FOLLOW_UPS,
    OPENINGS,
    QUANTITIES,
    REASONS,
    REFUNDS,
    RETURNS,
    SLOTS,
)

_KEY_IN_OPENING = 0.45
_DETAIL_IN_OPENING = 0.35


def build_request(
    kind: Kind, order: Order, keys: tuple[Detail, ...], follow_up: bool, refused: bool, rng: random.Random
) -> UserRequest:
    """A request about `order`.

    Args:
        kind: What it is about.
        order: The order as it stands in the database.
        keys: Details that name the order; empty for a follow-up, whose order is known.
        follow_up: Whether another request came before this one.
        refused: Whether the policy forbids it, so that nothing may be written.
        rng: Draws values and wording.
    """
    request = _BUILDERS[kind](order, rng)
    sentences = [rng.choice((FOLLOW_UPS if follow_up else OPENINGS)[kind]), request.opening]
    details = request.details
    if details and rng.random() < _DETAIL_IN_OPENING:
        sentences.append(details[0].text)
        details = ()
    given: tuple[Detail, ...] = ()
    if keys and rng.random() < _KEY_IN_OPENING:
        given, keys = keys[:1], keys[1:]
        sentences.append(given[0].text.replace("I don't have it. ", ""))
    return replace(
        request,
        opening=" ".join(sentence for sentence in sentences if sentence),
        keys=given[0].keys if given else (),
        details=(*keys, *details),
        writes=() if refused else request.writes,
        refused=refused,
    )


def _cancel(order: Order, rng: random.Random) -> UserRequest:
    reason = rng.choice((REASON_CHOICES[0], *REASON_CHOICES))
    write = Write("cancel_order", {"order_id": order.id, "reason": reason})
    return UserRequest(Kind.CANCEL, order.id, rng.choice(REASONS[reason]), writes=(write,))


def _return(order: Order, rng: random.Random) -> UserRequest:
    items = list(order.items)
    rng.shuffle(items)
    items = items[: rng.choice((1, 1, 2))]
    refund = rng.choice((REFUND_CHOICES[0], *REFUND_CHOICES))
    text = rng.choice(RETURNS).format(" and the ".join(items)) + rng.choice(REFUNDS[refund])
    write = Write("return_items", {"order_id": order.id, "items": items, "refund": refund})
    return UserRequest(Kind.RETURN, order.id, "", details=(Detail(Topic.ITEMS, text),), writes=(write,))


def _address(order: Order, rng: random.Random) -> UserRequest:
    street = f"{rng.randint(2, 60)} {rng.choice([name for name in STREETS if name not in order.street])}"
    city = rng.choice(CITIES)
    detail = Detail(Topic.ADDRESS, rng.choice(ADDRESSES).format(street, city))
    write = Write("update_address", {"order_id": order.id, "street": street, "city": city})
    return UserRequest(Kind.ADDRESS, order.id, "", details=(detail,), writes=(write,))


def _delivery(order: Order, rng: random.Random) -> UserRequest:
    day = order.date
    while day == order.date:
        day = draw_date(rng, Status.PENDING)
    slot = rng.choice((SLOT_CHOICES[0], *SLOT_CHOICES))
    detail = Detail(Topic.DAY, rng.choice(DAYS).format(day_text(day)) + rng.choice(SLOTS[slot]))
    write = Write("schedule_delivery", {"order_id": order.id, "date": day, "slot": slot})
    return UserRequest(Kind.DELIVERY, order.id, "", details=(detail,), writes=(write,))


def _quantity(order: Order, rng: random.Random) -> UserRequest:
    item = rng.choice(list(order.items))
    quantity = rng.choice([number for number in range(1, 7) if number != order.items[item]])
    detail = Detail(Topic.QUANTITY, rng.choice(QUANTITIES).format(quantity, item))
    write = Write("change_quantity", {"order_id": order.id, "item": item, "quantity": quantity})
    return UserRequest(Kind.QUANTITY, order.id, "", details=(detail,), writes=(write,))


def _arrival(order: Order, _rng: random.Random) -> UserRequest:
    return UserRequest(Kind.ARRIVAL, order.id, "", answers=tuple(date_spellings(order.date)))


def _total(order: Order, _rng: random.Random) -> UserRequest:
    return UserRequest(Kind.TOTAL, order.id, "", answers=(str(order.total),))


_BUILDERS = {
    Kind.CANCEL: _cancel,
    Kind.RETURN: _return,
    Kind.ADDRESS: _address,
    Kind.DELIVERY: _delivery,
    Kind.QUANTITY: _quantity,
    Kind.ARRIVAL: _arrival,
    Kind.TOTAL: _total,
}

"""The shop's database: a handful of customers and orders, drawn from a seed. Immutable: a write returns a new one."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from enum import StrEnum

from pivotrl_core.environments.helpdesk.policy import TODAY
from pivotrl_core.types import Json

PRICES = {
    "mug": 8, "lamp": 30, "kettle": 25, "tea": 5, "rug": 40, "clock": 18, "vase": 15, "tray": 12, "pillow": 20,
    "candle": 6, "bowl": 9, "scarf": 14, "basket": 16, "mirror": 35, "towel": 10, "apron": 11, "chair": 50, "plate": 7,
}  # fmt: skip
STREETS = ("Elm Road", "Mill Lane", "Park Street", "Hill Road", "Lake Street", "Rose Lane", "Oak Street", "Bay Road")
CITIES = ("Oslo", "Bergen", "Lund", "Turku", "Aarhus", "Malmo", "Tampere", "Odense", "Narvik", "Vaasa")
NAMES = ("nina", "omar", "lena", "ivan", "mira", "paul", "sara", "tomas", "vera", "emil", "anna", "hugo", "ruth")
PROVIDERS = ("post.example", "mail.example")
_ID_LETTERS = "ABCDEFGHJKLMNPRSTUVWXY"


class Status(StrEnum):
    PENDING = "pending"
    SHIPPED = "shipped"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Customer:
    """Who ordered. E-mail and phone are keys."""

    name: str
    email: str
    phone: str


@dataclass(frozen=True, slots=True)
class Order:
    """One order. `date` is the day of arrival, expected or (if delivered) real; `items` maps names to quantities."""

    id: str
    email: str
    items: Mapping[str, int]
    status: Status
    date: str
    street: str
    city: str
    slot: str = "morning"
    reason: str = ""
    returned: tuple[str, ...] = ()
    refund: str = ""

    @property
    def total(self) -> int:
        """Price of all items, in the shop's currency."""
        return sum(PRICES[item] * quantity for item, quantity in self.items.items())


@dataclass(frozen=True, slots=True)
class Database:
    """Customers and orders in a fixed order, so that equal content is equal."""

    customers: tuple[Customer, ...]
    orders: tuple[Order, ...]

    def order(self, order_id: str) -> Order | None:
        """The order with this number, if there is one."""
        return next((order for order in self.orders if order.id == order_id), None)

    def customer(self, order: Order) -> Customer:
        """Who made this order."""
        return next(customer for customer in self.customers if customer.email == order.email)

    def with_order(self, changed: Order) -> Database:
        """The database in which `changed` stands in place of the order with its number."""
        return replace(self, orders=tuple(changed if order.id == changed.id else order for order in self.orders))


def database_to_json(database: Database) -> dict[str, Json]:
    """Plain JSON."""
    orders = [asdict(order) for order in database.orders]
    plain = [order | {"status": str(order["status"]), "returned": list(order["returned"])} for order in orders]
    return {"customers": [asdict(customer) for customer in database.customers], "orders": plain}


def database_from_json(value: Mapping[str, Json]) -> Database:
    """Inverse of `database_to_json`."""
    customers = tuple(Customer(**customer) for customer in value["customers"])
    orders = tuple(
        Order(**(order | {"status": Status(order["status"]), "returned": tuple(order["returned"])}))
        for order in value["orders"]
    )
    return Database(customers, orders)


def generate_database(seed: int) -> Database:
    """Four customers, of whom the first has two orders and the others one each; no item is in two of the former."""
    rng = random.Random(seed)
    names = rng.sample(NAMES, 4)
    phones = rng.sample(range(100, 1000), 4)
    customers = tuple(
        Customer(name, f"{name}{rng.randint(10, 99)}@{rng.choice(PROVIDERS)}", f"555-0{phone}")
        for name, phone in zip(names, phones, strict=True)
    )
    numbers = rng.sample(range(1000, 10000), 5)
    items = rng.sample(sorted(PRICES), 4) + rng.sample(sorted(PRICES), 6)
    owners = (customers[0], *customers)
    orders = tuple(
        _draw_order(rng, f"{rng.choice(_ID_LETTERS)}{number}", owner.email, items[2 * place : 2 * place + 2])
        for place, (owner, number) in enumerate(zip(owners, numbers, strict=True))
    )
    return Database(customers, orders)


def _draw_order(rng: random.Random, order_id: str, email: str, items: list[str]) -> Order:
    status = rng.choice((Status.PENDING, Status.SHIPPED, Status.DELIVERED))
    return Order(
        id=order_id,
        email=email,
        items={item: rng.choice((1, 1, 2, 3)) for item in items},
        status=status,
        date=draw_date(rng, status),
        street=f"{rng.randint(2, 60)} {rng.choice(STREETS)}",
        city=rng.choice(CITIES),
    )


def draw_date(rng: random.Random, status: Status, late: bool = False) -> str:
    """A day that fits the status: ahead of today, or in the last 25 days, or (`late`) 45 to 110 days ago."""
    if late:
        offset = -rng.randint(45, 110)
    elif status is Status.DELIVERED:
        offset = -rng.randint(2, 25)
    else:
        offset = rng.randint(3, 27)
    return (date.fromisoformat(TODAY) + timedelta(days=offset)).isoformat()

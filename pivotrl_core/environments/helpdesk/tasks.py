"""Tasks from a seed: a database, an order of it that fits the family, and the user's lines about it.

Invariants: a longer list only appends to a shorter one; families are balanced (any prefix differs by at most one task);
splits and pools never share a database seed, whatever the seeds, because its residue modulo 6 says where it belongs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count as count_up
from itertools import islice

from pivotrl_core.environments.helpdesk.database import Database, Order, Status, draw_date, generate_database
from pivotrl_core.environments.helpdesk.families import Family, Key, families_of
from pivotrl_core.environments.helpdesk.request import build_request
from pivotrl_core.environments.helpdesk.scenario import Detail, Kind, Scenario, Topic, scenario_to_json
from pivotrl_core.environments.helpdesk.wording import (
    AGREE,
    BOTH_GIVEN,
    CORRECTION,
    EMAIL_GIVEN,
    IDLE,
    ORDER_GIVEN,
    PHONE_GIVEN,
    WHICH,
)
from pivotrl_core.environments.protocol import Pool, Task
from pivotrl_core.seeding import derive_seed
from pivotrl_core.types import Split, content_id

_PLACES = tuple((pool, split) for pool in Pool for split in Split)
_BOTH_KEYS_SHARE = 0.3


def make_tasks(split: Split, count: int, seed: int, pool: Pool = Pool.MAIN) -> tuple[Task, ...]:
    """The first `count` tasks of a split and pool."""
    return tuple(islice(_distinct_tasks(split, seed, pool), count))


def _distinct_tasks(split: Split, seed: int, pool: Pool) -> Iterator[Task]:
    families = families_of(split)
    known: set[str] = set()
    for block in count_up():
        order = list(families)
        random.Random(derive_seed("helpdesk-order", pool, split, seed, block)).shuffle(order)
        for family in order:
            task = next(task for task in _attempts(family, split, pool, seed, block) if task.id not in known)
            known.add(task.id)
            yield task


def _attempts(family: Family, split: Split, pool: Pool, seed: int, block: int) -> Iterator[Task]:
    for attempt in count_up():
        drawn = derive_seed("helpdesk-task", pool, split, seed, family.name, block, attempt)
        database_seed = drawn // len(_PLACES) * len(_PLACES) + _PLACES.index((pool, split))
        content = scenario_to_json(build_scenario(family, database_seed))
        visible = {key: value for key, value in content.items() if key != "database_seed"}
        yield Task(f"helpdesk-{content_id(visible)}", family.name, split, content)


def build_scenario(family: Family, database_seed: int) -> Scenario:
    """The scenario of a family that a database seed stands for."""
    rng = random.Random(derive_seed("helpdesk-scenario", family.name, database_seed))
    kinds = _draw_kinds(family, rng)
    database, target = _prepare(generate_database(database_seed), family, kinds[0], rng)
    keys = _key_details(database, target, family.key, rng)
    if target.status is Status.PENDING and family.key is Key.SHARED_EMAIL:
        database = _make_twin_pending(database, target, rng)
    requests = tuple(
        build_request(kind, target, keys if place == 0 else (), place > 0, family.refused, rng)
        for place, kind in enumerate(kinds)
    )
    return Scenario(database_seed, database, requests, rng.choice(IDLE), rng.choice(AGREE))


def _draw_kinds(family: Family, rng: random.Random) -> list[Kind]:
    kinds: list[Kind] = []
    for choices in family.steps:
        kinds.append(rng.choice([kind for kind in choices if kind not in kinds]))
    return kinds


def _prepare(database: Database, family: Family, kind: Kind, rng: random.Random) -> tuple[Database, Order]:
    # Orders 0 and 1 are of one customer; where an e-mail must be enough, the target is another's only order.
    place = rng.randrange(2) if family.key is Key.SHARED_EMAIL else rng.randrange(2, len(database.orders))
    status = _needed_status(family, kind, rng)
    late = family.refused and kind is Kind.RETURN
    order = database.orders[place]
    target = replace(order, status=status, date=draw_date(rng, status, late))
    return database.with_order(target), target


def _needed_status(family: Family, kind: Kind, rng: random.Random) -> Status:
    if kind is Kind.RETURN:
        return Status.DELIVERED
    if kind is Kind.TOTAL:
        return rng.choice((Status.PENDING, Status.SHIPPED, Status.DELIVERED))
    if kind is Kind.ARRIVAL and len(family.steps) == 1:
        return rng.choice((Status.PENDING, Status.SHIPPED))
    return Status.SHIPPED if family.refused else Status.PENDING


def _make_twin_pending(database: Database, target: Order, rng: random.Random) -> Database:
    twin = next(order for order in database.orders if order.email == target.email and order.id != target.id)
    return database.with_order(replace(twin, status=Status.PENDING, date=draw_date(rng, Status.PENDING)))


def _key_details(database: Database, target: Order, key: Key, rng: random.Random) -> tuple[Detail, ...]:
    number, email = {"order_id": target.id}, {"email": target.email}
    phone = {"phone": database.customer(target).phone}
    if key is Key.PHONE:
        return (Detail(Topic.ORDER, rng.choice(PHONE_GIVEN).format(phone["phone"]), (phone,)),)
    if key is Key.EMAIL:
        return (Detail(Topic.ORDER, rng.choice(EMAIL_GIVEN).format(target.email), (email,)),)
    if key is Key.SHARED_EMAIL:
        which = Detail(Topic.WHICH, rng.choice(WHICH).format(rng.choice(list(target.items))))
        return (Detail(Topic.ORDER, rng.choice(EMAIL_GIVEN).format(target.email), (email,)), which)
    right = Detail(Topic.ORDER, rng.choice(ORDER_GIVEN).format(target.id), (number,))
    if key is Key.WRONG_NUMBER:
        wrong = _wrong_number(database, target.id, rng)
        given = Detail(Topic.ORDER, rng.choice(ORDER_GIVEN).format(wrong), ({"order_id": wrong},))
        return (given, replace(right, text=rng.choice(CORRECTION).format(target.id)))
    if rng.random() < _BOTH_KEYS_SHARE:
        text = rng.choice(BOTH_GIVEN).format(target.id, target.email)
        return (Detail(Topic.ORDER, text, (number, email)),)
    return (right,)


def _wrong_number(database: Database, right: str, rng: random.Random) -> str:
    known = {order.id for order in database.orders}
    digits = list(right)
    while "".join(digits) in known:
        digits[rng.randrange(1, len(digits))] = rng.choice("123456789")
    return "".join(digits)

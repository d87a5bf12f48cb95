"""A task's content as records: the database, what the user wants and says, and what must be true at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pivotrl_core.environments.helpdesk.database import Database, database_from_json, database_to_json
from pivotrl_core.types import Json


class Kind(StrEnum):
    """What a request is about."""

    CANCEL = "cancel"
    RETURN = "return"
    ADDRESS = "address"
    DELIVERY = "delivery"
    QUANTITY = "quantity"
    ARRIVAL = "arrival"
    TOTAL = "total"


class Topic(StrEnum):
    """What a detail is about; the user answers a question about a topic with that detail where there is one."""

    ORDER = "order"
    WHICH = "which"
    ITEMS = "items"
    ADDRESS = "address"
    DAY = "day"
    QUANTITY = "quantity"


@dataclass(frozen=True, slots=True)
class Detail:
    """One thing that the user tells when asked. `keys` are look-ups that it makes possible (find_order arguments)."""

    topic: Topic
    text: str
    keys: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Write:
    """One call that the expected database is made with."""

    name: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class UserRequest:
    """One wish. `keys` are look-ups that the opening gives away; `answers` are spellings of what must be told."""

    kind: Kind
    order_id: str
    opening: str
    keys: tuple[Mapping[str, str], ...] = ()
    details: tuple[Detail, ...] = ()
    writes: tuple[Write, ...] = ()
    answers: tuple[str, ...] = ()
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole task. `idle` and `agree` are what this user says with nothing left to tell."""

    database_seed: int
    database: Database
    requests: tuple[UserRequest, ...]
    idle: str
    agree: str

    @property
    def reads(self) -> frozenset[str]:
        """Orders that the agent must have looked up."""
        return frozenset(request.order_id for request in self.requests)


def scenario_to_json(scenario: Scenario) -> dict[str, Json]:
    """Plain JSON: lists for tuples, strings for choices."""
    return {
        "database_seed": scenario.database_seed,
        "database": database_to_json(scenario.database),
        "requests": [_request_to_json(request) for request in scenario.requests],
        "idle": scenario.idle,
        "agree": scenario.agree,
    }


def _detail_to_json(detail: Detail) -> dict[str, Json]:
    return {"topic": str(detail.topic), "text": detail.text, "keys": [dict(key) for key in detail.keys]}


def _request_to_json(request: UserRequest) -> dict[str, Json]:
    return {
        "kind": str(request.kind),
        "order_id": request.order_id,
        "opening": request.opening,
        "keys": [dict(key) for key in request.keys],
        "details": [_detail_to_json(detail) for detail in request.details],
        "writes": [{"name": write.name, "arguments": dict(write.arguments)} for write in request.writes],
        "answers": list(request.answers),
        "refused": request.refused,
    }


def scenario_from_json(value: Mapping[str, Json]) -> Scenario:
    """Inverse of `scenario_to_json`."""
    requests = tuple(_request_from_json(request) for request in value["requests"])
    database = database_from_json(value["database"])
    return Scenario(value["database_seed"], database, requests, value["idle"], value["agree"])


def _request_from_json(value: Mapping[str, Json]) -> UserRequest:
    return UserRequest(
        kind=Kind(value["kind"]),
        order_id=value["order_id"],
        opening=value["opening"],
        keys=tuple(value["keys"]),
        details=tuple(Detail(Topic(d["topic"]), d["text"], tuple(d["keys"])) for d in value["details"]),
        writes=tuple(Write(write["name"], write["arguments"]) for write in value["writes"]),
        answers=tuple(value["answers"]),
        refused=value["refused"],
    )

"""The task families: what the request is, by which key the order is found, whether the policy forbids it, which splits.

Families of the test split only are new combinations of skills, two of them with a key or a request order never trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pivotrl_core.environments.helpdesk.scenario import Kind
from pivotrl_core.types import Split


class Key(StrEnum):
    """What the user has to name the order with."""

    NUMBER = "number"
    EMAIL = "email"
    PHONE = "phone"
    WRONG_NUMBER = "wrong_number"
    SHARED_EMAIL = "shared_email"


@dataclass(frozen=True, slots=True)
class Family:
    """One row of the table below. Each of `steps` is one request; its kind is drawn from the choices given."""

    name: str
    steps: tuple[tuple[Kind, ...], ...]
    key: Key = Key.NUMBER
    refused: bool = False
    test_only: bool = False


_CHANGES = (Kind.ADDRESS, Kind.DELIVERY, Kind.QUANTITY)

FAMILIES: tuple[Family, ...] = (
    Family("cancel", ((Kind.CANCEL,),)),
    Family("cancel_by_email", ((Kind.CANCEL,),), Key.EMAIL),
    Family("cancel_refused", ((Kind.CANCEL,),), refused=True),
    Family("return", ((Kind.RETURN,),)),
    Family("return_by_email", ((Kind.RETURN,),), Key.EMAIL),
    Family("return_refused", ((Kind.RETURN,),), refused=True),
    Family("address", ((Kind.ADDRESS,),)),
    Family("delivery", ((Kind.DELIVERY,),)),
    Family("quantity", ((Kind.QUANTITY,),)),
    Family("ask_arrival", ((Kind.ARRIVAL,),)),
    Family("ask_total", ((Kind.TOTAL,),), Key.EMAIL),
    Family("wrong_number", ((Kind.CANCEL, Kind.DELIVERY, Kind.ARRIVAL),), Key.WRONG_NUMBER),
    Family("which_order", ((Kind.CANCEL, Kind.DELIVERY),), Key.SHARED_EMAIL),
    Family("two_changes", (_CHANGES, _CHANGES)),
    Family("return_by_phone", ((Kind.RETURN,),), Key.PHONE, test_only=True),
    Family("address_refused", ((Kind.ADDRESS,),), refused=True, test_only=True),
    Family("ask_then_cancel", ((Kind.ARRIVAL,), (Kind.CANCEL,)), test_only=True),
)


def families_of(split: Split) -> tuple[Family, ...]:
    """The families that a split has tasks of."""
    return tuple(family for family in FAMILIES if split is Split.TEST or not family.test_only)

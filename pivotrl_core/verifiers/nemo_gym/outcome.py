"""What a verifier of NeMo Gym's says of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pivotrl_core.types import Json


@dataclass(frozen=True, slots=True)
class Outcome:
    """A reward in [0, 1], the name of the category or failure, and what led to it."""

    reward: float
    name: str
    details: Mapping[str, Json] = field(default_factory=dict)

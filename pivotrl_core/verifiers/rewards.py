"""The reward of a decision. It is derived, never stored alone: another rule re-scores what was graded before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pivotrl_core.types import Json
from pivotrl_core.verifiers.protocol import GradingDecision


class Rewards(Protocol):
    """Derives rewards; a frozen dataclass, whose values are part of a verifier's version."""

    def reward(self, decision: GradingDecision, components: Mapping[str, Json]) -> float:
        """The reward in [0, 1] of a decision on these components."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardRule:
    """Rewards in [0, 1]: of an accepted action, of a refused one, and of one that could not be read.

    With `partial`, a refused action that could be read earns failure + credit (success - failure).
    """

    success: float = 1.0
    failure: float = 0.0
    malformed: float = 0.0
    partial: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.malformed <= self.failure < self.success <= 1.0:
            raise ValueError(f"{self}: expected 0 <= malformed <= failure < success <= 1")

    def reward(self, decision: GradingDecision, components: Mapping[str, Json]) -> float:
        """The reward of a decision on these components (`parsed: false` says that the action could not be read)."""
        if decision.accepted:
            return self.success
        if components.get("parsed") is False:
            return self.malformed
        return self.failure + decision.credit * (self.success - self.failure) if self.partial else self.failure


DEFAULT_RULE = RewardRule()
"""1 for success, 0 for all else."""

"""How NeMo Gym rewards parallel calls, as a rule of rewards over this project's own comparison of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pivotrl_core.types import Json
from pivotrl_core.verifiers.nemo_gym.settings import ToolCallSettings
from pivotrl_core.verifiers.protocol import GradingDecision


@dataclass(frozen=True, slots=True)
class ParallelRule:
    """`parallel_tool_call_rewarding` with its gate and modes; one call against one is right or wrong as ever."""

    text_threshold: float
    settings: ToolCallSettings

    def reward(self, decision: GradingDecision, components: Mapping[str, Json]) -> float:
        """The reward of a decision on components of the tool grader."""
        steps, expected, actual = (components.get(key) for key in ("matching", "calls_expected", "calls"))
        if decision.accepted or steps is None or expected == actual == 1 or components.get("parsed") is False:
            return float(decision.accepted)
        matched = max((size for score, size in steps if score >= self.text_threshold), default=0)
        return self.settings.parallel_reward(matched, int(expected or 0), int(actual or 0)) or 0.0

"""Arms of a sweep, made from those of the parameters: more values of lambda_diff, the controls, and the baselines.

An arm that the parameters have already stays as it is there.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

from flows.sections import checked_list, checked_parts, section
from pivotrl_core.config.arms import E2ETrain, RandomRuleConfig
from pivotrl_core.errors import ConfigError

_PARTS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "lambdas": ((list, tuple), "a list of numbers"), "controls": (bool, "true or false")
}  # fmt: skip
LAMBDAS = (0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Which arms a sweep adds: one for each value of lambda_diff, and whether the controls and baselines too."""

    lambdas: tuple[float, ...] = LAMBDAS
    controls: bool = True

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """From plain values; missing parts are defaults. Raises ConfigError for a part that is unknown or wrong."""
        parts = checked_parts(value, "request: sweep", _PARTS)
        if "lambdas" in parts:
            parts["lambdas"] = checked_list(parts["lambdas"], "request: sweep: lambdas", (int, float), "numbers")
        return cls(**parts)


def sweep_arms(arms: Mapping[str, Any], lambdas: Sequence[float] = LAMBDAS, controls: bool = True) -> dict[str, Any]:
    """The arms of a sweep.

    Args:
        arms: Those of the parameters; `pivotrl` is the pattern of all that train by GRPO.
        lambdas: Values of lambda_diff, an arm each (`lambda-04`).
        controls: Also random turns, all turns, exact-match reward, SFT followed by PivotRL, and E2E RL.
    """
    pattern = section(arms, "pivotrl")
    if section(pattern, "train").get("method") != "grpo":
        raise ConfigError("arms: a sweep needs an arm 'pivotrl' that trains with method grpo; add one to params.yaml")
    out: dict[str, Any] = dict(arms)
    own = section(pattern, "select").get("lambda_diff", 0.6)
    for value in lambdas:
        if value != own:
            out.setdefault(_name(value), _changed(pattern, {"lambda_diff": value}))
    if controls:
        like = {key: value for key, value in section(pattern, "select").items() if key in RandomRuleConfig.model_fields}
        random = {**like, "lambda_diff": own, "rule": "random"}
        out.setdefault("random-turns", {**copy.deepcopy(dict(pattern)), "select": random})
        out.setdefault("all-turns", {**copy.deepcopy(dict(pattern)), "select": {"rule": "all"}})
        out.setdefault("exact-reward", _changed(pattern, {}, {"reward": "exact"}))
        if section(arms, "sft").get("train"):
            out.setdefault("sft-pivotrl", _changed(pattern, {}, {"start": "sft"}))
        out.setdefault("e2e", {"select": {"rule": "all"}, "train": _e2e(pattern["train"])})
    return out


def _name(value: float) -> str:
    """`lambda-04` for 0.4 and `lambda-045` for 0.45: every digit, so that no two values share a name."""
    return f"lambda-{Decimal(str(float(value))):f}".replace(".", "")


def _changed(
    arm: Mapping[str, Any], select: Mapping[str, Any], train: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    out = copy.deepcopy(dict(arm))
    out["select"] = {**section(out, "select"), **select}
    out["train"] = {**out["train"], **(train or {})}
    return out


def _e2e(train: Mapping[str, Any]) -> dict[str, Any]:
    """GRPO's settings as far as episodes have them: a reward and an order of pivots they have not."""
    shared = {key: copy.deepcopy(value) for key, value in train.items() if key in E2ETrain.model_fields}
    return {**shared, "method": "e2e"}

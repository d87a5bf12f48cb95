"""Settings under NeMo Gym's own names, as rows and configurations give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from pivotrl_core.types import Json


class RewardMode(StrEnum):
    BINARY_STRICT = "binary_strict"
    FRACTIONAL = "fractional"
    F1 = "f1"


class Mode(StrEnum):
    BINARY = "binary"
    CONTINUOUS = "continuous"


@dataclass(frozen=True, slots=True)
class ToolCallSettings:
    """Settings under the server's own names; without its configuration files the threshold is that of most of them."""

    word_count_similarity_threshold: float = 0.1
    floating_point_comparison_threshold: float = 1e-6
    parallel_tool_call_rewarding: bool = False
    allow_subset: bool = False
    allow_superset: bool = False
    parallel_tool_call_reward_mode: RewardMode = RewardMode.BINARY_STRICT

    def parallel_reward(self, matched: int, expected: int, actual: int) -> float | None:
        """The reward of `matched` calls of so many expected and actual ones; None: the counts are not admitted."""
        if not self.parallel_tool_call_rewarding:
            return float(matched == expected)
        if (actual < expected and not self.allow_subset) or (actual > expected and not self.allow_superset):
            return None
        if self.parallel_tool_call_reward_mode is RewardMode.F1:
            return 2 * matched / (expected + actual)
        required = min(expected, actual) if self.allow_subset else expected
        if self.parallel_tool_call_reward_mode is RewardMode.FRACTIONAL:
            return matched / required
        return float(matched == required)


@dataclass(frozen=True, slots=True)
class SoftwareSettings:
    """Settings under the server's own names."""

    reward_mode: Mode = Mode.BINARY
    enable_target_match: bool = True
    enable_argument_similarity: bool = True
    similarity_threshold: float = 0.4
    similarity_full_credit: float = 0.8
    enable_diff_size_shaping: bool = True
    diff_size_alpha: float = 0.1


@dataclass(frozen=True, slots=True)
class TerminalSettings:
    """Settings under the server's own names. `threshold` is for rows that have none of their own."""

    enable_string_similarity: bool = True
    string_similarity_threshold: float = 0.9
    threshold: float | None = None


_SECTION = "tool_call_comparator_config"
"""Where the server's configuration file has the settings of tool calls."""
_ALIASES = {"mode": "reward_mode"}
_CHOICES = {"reward_mode": Mode, "parallel_tool_call_reward_mode": RewardMode}
_FLAGS = (
    "parallel_tool_call_rewarding", "allow_subset", "allow_superset", "enable_target_match",
    "enable_argument_similarity", "enable_diff_size_shaping", "enable_string_similarity",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NemoGymSettings:
    """Settings of the three servers."""

    tool: ToolCallSettings = field(default_factory=ToolCallSettings)
    software: SoftwareSettings = field(default_factory=SoftwareSettings)
    terminal: TerminalSettings = field(default_factory=TerminalSettings)


def read_settings(values: Mapping[str, Json], defaults: NemoGymSettings | None = None) -> NemoGymSettings:
    """Settings by name; those that are not given stay as in `defaults`.

    Raises:
        ValueError: an unknown name, or a value of the wrong kind.
    """
    flat = {_ALIASES.get(name, name): value for name, value in _flat(values).items()}
    if flat.pop("enable_llm_judge", False) is not False:
        raise ValueError("verifier: enable_llm_judge: compat mode has no judge to ask; leave it out or set it to false")
    base = defaults or NemoGymSettings()
    known: set[str] = set()
    parts: dict[str, Any] = {}
    for part in fields(base):
        current = getattr(base, part.name)
        own = {one.name: getattr(current, one.name) for one in fields(current)}
        known |= own.keys()
        given = {name: _read(name, value) for name, value in flat.items() if name in own}
        parts[part.name] = type(current)(**{**own, **given})
    for name in flat:
        if name not in known:
            raise ValueError(f"verifier.{name}: no such setting; known: {', '.join(sorted(known))}")
    return NemoGymSettings(**parts)


def _flat(values: Mapping[str, Json]) -> dict[str, Json]:
    inner = values.get(_SECTION, {})
    if not isinstance(inner, Mapping):
        raise ValueError(f"verifier.{_SECTION}: expected an object")
    return {**{name: value for name, value in values.items() if name != _SECTION}, **inner}


def _read(name: str, value: Json) -> Json:
    if name in _CHOICES:
        if value not in list(_CHOICES[name]):
            raise ValueError(f"verifier.{name}: expected one of {', '.join(_CHOICES[name])}, found {value!r}")
        return _CHOICES[name](value)
    if name in _FLAGS:
        if not isinstance(value, bool):
            raise ValueError(f"verifier.{name}: expected true or false, found {value!r}")
        return value
    if (value is None and name == "threshold") or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise ValueError(f"verifier.{name}: expected a number, found {value!r}")

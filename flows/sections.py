"""Plain parameter values by section and dotted key, before anything has checked them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pivotrl_core.errors import ConfigError


def section(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A section of plain values, empty where there is none. Raises ConfigError where it is no mapping."""
    found = values.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"{key}: expected a section of keys and values, found {found!r}")
    return found


def set_value(values: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key, making sections on the way; a section that arms share by a YAML anchor is copied first."""
    *sections, last = key.split(".")
    for name in sections:
        inner = values.get(name)
        values[name] = dict(inner) if isinstance(inner, dict) else {}
        values = values[name]
    values[last] = value

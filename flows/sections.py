"""Plain parameter values by section and dotted key, before anything has checked them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def checked_parts(value: Any, name: str, parts: Mapping[str, tuple[type | tuple[type, ...], str]]) -> dict[str, Any]:
    """The parts of a request that are there, each of its type.

    Args:
        value: A mapping, as JSON gives it.
        name: Of the mapping, for messages.
        parts: For each part that there may be, the types of its values and what messages call them.

    Raises:
        ConfigError: It is no mapping, or a part is unknown or of another type; the message names it.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name}: expected parts and their values, found {value!r}; known: {', '.join(parts)}")
    for key, one in value.items():
        if key not in parts:
            raise ConfigError(f"{name}: unknown part {key!r}; known: {', '.join(parts)}")
        kinds, what = parts[key]
        if not isinstance(one, kinds) or (isinstance(one, bool) and kinds is not bool):
            raise ConfigError(f"{name}: {key}: expected {what}, found {one!r}")
    return dict(value)


def checked_list(values: Sequence[Any], name: str, kinds: type | tuple[type, ...], what: str) -> tuple[Any, ...]:
    """The entries of a list, each of its type. Raises ConfigError for one that is not."""
    for one in values:
        if not isinstance(one, kinds) or isinstance(one, bool):
            raise ConfigError(f"{name}: expected {what}, found {one!r} in it")
    return tuple(values)


def set_value(values: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key, making sections on the way; a section that arms share by a YAML anchor is copied first."""
    *sections, last = key.split(".")
    for name in sections:
        inner = values.get(name)
        values[name] = dict(inner) if isinstance(inner, dict) else {}
        values = values[name]
    values[last] = value

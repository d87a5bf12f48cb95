"""JSON of foreign files: what Python's decoder lets through and no file of ours can hold is refused here."""

from __future__ import annotations

import json
import math
from typing import NoReturn

from pivotrl_core.types import Json

MAX_DEPTH = 64
"""Levels of nesting of JSON that stands as text inside a row: arguments of calls, a list of tools."""


def decode_json(text: str) -> Json:
    """The one JSON value that `text` holds.

    Raises:
        ValueError: not JSON; NaN, infinity, or a number that no float can hold.
        RecursionError: nested too deeply for Python's decoder.
    """
    return json.loads(text, parse_constant=refuse_constant, parse_float=finite_float)


def refuse_constant(name: str) -> NoReturn:
    """Python reads NaN and Infinity, which are not JSON."""
    raise ValueError(f"{name} is not JSON")


def finite_float(text: str) -> float:
    """Python reads 1e999 as infinity, which cannot be written again."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is out of range")
    return value


def nesting_depth(value: Json, stop: int) -> int:
    """Levels of lists and objects in a value; counting ends once it is above `stop`."""
    depth, level = 0, [value]
    while depth <= stop:
        containers = [item for item in level if isinstance(item, dict | list)]
        if not containers:
            break
        depth += 1
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    return depth


def has_lone_surrogate(value: Json) -> bool:
    """Whether a value of bounded depth holds half of a surrogate pair, which UTF-8 cannot carry."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False

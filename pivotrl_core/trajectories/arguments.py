"""Arguments of a call: from their raw JSON text to a value, with every defect named instead of raised or mended."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pivotrl_core.trajectories.decoding import MAX_DEPTH, finite_float, nesting_depth, refuse_constant
from pivotrl_core.types import Json


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoded arguments; `error` is empty where they are a JSON object."""

    value: dict[str, Json]
    error: str = ""


def decode_arguments(text: str) -> Decoded:
    """The JSON object that `text` holds, whole. Never raises."""
    try:
        value, end = scan_value(text, _skip_space(text, 0))
    except ValueError as error:
        return Decoded({}, str(error)[:120])
    if text[end:].strip():
        return Decoded({}, "text after the JSON object")
    if not isinstance(value, dict):
        return Decoded({}, "not a JSON object")
    if nesting_depth(value, MAX_DEPTH) > MAX_DEPTH:
        return Decoded({}, f"nested more than {MAX_DEPTH} levels deep")
    return Decoded(value)


def scan_value(text: str, start: int) -> tuple[Json, int]:
    """The JSON value that begins at `start`, and where it ends.

    Raises:
        ValueError: not JSON, a key given twice, a number that no float can hold, or nested too deeply.
    """
    try:
        return _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def scan_members(text: str, start: int) -> tuple[dict[str, str], int]:
    """Raw text of each member of the JSON object that begins at `start`, and where the object ends.

    Raises:
        ValueError: as `scan_value`, or no object begins there.
    """
    _, end = scan_value(text, start)
    members: dict[str, str] = {}
    position = _skip_space(text, start + 1)
    if text[start] != "{":
        raise ValueError("not a JSON object")
    while text[position] != "}":
        key, position = scan_value(text, position)
        position = _skip_space(text, _skip_space(text, position) + 1)
        _, stop = scan_value(text, position)
        members[key] = text[position:stop]
        position = _skip_space(text, stop)
        if text[position] == ",":
            position = _skip_space(text, position + 1)
    return members, end


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key is given twice")
    return value


_DECODER = json.JSONDecoder(parse_constant=refuse_constant, parse_float=finite_float, object_pairs_hook=_unique_keys)

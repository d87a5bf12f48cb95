"""NeMo Gym's swe_pivot: the kind of tool, its target, and the similarity of what it is given.

Source: github.com/NVIDIA-NeMo/Gym, resources_servers/swe_pivot. Kept as they are there: only the first call is judged,
an argument that is missing equals any, similarity is difflib's with its junk heuristic, over the first 2,000
characters, and a range to the end of the file overlaps with nothing. Arguments that are JSON but no object fail where
they are first looked into, as `unknown_error`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

from pivotrl_core.types import Json
from pivotrl_core.verifiers.nemo_gym.outcome import Outcome
from pivotrl_core.verifiers.nemo_gym.settings import Mode, SoftwareSettings
from pivotrl_core.verifiers.nemo_gym.tool_names import UNKNOWN, category_of
from pivotrl_core.verifiers.responses import Response

MAX_CHARACTERS = 2000
MIN_COMMAND_SIMILARITY = 0.3
MIN_OVERLAP = 0.8
LARGE_EDIT = 500
_PATH_KEYS = ("path", "file", "file_path", "filename", "file_name")
_PATHS = re.compile(r"""(?:^|[\s='"(])((?:/[\w.-]+)+|\.{1,2}/[\w./-]+|[\w.-]+/[\w./-]+)""")


class Failure(StrEnum):
    NONE = "none"
    EXPECTED_ACTION_INVALID = "expected_action_invalid"
    MODEL_OUTPUT_INVALID = "model_output_invalid"
    TOOL_NAME_MISMATCH = "tool_name_mismatch"
    TARGET_MISMATCH = "target_mismatch"
    SIMILARITY_BELOW_THRESHOLD = "similarity_below_threshold"
    UNKNOWN_ERROR = "unknown_error"


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    category: str
    arguments: Json


def verify_software(row: Mapping[str, Json], response: Response, settings: SoftwareSettings) -> Outcome:
    """The server's verdict."""
    try:
        expected = _expected_call(row)
        # A recorded reply (it has a `tool_name_match`) leaves its expected action out, but was given with one.
        if expected is None and (response.calls or "tool_name_match" not in row):
            return Outcome(0.0, Failure.EXPECTED_ACTION_INVALID)
        if expected is None or not response.calls:
            return Outcome(0.0, Failure.MODEL_OUTPUT_INVALID)
        first = response.calls[0]
        return _compare(expected, _read_call(first.name, first.arguments), settings)
    except Exception:  # noqa: BLE001 - as the server has it: whatever goes wrong in there is one failure
        return Outcome(0.0, Failure.UNKNOWN_ERROR)


def _expected_call(row: Mapping[str, Json]) -> _Call | None:
    metadata = row.get("metadata")
    places = [row.get("expected_action"), None, metadata.get("expected_action") if metadata else None]
    if row.get("expected_answer"):
        places[1] = _decoded_answer(row["expected_answer"])
    action = next((place for place in places if isinstance(place, dict) and place.get("type") == "function_call"), None)
    return None if action is None else _read_call(action["name"], action.get("arguments", ""))


def _decoded_answer(text: Json) -> Json:
    """The action that the answer holds, if it can be read and names a tool."""
    try:
        action = json.loads(text)
    except (json.JSONDecodeError, TypeError):
        return None
    return action if isinstance(action, dict) and "name" in action else None


def _read_call(name: Json, arguments: Json) -> _Call:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except json.JSONDecodeError:
            arguments = {}
    elif not isinstance(arguments, dict):
        arguments = {}
    return _Call(name, category_of(name), arguments)


def _compare(expected: _Call, actual: _Call, settings: SoftwareSettings) -> Outcome:
    same_name = actual.name.lower() == expected.name.lower()
    if not same_name and (actual.category != expected.category or actual.category == UNKNOWN):
        return Outcome(0.0, Failure.TOOL_NAME_MISMATCH, {"name": False})
    details: dict[str, Json] = {"name": True}
    if settings.enable_target_match:
        details["target"] = _same_target(expected, actual)
        if not details["target"]:
            return Outcome(0.0, Failure.TARGET_MISMATCH, details)
    reward = 1.0
    if settings.enable_argument_similarity:
        similarity = details["similarity"] = _similarity(expected, actual)
        credit = _credit(similarity, settings)
        if credit is None:
            return Outcome(0.0, Failure.SIMILARITY_BELOW_THRESHOLD, details)
        reward = credit
    if settings.enable_diff_size_shaping and settings.reward_mode == Mode.CONTINUOUS:
        details["penalty"] = _size_penalty(actual, settings.diff_size_alpha)
        reward *= 1.0 - details["penalty"]
    return Outcome(reward, Failure.NONE, details)


def _credit(similarity: float, settings: SoftwareSettings) -> float | None:
    low, full = settings.similarity_threshold, settings.similarity_full_credit
    if similarity >= full:
        return 1.0
    if settings.reward_mode == Mode.BINARY or similarity < low:
        return None
    return 0.5 + 0.5 * (similarity - low) / (full - low)


def _same_target(expected: _Call, actual: _Call) -> bool:
    kinds = (actual.category, expected.category)
    if kinds == ("edit", "edit"):
        return _same_edit_target(expected.arguments, actual.arguments)
    if kinds == ("bash", "bash"):
        return _same_command_target(_command(expected.arguments), _command(actual.arguments))
    if all(kind in ("search", "read") for kind in kinds):
        first, second = _path(expected.arguments), _path(actual.arguments)
        return not first or not second or _last_parts(first, 3) == _last_parts(second, 3)
    return True


def _same_edit_target(expected: Json, actual: Json) -> bool:
    given, wanted = str(actual.get("command", "")), str(expected.get("command", ""))
    if given and wanted and given != wanted:
        return False
    first, second = _path(expected), _path(actual)
    if first and second and _last_parts(first, 2) != _last_parts(second, 2):
        return False
    if not given == wanted == "view":
        return True
    seen, asked = _range(actual.get("view_range")), _range(expected.get("view_range"))
    if seen is None or asked is None:
        return True
    overlap = max(0, min(seen[1], asked[1]) - max(seen[0], asked[0]))
    return overlap / max(1, asked[1] - asked[0]) >= MIN_OVERLAP


def _range(value: Json) -> tuple[int, int] | None:
    try:
        pair = json.loads(value) if isinstance(value, str) else value
        if isinstance(pair, list) and len(pair) == 2:
            return int(pair[0]), int(pair[1])
    except (ValueError, TypeError):
        pass
    return None


def _same_command_target(expected: str, actual: str) -> bool:
    first, second = _verb(expected), _verb(actual)
    if first and second and first != second:
        return False
    wanted, given = _path_ends(expected), _path_ends(actual)
    if wanted and given and not wanted & given:
        return False
    return not expected or not actual or _ratio(actual, expected) >= MIN_COMMAND_SIMILARITY


def _verb(command: str) -> str:
    return command.split()[0].rsplit("/", 1)[-1] if command else ""


def _path_ends(command: str) -> set[str]:
    paths = [path for path in _PATHS.findall(command) if not path.startswith("--") and len(path) > 2]
    return {_last_parts(path.rstrip("/"), 3) for path in paths} - {""}


def _last_parts(path: str, count: int) -> str:
    return "/".join(path.strip("/").split("/")[-count:])


def _path(arguments: Json) -> str:
    return next((str(arguments[key]).strip() for key in _PATH_KEYS if key in arguments), "")


def _command(arguments: Json) -> str:
    return next((str(arguments[key]).strip() for key in ("command", "cmd") if key in arguments), "")


def _similarity(expected: _Call, actual: _Call) -> float:
    kinds = (actual.category, expected.category)
    if kinds == ("bash", "bash"):
        first, second = _command(expected.arguments), _command(actual.arguments)
        return _ratio(second, first) if first and second else 1.0
    return _edit_similarity(expected.arguments, actual.arguments) if kinds == ("edit", "edit") else 1.0


def _edit_similarity(expected: Json, actual: Json) -> float:
    old, new = (str(actual.get(key, "")) for key in ("old_str", "new_str"))
    wanted_old, wanted_new = (str(expected.get(key, "")) for key in ("old_str", "new_str"))
    if (old or new) and (wanted_old or wanted_new):
        return min(_text_similarity(old, wanted_old), _text_similarity(new, wanted_new))
    return _text_similarity(_content(actual), _content(expected))


def _text_similarity(actual: str, expected: str) -> float:
    return _ratio(actual, expected) if actual and expected else float(actual == expected)


def _content(arguments: Json) -> str:
    if "new_str" in arguments:
        return f"{arguments.get('old_str', '')}\n{arguments['new_str']}"
    for key in ("patch", "diff", "content", "file_text"):
        if key in arguments:
            return str(arguments[key])
    return ""


def _size_penalty(actual: _Call, alpha: float) -> float:
    size = len(_content(actual.arguments)) if actual.category == "edit" else 0
    return alpha * min(size / LARGE_EDIT, 1.0)


def _ratio(actual: str, expected: str) -> float:
    # The order of the two matters to difflib.
    return SequenceMatcher(None, actual[:MAX_CHARACTERS], expected[:MAX_CHARACTERS]).ratio()

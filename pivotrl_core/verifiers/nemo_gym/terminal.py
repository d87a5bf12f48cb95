"""NeMo Gym's terminus_judge without its judge: schema, completion, and the similarity of the keystrokes.

Source: github.com/NVIDIA-NeMo/Gym, resources_servers/terminus_judge, with the settings of its simple configuration.
Kept as they are there: no fences or prose around the JSON, and difflib's similarity with its junk heuristic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import SequenceMatcher
from enum import StrEnum

from pivotrl_core.types import Json
from pivotrl_core.verifiers.nemo_gym.outcome import Outcome
from pivotrl_core.verifiers.nemo_gym.settings import TerminalSettings
from pivotrl_core.verifiers.responses import Response

_THINKING_END = "</think>"


class Failure(StrEnum):
    NONE = "none"
    EXPECTED_ANSWER_INVALID = "expected_answer_invalid"
    MODEL_OUTPUT_INVALID = "model_output_invalid"
    UNKNOWN_HARNESS = "unknown_harness"
    SCHEMA_CHECK_FAILED = "schema_check_failed"
    TASK_COMPLETE_CHECK_FAILED = "task_complete_check_failed"
    STRING_SIMILARITY_BELOW_THRESHOLD = "string_similarity_below_threshold"


_TEXT, _NUMBER, _YES_NO, _LIST = "text", "number", "yes or no", "list"
_ANSWERS: Mapping[str, Mapping[str, str]] = {
    "terminus_1": {"state_analysis": _TEXT, "explanation": _TEXT, "commands": _LIST, "is_task_complete": _YES_NO},
    "terminus_2": {"analysis": _TEXT, "plan": _TEXT, "commands": _LIST, "task_complete": _YES_NO},
}
_COMMANDS: Mapping[str, Mapping[str, str]] = {
    "terminus_1": {"keystrokes": _TEXT, "is_blocking": _YES_NO, "timeout_sec": _NUMBER},
    "terminus_2": {"keystrokes": _TEXT, "duration": _NUMBER},
}
_OPTIONAL = frozenset({"task_complete", "duration"})


def verify_terminal(row: Mapping[str, Json], response: Response, settings: TerminalSettings) -> Outcome:
    """The server's verdict where no judge is asked."""
    metadata = row.get("metadata") or {}
    answer = row.get("expected_answer") or metadata.get("expected_answer")
    if not answer:
        return Outcome(0.0, Failure.EXPECTED_ANSWER_INVALID)
    text = "\n".join(response.texts).strip()
    if not text:
        return Outcome(0.0, Failure.MODEL_OUTPUT_INVALID, {"parsed": False})
    if _THINKING_END in text:
        text = text.rsplit(_THINKING_END, 1)[1].strip()
    expected, actual = _object(str(answer)), _object(text)
    if expected is None:
        return Outcome(0.0, Failure.EXPECTED_ANSWER_INVALID)
    if actual is None:
        return Outcome(0.0, Failure.MODEL_OUTPUT_INVALID, {"parsed": False})
    harness = metadata.get("harness")
    if not isinstance(harness, str) or harness not in _ANSWERS:
        return Outcome(0.0, Failure.UNKNOWN_HARNESS, {"parsed": True})
    if not _fits(expected, harness):
        return Outcome(0.0, Failure.EXPECTED_ANSWER_INVALID, {"parsed": True})
    if not _fits(actual, harness):
        return Outcome(0.0, Failure.SCHEMA_CHECK_FAILED, {"parsed": True, "schema": False})
    return _compare(expected, actual, row.get("threshold"), settings)


def _compare(
    expected: Mapping[str, Json], actual: Mapping[str, Json], own_threshold: Json, settings: TerminalSettings
) -> Outcome:
    details: dict[str, Json] = {"parsed": True, "schema": True, "complete": _is_as_complete(expected, actual)}
    if not details["complete"]:
        return Outcome(0.0, Failure.TASK_COMPLETE_CHECK_FAILED, details)
    if not settings.enable_string_similarity:
        return Outcome(1.0, Failure.NONE, details)
    details["similarity"] = _similarity(expected["commands"], actual["commands"])
    thresholds = (own_threshold, settings.threshold, settings.string_similarity_threshold)
    if details["similarity"] >= next(value for value in thresholds if value is not None):
        return Outcome(1.0, Failure.NONE, details)
    return Outcome(0.0, Failure.STRING_SIMILARITY_BELOW_THRESHOLD, details)


def _object(text: str) -> dict[str, Json] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _fits(answer: Mapping[str, Json], harness: str) -> bool:
    """Whether an answer has the keys of its harness and no other, each of its type."""
    commands = answer.get("commands")
    return (
        _has_keys(answer, _ANSWERS[harness])
        and isinstance(commands, list)
        and all(isinstance(command, dict) and _has_keys(command, _COMMANDS[harness]) for command in commands)
    )


def _has_keys(value: Mapping[str, Json], kinds: Mapping[str, str]) -> bool:
    required = kinds.keys() - _OPTIONAL
    return required <= value.keys() <= kinds.keys() and all(_is_of(item, kinds[key]) for key, item in value.items())


def _is_of(value: Json, kind: str) -> bool:
    if kind == _NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, {_TEXT: str, _YES_NO: bool, _LIST: list}[kind])


def _is_as_complete(expected: Mapping[str, Json], actual: Mapping[str, Json]) -> bool:
    """Where the expected answer says that the task is complete, so must the actual one; the reverse passes."""
    for key in ("task_complete", "is_task_complete"):
        if expected.get(key):
            return bool(actual.get(key))
    return True


def _similarity(expected: list[dict[str, Json]], actual: list[dict[str, Json]]) -> float:
    if not expected or not actual:
        return float(not expected and not actual)
    first, second = ("".join(command["keystrokes"] for command in commands) for commands in (expected, actual))
    return SequenceMatcher(None, first, second).ratio()

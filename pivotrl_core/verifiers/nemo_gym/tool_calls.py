"""NeMo Gym's single_step_tool_use_with_argument_comparison: a call or a message, compared with the expected one.

Source: github.com/NVIDIA-NeMo/Gym, resources_servers/single_step_tool_use_with_argument_comparison. Kept as they are
there: any message will do, `true` counts as an instance of an integer, no schema defaults, an overlap of words that is
at most 0.5, and surplus calls that cost nothing unless `parallel_tool_call_rewarding` is on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from pivotrl_core.types import Json, ToolCall
from pivotrl_core.verifiers.matching import matched_rows
from pivotrl_core.verifiers.nemo_gym.outcome import Outcome
from pivotrl_core.verifiers.nemo_gym.settings import ToolCallSettings
from pivotrl_core.verifiers.responses import Response


class Category(StrEnum):
    """Names as the server's enumeration has them."""

    NO_ACTION_FOUND = "NO_ACTION_FOUND"
    NO_EXPECTED_TOOL_CALL = "NO_EXPECTED_TOOL_CALL"
    EXPECTED_CHAT_MESSAGE_FOUND = "EXPECTED_CHAT_MESSAGE_FOUND"
    NO_EXPECTED_CHAT_MESSAGE = "NO_EXPECTED_CHAT_MESSAGE"
    UNEXPECTED_TOOL = "UNEXPECTED_TOOL"
    DECODE = "ARGUMENTS_DECODE_ERROR"
    TYPE = "ARGUMENT_VALUE_TYPE_DIFFERENT"
    KEYS = "ARGUMENT_OBJECT_KEYS_DIFFERENT"
    LIST_LENGTH = "ARGUMENT_LIST_LENGTH_DIFFERENT"
    VALUE = "ARGUMENT_VALUE_DIFFERENT"
    EXPECTED_TOOL_CALL = "EXPECTED_TOOL_CALL"
    LENGTH = "FUNCTION_CALL_BATCH_LENGTH_DIFFERENT"
    EXPECTED_TOOL_CALL_BATCH = "EXPECTED_TOOL_CALL_BATCH"


def verify_tool_call(row: Mapping[str, Json], response: Response, settings: ToolCallSettings) -> Outcome:
    """The server's verdict.

    Raises:
        ValueError: the row's expected action is none, or its arguments are not JSON.
    """
    expected = _expected(row.get("expected_action"))
    if not response.calls and not response.texts:
        return Outcome(0.0, Category.NO_ACTION_FOUND)
    if expected is None:
        if response.calls:
            return Outcome(0.0, Category.NO_EXPECTED_CHAT_MESSAGE)
        return Outcome(1.0, Category.EXPECTED_CHAT_MESSAGE_FOUND)
    if not response.calls:
        return Outcome(0.0, Category.NO_EXPECTED_TOOL_CALL)
    return _compare_calls(expected, response.calls, settings)


def _expected(action: Json) -> list[ToolCall] | None:
    """The expected calls; None where a message is expected."""
    kind = action.get("type") if isinstance(action, Mapping) else None
    if kind == "message" and isinstance(action.get("content"), str):
        return None
    if kind == "function_call":
        return [_expected_call(action)]
    calls = action.get("calls") if kind == "function_call_batch" else None
    if not isinstance(calls, list) or not calls:
        raise ValueError("expected_action: expected a message, a function_call or a function_call_batch with calls")
    return [_expected_call(call) for call in calls]


def _expected_call(call: Json) -> ToolCall:
    name, arguments = (call.get("name"), call.get("arguments")) if isinstance(call, Mapping) else (None, None)
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise ValueError("expected_action: a call needs a name, and arguments as a text")
    return ToolCall(name, arguments)


def _compare_calls(expected: Sequence[ToolCall], actual: Sequence[ToolCall], settings: ToolCallSettings) -> Outcome:
    called = {call.name for call in actual}
    categories_EA = [
        [_compare_call(one, wanted, call, settings) for call in actual]
        for one, wanted in ((call, _decoded(call) if call.name in called else None) for call in expected)
    ]
    if len(expected) == len(actual) == 1:
        category = categories_EA[0][0]
        return Outcome(float(category is Category.EXPECTED_TOOL_CALL), category)
    fits_EA = [[category is Category.EXPECTED_TOOL_CALL for category in row] for row in categories_EA]
    # The most constrained first: which calls are left over decides the category.
    order = sorted(range(len(expected)), key=lambda index: sum(fits_EA[index]))
    matched = matched_rows(fits_EA, order)
    details = {"calls_expected": len(expected), "calls": len(actual), "matched": len(matched)}
    reward = settings.parallel_reward(len(matched), len(expected), len(actual))
    if reward is None:
        return Outcome(0.0, Category.LENGTH, details)
    if reward == 1.0:
        one = len(expected) == 1
        return Outcome(reward, Category.EXPECTED_TOOL_CALL if one else Category.EXPECTED_TOOL_CALL_BATCH, details)
    left = [index for index in range(len(expected)) if index not in matched]
    if not left or len(matched) == len(actual):
        return Outcome(reward, Category.LENGTH, details)
    return Outcome(reward, _nearest(categories_EA[left[0]]), details)


def _nearest(categories_A: Sequence[Category]) -> Category:
    """Why an expected call is not there: the first reason that has the right tool."""
    other = (Category.UNEXPECTED_TOOL, Category.EXPECTED_TOOL_CALL)
    return next((category for category in categories_A if category not in other), Category.UNEXPECTED_TOOL)


def _decoded(expected: ToolCall) -> Json:
    try:
        return json.loads(expected.arguments)
    except (ValueError, RecursionError):
        raise ValueError("expected_action: the arguments are not JSON") from None


def _compare_call(expected: ToolCall, wanted: Json, actual: ToolCall, settings: ToolCallSettings) -> Category:
    if expected.name != actual.name:
        return Category.UNEXPECTED_TOOL
    try:
        return _compare(wanted, json.loads(actual.arguments), settings) or Category.EXPECTED_TOOL_CALL
    except (ValueError, RecursionError):  # what Python cannot hold, the server answers with an error
        return Category.DECODE


def _compare(expected: Json, actual: Json, settings: ToolCallSettings) -> Category | None:
    """The first difference, depth first in the order of the expected value; None: the same."""
    if not isinstance(actual, type(expected)):
        return Category.TYPE
    if isinstance(expected, dict):
        if expected.keys() != actual.keys():
            return Category.KEYS
        differences = (_compare(value, actual[key], settings) for key, value in expected.items())
        return next(filter(None, differences), None)
    if isinstance(expected, list):
        if len(expected) != len(actual):
            return Category.LIST_LENGTH
        differences = (_compare(one, two, settings) for one, two in zip(expected, actual, strict=True))
        return next(filter(None, differences), None)
    if isinstance(expected, float):
        same = abs(actual - expected) < settings.floating_point_comparison_threshold
    elif isinstance(expected, str):
        same = _same_text(expected, actual, settings.word_count_similarity_threshold)
    else:
        same = expected == actual
    return None if same else Category.VALUE


def _same_text(expected: str, actual: str, threshold: float) -> bool:
    first, second = (Counter(text.strip().lower().split()) for text in (expected, actual))
    total, other = first.total(), second.total()
    if total < 2 or other < 2:
        return expected == actual
    return (first & second).total() / (total + other) >= threshold

"""What kind of decision a turn is: told by what the expert did and by what stands before it, never by a model.

Whether a tool result tells of a failure is read off its text, since most formats have no field for it: a heuristic, for
reports alone. Nothing is selected or judged by it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from pivotrl_core.trajectories.decoding import decode_json
from pivotrl_core.types import Json, Message, Role

HEAD = 2000
"""Characters of a result that are looked at, from its beginning, and as many from its end."""
_ERROR_KEYS = ("error", "errors", "exception")
_FAILED_WORDS = frozenset({"error", "failed", "failure", "denied", "invalid"})
_FAILURE = re.compile(
    r"\A\W{0,3}(?:error|exception|failed|failure|fatal|invalid|unknown tool|traceback)\b"
    r"|Traceback \(most recent call last\)"
    r"|<returncode>(?!0<)-?\d+</returncode>"
    r"|\bexit(?:ed with)?(?: code| status)?[ :=]+[1-9]\d*\b"
    r"|: command not found\b|: No such file or directory\b|\bPermission denied\b|\bSyntaxError\b",
    re.IGNORECASE,
)


class Decision(StrEnum):
    """Kinds of turns; of those that fit, the first one here counts."""

    ERROR_HANDLING = "error_handling"  # the turn after a failed tool result, whatever it does
    PARALLEL_CALLS = "parallel_calls"  # several calls at once
    TOOL = "tool"  # a call of a tool that this state has not called yet: which one is what is decided
    ARGUMENT = "argument"  # a further call of a tool that was called before: what to ask it is what is decided
    ANSWER = "answer"  # a message after a tool result
    REPLY = "reply"  # a message without a tool result since the last message of the user


def decision_of(state: Sequence[Message], expert: Message) -> Decision:
    """The kind of decision that the expert took at a state."""
    results = _last_results(state)
    if any(is_failure(result.content) for result in results):
        return Decision.ERROR_HANDLING
    if len(expert.tool_calls) > 1:
        return Decision.PARALLEL_CALLS
    if expert.tool_calls:
        name = expert.tool_calls[0].name
        known = any(call.name == name for message in state for call in message.tool_calls)
        return Decision.ARGUMENT if known else Decision.TOOL
    return Decision.ANSWER if results else Decision.REPLY


def _last_results(state: Sequence[Message]) -> list[Message]:
    """The tool results right before the turn."""
    results: list[Message] = []
    for message in reversed(state):
        if message.role is not Role.TOOL:
            break
        results.append(message)
    return results


def is_failure(result: str) -> bool:
    """Whether a tool's result reads like a failure."""
    try:
        value: Json = decode_json(result) if result.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return _tells_failure(value)
    return bool(_FAILURE.search(result[:HEAD]) or _FAILURE.search(result[-HEAD:]))


def _tells_failure(value: dict[str, Json]) -> bool:
    status = [item for key, item in value.items() if key == "status" or key.endswith("_status")]
    words = any(isinstance(item, str) and item.lower() in _FAILED_WORDS for item in status)
    return words or value.get("success") is False or any(bool(value.get(key)) for key in _ERROR_KEYS)

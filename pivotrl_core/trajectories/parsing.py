"""From the text that a policy wrote to an action.

Whatever is wrong with a call is named as the action's error: text that tries to call a tool and fails is never taken
for a message, nor is a call in the other format than the one that is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pivotrl_core.trajectories.arguments import decode_arguments, scan_members, scan_value
from pivotrl_core.trajectories.formatting import CLOSE_TAG, COMPACT_NAME, OPEN_TAG, OTHER_FORMAT, ToolFormat
from pivotrl_core.trajectories.thinking import OPEN, split_thinking
from pivotrl_core.types import Action, Tool, ToolCall

_LATE_CALL = re.compile(rf"^[ \t]*@({COMPACT_NAME.pattern})[ \t]*\{{", re.MULTILINE)


class _MalformedCallError(ValueError):
    """Carries what is wrong with a call."""


def parse_action(text: str, tool_format: ToolFormat | str, tools: Sequence[Tool] = ()) -> Action:
    """Parse one turn. Never raises on any text.

    Args:
        text: what the policy wrote, without the end-of-turn mark.
        tool_format: `hermes` or `compact`.
        tools: the tools that are offered; a call of another one is an error. None given: any name may be called.
    """
    compact = ToolFormat(tool_format) is ToolFormat.COMPACT
    begins_with_call = text.lstrip().startswith("@" if compact else OPEN_TAG)
    thinking, rest = ("", text) if begins_with_call else split_thinking(text)
    if not rest and text.lstrip().startswith(OPEN) and "</think>" not in text:
        return Action(text=text, thinking=thinking, error="the thinking never ends")
    try:
        content, calls = _parse_compact(rest, tools) if compact else _parse_hermes(rest, tools)
        _check_names(calls, tools)
    except _MalformedCallError as error:
        return Action(text=text, thinking=thinking, error=str(error))
    return Action(content, calls, text, thinking=thinking)


def _check_names(calls: Sequence[ToolCall], tools: Sequence[Tool]) -> None:
    names = {tool.name for tool in tools}
    for call in calls:
        if names and call.name not in names:
            raise _MalformedCallError(f"no tool is named {call.name[:80]!r}")
        if error := decode_arguments(call.arguments).error:
            raise _MalformedCallError(f"arguments of {call.name[:80]}: {error}")


def _has_late_call(text: str, tools: Sequence[Tool]) -> bool:
    """Whether a line calls one of the tools, or another one with a JSON object.

    Style sheets (`@font-face {`) and bibliographies (`@article{`) have lines that only look so.
    """
    names = {tool.name for tool in tools}
    return any(match[1] in names or _is_object(text, match.end() - 1) for match in _LATE_CALL.finditer(text))


def _is_object(text: str, start: int) -> bool:
    try:
        scan_value(text, start)
    except ValueError:
        return False
    return True


def _parse_compact(text: str, tools: Sequence[Tool]) -> tuple[str, tuple[ToolCall, ...]]:
    """A turn that begins with '@' is one call a line, and anything else is a message."""
    rest = text.strip()
    if not rest.startswith("@"):
        if _has_late_call(rest, tools):
            raise _MalformedCallError("a call after text; a turn is either calls or words")
        if OPEN_TAG in rest:
            raise _MalformedCallError(OTHER_FORMAT)
        return rest, ()
    calls: list[ToolCall] = []
    while rest:
        match = COMPACT_NAME.match(rest, 1) if rest.startswith("@") else None
        if match is None:
            raise _MalformedCallError("expected a call, '@name {arguments}'")
        start = match.end() + len(rest[match.end() :]) - len(rest[match.end() :].lstrip(" \t"))
        end = _object_end(rest, start, match[0])
        calls.append(ToolCall(match[0], rest[start:end]))
        line_end, _, following = rest[end:].partition("\n")
        if line_end.strip():
            raise _MalformedCallError("text after a call on its line")
        rest = following.lstrip()
    return "", tuple(calls)


def _object_end(text: str, start: int, name: str) -> int:
    if text[start : start + 1] != "{":
        raise _MalformedCallError(f"arguments of {name[:80]} are missing; write {{}} where there are none")
    try:
        return scan_value(text, start)[1]
    except ValueError as error:
        raise _MalformedCallError(f"arguments of {name[:80]}: {str(error)[:120]}") from None


def _parse_hermes(text: str, tools: Sequence[Tool]) -> tuple[str, tuple[ToolCall, ...]]:
    """Blocks of `<tool_call>`; text around them is the message that goes with the calls."""
    words: list[str] = []
    calls: list[ToolCall] = []
    rest = text
    while OPEN_TAG in rest:
        before, _, rest = rest.partition(OPEN_TAG)
        words.append(before)
        call, end = _read_block(rest, len(rest) - len(rest.lstrip()))
        calls.append(call)
        rest = rest[end:].lstrip()
        if not rest.startswith(CLOSE_TAG):
            raise _MalformedCallError(f"{CLOSE_TAG} is missing")
        rest = rest[len(CLOSE_TAG) :]
    words.append(rest)
    if any(CLOSE_TAG in part for part in words):
        raise _MalformedCallError(f"{OPEN_TAG} is missing")
    if not calls and _is_bare_call(text):
        raise _MalformedCallError(f"a call outside of {OPEN_TAG}")
    if not calls and _has_late_call(text, tools):
        raise _MalformedCallError(OTHER_FORMAT)
    return "\n".join(part.strip() for part in words if part.strip()), tuple(calls)


def _read_block(text: str, start: int) -> tuple[ToolCall, int]:
    """The call of the JSON object that begins at `start`, and where the object ends."""
    if text[start : start + 1] != "{":
        raise _MalformedCallError(f"{OPEN_TAG} holds no JSON object")
    try:
        members, end = scan_members(text, start)
    except ValueError as error:
        raise _MalformedCallError(f"{OPEN_TAG}: {str(error)[:120]}") from None
    name = json.loads(members.get("name", "null"))
    if not isinstance(name, str) or not name.strip():
        raise _MalformedCallError("the call names no tool")
    arguments = members.get("arguments", "")
    if not arguments:
        raise _MalformedCallError(f"arguments of {name[:80]} are missing; write {{}} where there are none")
    # Some models write the arguments as a string that holds JSON, as the OpenAI format does.
    return ToolCall(name, json.loads(arguments) if arguments.startswith('"') else arguments), end


def _is_bare_call(text: str) -> bool:
    decoded = decode_arguments(text)
    return not decoded.error and {"name", "arguments"} <= decoded.value.keys()

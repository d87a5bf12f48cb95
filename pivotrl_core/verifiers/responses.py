"""What a model answered, in any of the shapes in which answers are stored, as the calls and texts that are in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pivotrl_core.trajectories.formatting import ToolFormat
from pivotrl_core.trajectories.parsing import parse_action
from pivotrl_core.types import Action, Json, ToolCall

_TEXTS = ("output_text", "text")


@dataclass(frozen=True, slots=True)
class Response:
    """Calls, and the text parts of assistant messages, in their order. `plain` where it is only a text as sampled."""

    calls: tuple[ToolCall, ...] = ()
    texts: tuple[str, ...] = ()
    plain: bool = False

    def action(self, parse_calls: bool) -> Action:
        """The answer as an action; of a plain text, calls that stand in it are parsed where `parse_calls` says so."""
        text = "\n".join(self.texts)
        if self.plain and parse_calls:
            return parse_action(text, ToolFormat.HERMES)
        return Action(text, self.calls, text)


def read_response(value: Json) -> Response:
    """Read a Responses object, its `output` list, a chat completion, a chat message, or plain text.

    Raises:
        ValueError: it is none of these.
    """
    if isinstance(value, str):
        return Response(texts=(value,), plain=True)
    if isinstance(value, list):
        return _read_items(value)
    if isinstance(value, Mapping):
        if isinstance(value.get("output"), list):
            return _read_items(value["output"])
        choices = value.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
            return read_response(choices[0].get("message"))
        if "role" in value or "content" in value or "tool_calls" in value:
            return _read_message(value)
    raise ValueError("response: expected a Responses object, its output list, a chat message, or text")


def _read_items(items: Sequence[Json]) -> Response:
    calls: list[ToolCall] = []
    texts: list[str] = []
    for item in items:
        if not isinstance(item, Mapping):
            raise ValueError("response: an item of the output is no object")
        kind = item.get("type") or "message"
        if kind == "function_call":
            calls.append(_read_call(item))
        elif kind == "message" and item.get("role", "assistant") == "assistant":
            texts += _texts(item.get("content"))
            calls += _chat_calls(item)
    return Response(tuple(calls), tuple(texts))


def _read_message(message: Mapping[str, Json]) -> Response:
    return Response(tuple(_chat_calls(message)), tuple(_texts(message.get("content"))))


def _chat_calls(message: Mapping[str, Json]) -> list[ToolCall]:
    found = message.get("tool_calls") or []
    if not isinstance(found, list):
        raise ValueError("response: tool_calls is no list")
    if not found and message.get("function_call"):  # the older form
        return [_read_call(message["function_call"])]
    return [_read_call(call.get("function", call) if isinstance(call, Mapping) else {}) for call in found]


def _read_call(call: Json) -> ToolCall:
    name, arguments = (call.get("name"), call.get("arguments")) if isinstance(call, Mapping) else (None, None)
    if not isinstance(name, str):
        raise ValueError("response: a call names no tool")
    # Some write arguments as an object; a text is what the model wrote, and stays as it is.
    text = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
    return ToolCall(name, text)


def _texts(content: Json) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    texts = [part if isinstance(part, str) else _text_of(part) for part in parts]
    return [text for text in texts if text is not None]


def _text_of(part: Json) -> str | None:
    text = part.get("text") if isinstance(part, Mapping) and part.get("type", "text") in _TEXTS else None
    return text if isinstance(text, str) else None

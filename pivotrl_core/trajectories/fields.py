"""Typed access to the fields of a foreign row: a checked value, or an error that carries the field's path."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from pivotrl_core.errors import DataError
from pivotrl_core.trajectories.decoding import MAX_DEPTH, decode_json, has_lone_surrogate, nesting_depth
from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.marks import GROUNDS, RESERVED
from pivotrl_core.types import Json, Role, Tool, ToolCall

ROLES: Mapping[str, Role] = {
    "system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER,
    "assistant": Role.ASSISTANT, "tool": Role.TOOL, "function": Role.TOOL,
}  # fmt: skip
SCHEMA_KEYS = ("parameters", "params", "input_schema", "inputSchema")
"""Where public formats keep the JSON schema of a tool's arguments."""
CALL_PARTS = frozenset({"tool_use", "tool_result", "server_tool_use"})
"""Anthropic's blocks, in which calls and results are parts of a content."""
TEXT_PARTS = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})


class InvalidRowError(DataError):
    """A row cannot be read. Carries what a drop record needs."""

    def __init__(self, reason: DropReason, field: str, detail: str = "") -> None:
        super().__init__(f"{field}: {reason}{f' ({detail})' if detail else ''}")
        self.reason = reason
        self.field = field
        self.detail = detail


def reject(reason: DropReason, field: str, detail: str = "") -> NoReturn:
    """Give up on the row."""
    raise InvalidRowError(reason, field, detail)


def read_object(value: Json, field: str) -> Mapping[str, Json]:
    """A JSON object."""
    if value is None:
        reject(DropReason.MISSING_FIELD, field)
    if not isinstance(value, Mapping):
        reject(DropReason.WRONG_TYPE, field, f"expected an object, found {type(value).__name__}")
    return value


def read_list(value: Json, field: str) -> list[Json]:
    """A JSON list that is not empty."""
    if value is None or value == []:
        reject(DropReason.MISSING_FIELD, field)
    if not isinstance(value, list):
        reject(DropReason.WRONG_TYPE, field, f"expected a list, found {type(value).__name__}")
    return value


def read_role(value: Json, field: str) -> Role:
    """A role, under any of its public names."""
    if value is None:
        reject(DropReason.MISSING_FIELD, field)
    if not isinstance(value, str) or value not in ROLES:
        reject(DropReason.UNKNOWN_ROLE, field, repr(value)[:80])
    return ROLES[value]


def read_content(value: Json, field: str) -> str:
    """Text of a message: a string, null, or a list of typed text parts (joined without a separator)."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        reject(DropReason.WRONG_TYPE, field, f"expected text or a list of parts, found {type(value).__name__}")
    return "".join(_read_part(part, f"{field}[{index}]") for index, part in enumerate(value))


def _read_part(part: Json, field: str) -> str:
    if isinstance(part, str):
        return part
    kind = read_object(part, field).get("type")
    if isinstance(kind, str) and kind in CALL_PARTS:
        reject(DropReason.CALLS_IN_PARTS, f"{field}.type", kind)
    key = "refusal" if kind == "refusal" else "text"
    text = part.get(key)
    if not isinstance(kind, str) or kind not in TEXT_PARTS | {"refusal"}:
        reject(DropReason.UNSUPPORTED_CONTENT, f"{field}.type", repr(kind)[:80])
    if not isinstance(text, str):
        reject(DropReason.WRONG_TYPE, f"{field}.{key}", "expected text")
    return text


def read_call_arguments(call: Mapping[str, Json], field: str) -> str:
    """The `arguments` of a call at `field`, as `read_arguments` has them."""
    if "arguments" not in call:
        reject(DropReason.MISSING_FIELD, f"{field}.arguments")
    return read_arguments(call["arguments"], f"{field}.arguments")


def read_arguments(value: Json, field: str) -> str:
    """Raw JSON text of a call's arguments; an object is written out, and blank text stands for no arguments."""
    if value is None:
        reject(DropReason.ARGUMENTS_NOT_JSON, field, "null; a call without arguments has {}")
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        reject(DropReason.WRONG_TYPE, field, f"expected text or an object, found {type(value).__name__}")
    return value if value.strip() else "{}"


def first_name(row: Mapping[str, Json], keys: Sequence[str]) -> str:
    """The first of some keys that names something (an empty text names nothing), or an empty text."""
    return next((str(row[key]) for key in keys if isinstance(row.get(key), str | int) and row[key] != ""), "")


def short_values(row: Mapping[str, Json], but: Collection[str] = ()) -> dict[str, Json]:
    """The plain values of a row (texts, numbers, null) and what verdicts stand on, for a trajectory's metadata."""
    return {
        str(key): value
        for key, value in row.items()
        if key not in RESERVED and key not in but and (key in GROUNDS or isinstance(value, str | int | float | None))
    }


def read_call_name(value: Json, field: str) -> str:
    """The name of the tool that a call calls."""
    if not isinstance(value, str) or not value.strip():
        reject(DropReason.UNNAMED_TOOL_CALL, field)
    return value


def read_function(value: Json, field: str, call_id: str = "") -> ToolCall:
    """A call from an object with `name` and `arguments`."""
    function = read_object(value, field)
    name = read_call_name(function.get("name"), f"{field}.name")
    return ToolCall(name, read_call_arguments(function, field), call_id)


def read_decoded(value: Json, field: str) -> Json:
    """JSON that stood as text in a row: the row's own bounds hold for it too."""
    if nesting_depth(value, MAX_DEPTH) > MAX_DEPTH:
        reject(DropReason.TOO_DEEP, field, f"more than {MAX_DEPTH} levels")
    if has_lone_surrogate(value):
        reject(DropReason.LONE_SURROGATE, field)
    return value


def read_json_text(text: str, field: str) -> Json:
    """The JSON value that a text of a row holds, within the row's own bounds."""
    try:
        return read_decoded(decode_json(text), field)
    except RecursionError:
        reject(DropReason.TOO_DEEP, field)
    except ValueError as error:
        reject(DropReason.ARGUMENTS_NOT_JSON, field, str(error)[:80])


def read_tools(value: Json, field: str) -> tuple[Tool, ...]:
    """Tools of a row: a list, its JSON text, or nothing."""
    if isinstance(value, str) and value.strip():
        try:
            value = read_decoded(decode_json(value), field)
        except RecursionError:
            reject(DropReason.TOO_DEEP, field)
        except ValueError:
            reject(DropReason.INVALID_TOOL, field, "the text is not JSON")
    if not value:
        return ()
    if not isinstance(value, list):
        reject(DropReason.WRONG_TYPE, field, f"expected a list, found {type(value).__name__}")
    tools = tuple(_read_tool(tool, f"{field}[{index}]") for index, tool in enumerate(value))
    names = [tool.name for tool in tools]
    for index, name in enumerate(names):
        if name in names[:index]:
            reject(DropReason.INVALID_TOOL, f"{field}[{index}].name", f"second tool named {name!r}")
    return tools


def _read_tool(value: Json, field: str) -> Tool:
    if not isinstance(value, Mapping):
        reject(DropReason.INVALID_TOOL, field, "expected an object")
    inner = value.get("function", value)
    if not isinstance(inner, Mapping):
        reject(DropReason.INVALID_TOOL, f"{field}.function", "expected an object")
    name = inner.get("name")
    parameters: Json = next((inner[key] for key in SCHEMA_KEYS if inner.get(key)), {})
    if not isinstance(name, str) or not name.strip():
        kind = inner.get("type")
        if isinstance(kind, str) and kind != "function":
            reject(DropReason.BUILT_IN_TOOL, f"{field}.type", kind[:80])
        reject(DropReason.INVALID_TOOL, f"{field}.name", "no name")
    if not isinstance(parameters, Mapping):
        reject(DropReason.INVALID_TOOL, f"{field}.parameters", "expected a JSON schema")
    return Tool(name, str(inner.get("description") or inner.get("doc") or ""), parameters)

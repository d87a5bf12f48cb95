"""What a tool of the rewritten pairs consists of, and the parts that schemas are written with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pivotrl_core.types import Json, Tool
from tests.labelled.making.tool_rules import Arguments, Rule

TEXT: dict[str, Json] = {"type": "string"}
NUMBER: dict[str, Json] = {"type": "number"}
WHOLE: dict[str, Json] = {"type": "integer"}
DAY: dict[str, Json] = {"type": "string", "format": "date"}
INSTANT: dict[str, Json] = {"type": "string", "format": "date-time"}
TIME: dict[str, Json] = {"type": "string", "format": "time"}
SET_OF_TEXTS: dict[str, Json] = {"type": "array", "items": TEXT, "uniqueItems": True}

Rules = Sequence[tuple[str, Rule]]


@dataclass(frozen=True)
class Family:
    """A tool, what is asked of it, several calls of the expert's, and rules by kind."""

    tool: Tool
    request: str
    calls: Sequence[Arguments]
    valid: Rules
    wrong: Rules


def tool(name: str, about: str, required: str, properties: dict[str, Json], **more: Json) -> Tool:
    schema = {"type": "object", "properties": properties, "required": required.split(), **more}
    return Tool(name, about, schema)


def enum(*values: str, **more: Json) -> dict[str, Json]:
    return {"type": "string", "enum": list(values), **more}


def default(schema: dict[str, Json], value: Json) -> dict[str, Json]:
    return {**schema, "default": value}

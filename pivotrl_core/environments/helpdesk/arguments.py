"""Arguments of a tool call: raw JSON text in, checked values out, or an ArgumentError that the agent gets to read.

Values count, spellings do not: 3.0 is the integer 3, days and order numbers come out in one form, and defaults are
filled in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError, best_match

from pivotrl_core.environments.helpdesk.catalogue import ORDER_ID, TOOLS
from pivotrl_core.environments.helpdesk.spellings import canonical_date, canonical_order_id
from pivotrl_core.errors import PivotRLError
from pivotrl_core.types import Json, Tool

MAX_CHARACTERS = 2000
TOOLS_BY_NAME = {tool.name: tool for tool in TOOLS}

_FORMATS = FormatChecker(formats=())
_FORMATS.checks("date")(lambda value: not isinstance(value, str) or canonical_date(value) is not None)
_FORMATS.checks("email")(lambda value: not isinstance(value, str) or value.count("@") == 1)


class ArgumentError(PivotRLError):
    """The arguments of a tool call are wrong; the text is short and meant for the agent."""


def parse_arguments(tool: Tool, raw: str) -> dict[str, Json]:
    """The call's arguments as `tools.py` wants them.

    Raises:
        ArgumentError: not JSON, not an object, against the schema, or too long or too deep to look at.
    """
    if len(raw) > MAX_CHARACTERS:
        raise ArgumentError("arguments are too long")
    try:
        values = json.loads(raw, parse_constant=_refuse_constant)
        if not isinstance(values, dict):
            raise ArgumentError("arguments must be an object")
        problem = best_match(_validator(tool.name).iter_errors(values))
    except (ValueError, RecursionError) as error:
        raise ArgumentError("arguments are not valid JSON") from error
    if problem is not None:
        raise ArgumentError(_explain(problem))
    properties: Mapping[str, Json] = tool.parameters["properties"]
    given = {name: _canonical(properties[name], value) for name, value in values.items()}
    return {name: schema["default"] for name, schema in properties.items() if "default" in schema} | given


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


@cache
def _validator(tool_name: str) -> Draft202012Validator:
    return Draft202012Validator(TOOLS_BY_NAME[tool_name].parameters, format_checker=_FORMATS)


def _canonical(schema: Mapping[str, Json], value: Json) -> Json:
    if schema.get("format") == "date":
        return canonical_date(value)
    if schema.get("pattern") == ORDER_ID["pattern"]:
        return canonical_order_id(value)
    if schema["type"] == "integer" and math.isfinite(value):
        return int(value)
    if schema["type"] == "array":
        return sorted(word.strip().lower() for word in value)
    return " ".join(value.split()) if isinstance(value, str) else value


def _explain(problem: ValidationError) -> str:
    name = str(problem.absolute_path[0]) if problem.absolute_path else "arguments"
    wanted: Json = problem.validator_value
    instance: Json = problem.instance
    if problem.validator == "required":
        return next(f"{key} is missing" for key in wanted if key not in instance)
    if problem.validator == "additionalProperties":
        return "there is an unknown argument"
    if problem.validator == "enum":
        return f"{name} must be one of {', '.join(wanted)}"
    if problem.validator == "type":
        return f"{name} must be of type {wanted}"
    return f"{name} is not valid"

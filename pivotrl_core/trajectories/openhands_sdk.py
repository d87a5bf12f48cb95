"""Reader of the OpenHands SDK's events (`kind`: SystemPromptEvent, MessageEvent, ActionEvent, ...), as a JSON list.

Actions of one response of the model (`llm_response_id`) are one turn. Reasoning is thinking; `thought` is the text
beside the calls. Not read: events of the program itself, and everything behind a condensation.
Format: https://docs.openhands.dev/sdk/arch/events
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pivotrl_core.trajectories.chat_messages import read_chat_message
from pivotrl_core.trajectories.event_runs import EventRun
from pivotrl_core.trajectories.fields import (
    read_arguments,
    read_call_name,
    read_content,
    read_function,
    read_list,
    read_object,
    read_tools,
)
from pivotrl_core.trajectories.protocol import ITEMS
from pivotrl_core.types import Json, Message, Role, ToolCall, Trajectory

EVENT_KEYS = (ITEMS, "history", "events")
RESULTS = frozenset({"ObservationEvent", "AgentErrorEvent", "UserRejectObservation"})


@dataclass(slots=True)
class _Run(EventRun):
    """Which response the last turn came from."""

    response: str = ""  # of the last message, where it is a turn with calls


class OpenHandsSdkReader:
    """One row is one run. Domain software; the group is `instance_id`, where the row has one."""

    name = "openhands-sdk"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        return any(_are_events(row.get(key)) for key in EVENT_KEYS)

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        key = next((key for key in EVENT_KEYS if _are_events(row.get(key))), EVENT_KEYS[1])
        run = _Run()
        for index, value in enumerate(read_list(row.get(key), key)):
            _read_event(read_object(value, f"{key}[{index}]"), f"{key}[{index}]", run)
        return run.trajectory(row, source, self.name)


def _are_events(value: Json) -> bool:
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, Mapping) and isinstance(first.get("kind"), str) and first["kind"].endswith("Event")


def _read_event(event: Mapping[str, Json], where: str, run: _Run) -> None:
    kind = event.get("kind")
    if run.condensed:
        run.left_out["events_after_condensation"] += 1
    elif kind == "SystemPromptEvent":
        texts = [_text(event.get(key), f"{where}.{key}") for key in ("system_prompt", "dynamic_context")]
        run.messages.append(Message(Role.SYSTEM, "\n\n".join(text for text in texts if text)))
        run.tools = read_tools(_schemas(event.get("tools")), f"{where}.tools")
    elif kind == "MessageEvent":
        _add(run, read_chat_message(event.get("llm_message"), f"{where}.llm_message"), "")
    elif kind == "ActionEvent":
        _add(run, _read_action(event, where), str(event.get("llm_response_id") or ""))
    elif isinstance(kind, str) and kind in RESULTS:
        content = _result(event, where)
        run.messages.append(Message(Role.TOOL, content, tool_call_id=str(event.get("tool_call_id") or "")))
    else:
        run.left_out["events_of_the_program"] += 1
        run.condensed = kind in ("Condensation", "CondensationEvent")


def _add(run: _Run, message: Message, response: str) -> None:
    """Add a message; a further call of the response that the last turn came from belongs to that turn."""
    last = run.messages[-1] if run.messages else None
    if response and response == run.response and last is not None and last.role is Role.ASSISTANT:
        run.messages[-1] = replace(last, tool_calls=(*last.tool_calls, *message.tool_calls))
    else:
        run.messages.append(message)
    run.response = response


def _read_action(event: Mapping[str, Json], where: str) -> Message:
    call_id = str(event.get("tool_call_id") or "")
    if isinstance(event.get("tool_call"), Mapping):
        raw = event["tool_call"]
        call = read_function(raw.get("function", raw), f"{where}.tool_call", call_id)
    else:
        name = read_call_name(event.get("tool_name"), f"{where}.tool_name")
        action = read_object(event.get("action"), f"{where}.action")
        own = {key: value for key, value in action.items() if key != "kind" and value is not None}
        call = ToolCall(name, read_arguments(own, f"{where}.action"), call_id)
    thinking = event.get("reasoning_content")
    said = read_content(event.get("thought"), f"{where}.thought")
    return Message(Role.ASSISTANT, said, (call,), thinking=thinking if isinstance(thinking, str) else "")


def _result(event: Mapping[str, Json], where: str) -> str:
    observation = event.get("observation")
    if isinstance(observation, Mapping):
        value = next((observation[key] for key in ("content", "output", "text") if observation.get(key)), None)
        return read_content(value, f"{where}.observation.content")
    for key in ("error", "rejection_reason"):
        if isinstance(event.get(key), str):
            return str(event[key])
    return read_content(observation, f"{where}.observation")


def _text(value: Json, where: str) -> str:
    """Text, or the text part that holds it."""
    return read_content([value] if isinstance(value, Mapping) else value, where)


def _schemas(value: Json) -> list[Json]:
    """Tools with a schema; definitions of the SDK's own kind have none in the file."""
    tools = value if isinstance(value, list) else []
    return [one for one in tools if isinstance(one, Mapping) and ("function" in one or "parameters" in one)]

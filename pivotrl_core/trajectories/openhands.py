"""Reader of OpenHands' event files: a JSON list of actions and observations, or a row with `history` of them.

A turn is what one response of the model holds: text and calls of `tool_call_metadata.model_response`, of which each
call is an event. Where events have no such metadata, an action is a call with its `args`. Not read: events of the
program itself, what the user runs, and everything behind a condensation, where the agent no longer sees what is before
it.
Format: https://github.com/OpenHands/OpenHands, openhands/events
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pivotrl_core.trajectories.chat_messages import read_chat_message
from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.event_runs import EventRun
from pivotrl_core.trajectories.fields import (
    read_arguments,
    read_content,
    read_list,
    read_object,
    read_tools,
    reject,
)
from pivotrl_core.trajectories.protocol import ITEMS
from pivotrl_core.types import Json, Message, Role, ToolCall, Trajectory

EVENT_KEYS = (ITEMS, "history", "trajectory", "events")
ACTIONS = frozenset({
    "run", "run_ipython", "read", "write", "edit", "browse", "browse_interactive", "delegate", "finish", "think",
    "reject", "call_tool_mcp", "task_tracking",
})  # fmt: skip
BOOKKEEPING = frozenset({
    "thought", "is_confirmed", "confirmation_state", "security_risk", "hidden", "keep_prompt", "blocking", "is_input",
    "is_static", "cwd", "kernel_init_code", "include_extra", "impl_source", "translated_ipython_code", "image_urls",
    "file_urls", "wait_for_response", "return_axtree", "browsergym_send_msg_to_user", "task_completed",
})  # fmt: skip
"""Arguments of actions that the program adds; what the model said is its text, not an argument."""


@dataclass(slots=True)
class _Run(EventRun):
    """Which responses were read, and whose call each event is."""

    responses: set[str] = field(default_factory=set)
    calls: dict[str, str] = field(default_factory=dict)  # id of the event -> id of its call


class OpenHandsReader:
    """One row is one run. Domain software; the group is `instance_id`, where the row has one."""

    name = "openhands"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        return any(_are_events(row.get(key)) for key in EVENT_KEYS)

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        key = next((key for key in EVENT_KEYS if _are_events(row.get(key))), EVENT_KEYS[1])
        run = _Run()
        for where, event in _events(read_list(row.get(key), key), key):
            _read_event(event, where, run)
        return run.trajectory(row, source, self.name)


def _are_events(value: Json) -> bool:
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, list) and first:  # older files pair an action with its observation
        first = first[0]
    if not isinstance(first, Mapping) or "role" in first:
        return False
    return isinstance(first.get("action"), str) and ("args" in first or "source" in first)


def _events(values: list[Json], key: str) -> Iterator[tuple[str, Mapping[str, Json]]]:
    for index, value in enumerate(values):
        where = f"{key}[{index}]"
        if isinstance(value, list):
            yield from ((f"{where}[{at}]", read_object(one, f"{where}[{at}]")) for at, one in enumerate(value))
        else:
            yield where, read_object(value, where)


def _read_event(event: Mapping[str, Json], where: str, run: _Run) -> None:
    action, by_agent = event.get("action"), event.get("source") in ("agent", None)
    if run.condensed:
        run.left_out["events_after_condensation"] += 1
    elif "observation" in event:
        _read_observation(event, where, run)
    elif action == "system":
        args = read_object(event.get("args"), f"{where}.args")
        run.messages.append(Message(Role.SYSTEM, read_content(args.get("content"), f"{where}.args.content")))
        run.tools = read_tools(args.get("tools"), f"{where}.args.tools")
    elif action == "message" and not by_agent:
        args = read_object(event.get("args"), f"{where}.args")
        run.messages.append(Message(Role.USER, read_content(args.get("content"), f"{where}.args.content")))
    elif by_agent and _has_response(event):
        _read_response(event, where, run)
    elif by_agent and (action == "message" or (isinstance(action, str) and action in ACTIONS)):
        _read_plain_action(event, where, run)
    else:
        run.left_out["events_of_the_user" if event.get("source") == "user" else "events_of_the_program"] += 1
        run.condensed = action == "condensation"


def _has_response(event: Mapping[str, Json]) -> bool:
    """Whether the model's own response is kept with an action; some files keep its id alone."""
    metadata = event.get("tool_call_metadata")
    response = metadata.get("model_response") if isinstance(metadata, Mapping) else None
    return isinstance(response, Mapping) and bool(response.get("choices"))


def _read_response(event: Mapping[str, Json], where: str, run: _Run) -> None:
    """The turn of an action's response; its other actions add no turn."""
    path = f"{where}.tool_call_metadata"
    metadata = read_object(event["tool_call_metadata"], path)
    response = read_object(metadata.get("model_response"), f"{path}.model_response")
    choices = read_list(response.get("choices"), f"{path}.model_response.choices")
    choice = read_object(choices[0], f"{path}.model_response.choices[0]")
    turn = read_chat_message(choice.get("message"), f"{path}.model_response.choices[0].message")
    if turn.role is not Role.ASSISTANT:
        reject(DropReason.UNKNOWN_ROLE, f"{path}.model_response.choices[0].message.role", str(turn.role))
    identity = str(response.get("id") or metadata.get("tool_call_id") or where)
    if identity not in run.responses:
        run.responses.add(identity)
        run.messages.append(turn)
    run.calls[str(event.get("id"))] = str(metadata.get("tool_call_id") or "")


def _read_plain_action(event: Mapping[str, Json], where: str, run: _Run) -> None:
    """An action without the model's response: a message, or one call with its arguments."""
    args = read_object(event.get("args"), f"{where}.args")
    if event["action"] == "message":
        run.messages.append(Message(Role.ASSISTANT, read_content(args.get("content"), f"{where}.args.content")))
        return
    thinks = event["action"] == "think"  # there the thought is the argument
    own = {
        key: value
        for key, value in args.items()
        if value not in (None, "") and (key not in BOOKKEEPING or (thinks and key == "thought"))
    }
    thought = "" if thinks else read_content(args.get("thought"), f"{where}.args.thought")
    metadata = event.get("tool_call_metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    call_id = str(known.get("tool_call_id") or f"event_{event.get('id', where)}")
    call = ToolCall(str(event["action"]), read_arguments(own, f"{where}.args"), call_id)
    run.messages.append(Message(Role.ASSISTANT, thought, (call,)))
    run.calls[str(event.get("id"))] = call_id


def _read_observation(event: Mapping[str, Json], where: str, run: _Run) -> None:
    """A result, where it answers a call of the agent; else an event of the program."""
    metadata = event.get("tool_call_metadata")
    answered = str(metadata.get("tool_call_id") or "") if isinstance(metadata, Mapping) else ""
    call_id = answered or run.calls.get(str(event.get("cause")), "")
    last = run.messages[-1] if run.messages else None
    if not call_id and "cause" not in event and last is not None and last.role is Role.ASSISTANT and last.tool_calls:
        call_id = last.tool_calls[-1].call_id  # files without ids: a result stands behind its action
    if call_id and event["observation"] not in ("agent_state_changed", "null", "recall"):
        content = read_content(event.get("content"), f"{where}.content")
        run.messages.append(Message(Role.TOOL, content, tool_call_id=call_id))
    else:
        run.left_out["events_of_the_program"] += 1

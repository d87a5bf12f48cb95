"""Reader of the Agent Trajectory Interchange Format (ATIF) that Harbor writes for terminal-bench's agents.

Terminus-2 writes its actions as JSON text. Where a file has them in parts (`message` with analysis and plan, calls of
`bash_command` and `mark_task_complete`) they are put together again as the text that the agent's prompt asks for, and
what the terminal shows is a user's message. A turn that is no such JSON, as the harness refuses it, belongs to states
alone. Other agents' calls are tool calls.

Not read: notes of the harness (steps of the system behind the first), and everything behind a compaction of the
context, where the agent no longer sees what the file has before it. Copied steps belong to states alone.
Format: https://harborframework.com/docs/trajectory-format
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pivotrl_core.trajectories.decoding import decode_json
from pivotrl_core.trajectories.domains import DOMAINS
from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.fields import (
    first_name,
    read_arguments,
    read_call_name,
    read_content,
    read_json_text,
    read_list,
    read_object,
    read_tools,
    reject,
    short_values,
)
from pivotrl_core.trajectories.marks import HARNESS, LEFT_OUT, STATE_ONLY
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Json, Message, Role, ToolCall, Trajectory

TERMINUS = "terminus_2"
_KEYSTROKES, _COMPLETE = "bash_command", "mark_task_complete"
_PARTS = re.compile(r"\A(?:Analysis: (?P<analysis>.*?))?(?:(?:\A|\n)Plan: (?P<plan>.*))?\Z", re.DOTALL)


@dataclass(slots=True)
class _Run:
    """What has been read of a run so far."""

    terminus: bool
    messages: list[Message] = field(default_factory=list)
    state_only: list[int] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    compacted: bool = False


class AtifReader:
    """One run is one trajectory; runs of sub-agents that lie in it are trajectories of their own."""

    name = "atif"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        version = row.get("schema_version")
        marked = isinstance(version, str) and version.startswith("ATIF")
        return marked or (isinstance(row.get("steps"), list) and isinstance(row.get("agent"), Mapping))

    def split(self, row: Mapping[str, Json]) -> list[tuple[str, Mapping[str, Json]]]:
        key = "subagent_trajectories"
        inner = row.get(key)
        runs = [read_object(one, f"{key}[{i}]") for i, one in enumerate(inner)] if isinstance(inner, list) else []
        return [("", row), *((f"{key}[{i}]", one) for i, one in enumerate(runs))]

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        agent = read_object(row.get("agent"), "agent")
        extra = row.get("extra")
        extra = extra if isinstance(extra, Mapping) else {}
        run = _Run(terminus=str(agent.get("name", "")).lower().startswith("terminus"))
        for index, value in enumerate(read_list(row.get("steps"), "steps")):
            _read_step(read_object(value, f"steps[{index}]"), f"steps[{index}]", run)
        metadata = {**short_values(row), "agent": str(agent.get("name", ""))[:100]}
        if name := first_name(row, ("trajectory_id", "session_id")):
            metadata["row_id"] = name
        if run.terminus:
            metadata[HARNESS] = TERMINUS
        if run.state_only:
            metadata[STATE_ONLY] = run.state_only
        if run.left_out:
            metadata[LEFT_OUT] = dict(sorted(run.left_out.items()))
        domain = extra["domain"] if extra.get("domain") in DOMAINS else "terminal" if run.terminus else "software"
        tools = read_tools(agent.get("tool_definitions"), "agent.tool_definitions")
        group = first_name(extra, ("task_id", "task_name"))
        return Trajectory(tuple(run.messages), tools, domain=domain, source=source, group=group, metadata=metadata)


def _read_step(step: Mapping[str, Json], where: str, run: _Run) -> None:
    source = step.get("source")
    if run.compacted:
        run.left_out["steps_after_compaction"] += 1
    elif source == "agent":
        _read_agent_step(step, where, run)
    elif source == "user":
        run.messages.append(Message(Role.USER, read_content(step.get("message"), f"{where}.message")))
    elif source != "system":
        reject(DropReason.UNKNOWN_ROLE, f"{where}.source", repr(source)[:80])
    elif not run.messages:
        run.messages.append(Message(Role.SYSTEM, read_content(step.get("message"), f"{where}.message")))
    else:
        run.left_out["notes_of_the_harness"] += 1
        run.compacted = _replaces_context(step) or (run.terminus and _refers_to_summary(step))


def _replaces_context(step: Mapping[str, Json]) -> bool:
    extra = step.get("extra")
    change = extra.get("context_management") if isinstance(extra, Mapping) else None
    return isinstance(change, Mapping) and change.get("boundary") == "replace"


def _refers_to_summary(step: Mapping[str, Json]) -> bool:
    """Terminus-2 hands its work to sub-agents for a summary alone; older files have no other mark of it."""
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, Mapping) else None
    return isinstance(results, list) and any(
        isinstance(one, Mapping) and one.get("subagent_trajectory_ref") for one in results
    )


def _read_agent_step(step: Mapping[str, Json], where: str, run: _Run) -> None:
    thinking, content = split_thinking(read_content(step.get("message"), f"{where}.message"))
    given = step.get("reasoning_content")
    texts = (given if isinstance(given, str) else "", thinking)
    calls = _read_calls(step.get("tool_calls"), f"{where}.tool_calls")
    turn = Message(Role.ASSISTANT, content, calls, thinking="\n".join(text for text in texts if text))
    if run.terminus and {call.name for call in calls} <= {_KEYSTROKES, _COMPLETE}:
        text = _terminus_text(content, calls, f"{where}.tool_calls")
        turn = Message(Role.ASSISTANT, text, thinking=turn.thinking)
    refused = run.terminus and not turn.tool_calls and not _is_terminus_json(turn.content)
    if refused or step.get("is_copied_context"):
        run.state_only.append(len(run.messages))
    run.messages.append(turn)
    run.messages.extend(_read_results(step.get("observation"), f"{where}.observation", turn.tool_calls))


def _read_calls(value: Json, where: str) -> tuple[ToolCall, ...]:
    calls = []
    for index, one in enumerate(read_list(value, where) if value else []):
        call = read_object(one, f"{where}[{index}]")
        name = read_call_name(call.get("function_name"), f"{where}[{index}].function_name")
        arguments = read_arguments(call.get("arguments", {}), f"{where}[{index}].arguments")
        calls.append(ToolCall(name, arguments, str(call.get("tool_call_id") or "")))
    return tuple(calls)


def _read_results(value: Json, where: str, calls: tuple[ToolCall, ...]) -> Iterator[Message]:
    """Results of a step: of a call by its id or else the oldest, and a user's message where nothing was called."""
    if value is None:
        return
    results = read_object(value, where).get("results")
    known = {call.call_id for call in calls}
    for index, one in enumerate(read_list(results, f"{where}.results") if results else []):
        result = read_object(one, f"{where}.results[{index}]")
        content = read_content(result.get("content"), f"{where}.results[{index}].content")
        call_id = str(result.get("source_call_id") or "")
        if not calls:
            yield Message(Role.USER, content)
        else:
            yield Message(Role.TOOL, content, tool_call_id=call_id if call_id in known else "")


def _terminus_text(content: str, calls: tuple[ToolCall, ...], where: str) -> str:
    """The text of a turn of Terminus-2; text that is recorded as it was written, or could not be read, stays."""
    if not calls or _is_terminus_json(content):
        return content
    parts = _PARTS.match(content)
    analysis, plan = (parts["analysis"] or "", parts["plan"] or "") if parts else (content, "")
    commands = [read_json_text(call.arguments, where) for call in calls if call.name == _KEYSTROKES]
    turn: dict[str, Json] = {"analysis": analysis, "plan": plan, "commands": commands}
    if any(call.name == _COMPLETE for call in calls):
        turn["task_complete"] = True
    return json.dumps(turn, indent=2, ensure_ascii=False)


def _is_terminus_json(text: str) -> bool:
    try:
        value = decode_json(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "commands" in value

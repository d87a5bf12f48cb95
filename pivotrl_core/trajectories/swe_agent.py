"""Reader of SWE-agent's `.traj` files, with and without function calling.

`history` is what the model saw and wrote. Without function calling a turn's `action` is a call of `bash`, with
`thought` as what was said before it, and the message that follows is its output. Not read: `trajectory`, which repeats
the history, and entries of other agents than the first. Demonstrations belong to states alone, and so do turns without
a command: the model forgot it, or the harness tells in its name why it ended the run ('Exit due to cost limit').
Format: https://swe-agent.com/latest/usage/trajectories
"""

from __future__ import annotations

from collections.abc import Mapping

from pivotrl_core.trajectories.chat_messages import is_message, read_chat_message
from pivotrl_core.trajectories.fields import first_name, read_list, read_object, short_values
from pivotrl_core.trajectories.marks import HARNESS, LEFT_OUT, STATE_ONLY
from pivotrl_core.trajectories.text_actions import as_result, shell_call
from pivotrl_core.types import Json, Message, Role, Trajectory


class SweAgentReader:
    """One row is one run. Domain software; the group is `instance_id`, where the row has one."""

    name = "swe-agent"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        history = row.get("history")
        return "messages" not in row and isinstance(history, list) and bool(history) and is_message(history[0])

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        messages: list[Message] = []
        state_only: list[int] = []
        others = 0
        agent: Json = None
        for index, value in enumerate(read_list(row.get("history"), "history")):
            entry = read_object(value, f"history[{index}]")
            agent = entry.get("agent") if agent is None else agent
            if entry.get("agent") not in (None, agent):
                others += 1
                continue
            message = _read_entry(entry, f"history[{index}]", f"call_{index}")
            idle = "action" in entry and not message.tool_calls  # a chat under this key has no actions
            if message.role is Role.ASSISTANT and (entry.get("is_demo") or idle):
                state_only.append(len(messages))
            messages.append(as_result(message, messages[-1] if messages else None))
        metadata = {**_outcome(row), HARNESS: self.name}
        if state_only:
            metadata[STATE_ONLY] = state_only
        if others:
            metadata[LEFT_OUT] = {"entries_of_other_agents": others}
        return Trajectory(
            tuple(messages),
            (),
            domain="software",
            source=source,
            group=first_name(row, ("instance_id", "problem_id")),
            metadata=metadata,
        )


def _read_entry(entry: Mapping[str, Json], field: str, call_id: str) -> Message:
    message = read_chat_message(entry, field)
    if message.role is Role.TOOL:
        ids = entry.get("tool_call_ids")
        answered = str(ids[0]) if isinstance(ids, list) and ids else message.tool_call_id
        return Message(Role.TOOL, message.content, tool_call_id=answered)
    action = entry.get("action")
    if message.role is not Role.ASSISTANT or message.tool_calls or not isinstance(action, str) or not action.strip():
        return message
    thought = entry.get("thought")
    said = thought.strip() if isinstance(thought, str) else message.content
    return Message(Role.ASSISTANT, said, (shell_call(action, call_id),), thinking=message.thinking)


def _outcome(row: Mapping[str, Json]) -> dict[str, Json]:
    info = row.get("info")
    return short_values(info, {"submission"}) if isinstance(info, Mapping) else {}

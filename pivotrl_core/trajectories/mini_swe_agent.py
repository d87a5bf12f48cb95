"""Reader of mini-swe-agent's trajectories: `messages` with `info`, or a bare JSON list of messages.

A command in the one fenced block of a turn, or in a tool call, is a call of `bash`; the message that follows is its
output. A turn without exactly one command, which the agent's program refuses, belongs to states alone. What a message
has in `extra` repeats it and is not read, nor is the last message of role `exit`.
Format: https://mini-swe-agent.com/latest/usage/output_files
"""

from __future__ import annotations

from collections.abc import Mapping

from pivotrl_core.trajectories.chat_messages import is_message, read_chat_message
from pivotrl_core.trajectories.fields import first_name, read_list, short_values
from pivotrl_core.trajectories.marks import HARNESS, LEFT_OUT, STATE_ONLY
from pivotrl_core.trajectories.protocol import ITEMS
from pivotrl_core.trajectories.text_actions import as_result, with_fenced_command
from pivotrl_core.types import Json, Message, Role, Trajectory

_INFO = frozenset({"mini_version", "submission", "exit_status"})
_MARKS = ("mswea_bash_command", "<returncode>")


class MiniSweAgentReader:
    """One row is one run. Domain software; the group is `instance_id`, where the row has one."""

    name = "mini-swe-agent"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        info, messages = row.get("info"), row.get("messages")
        if isinstance(messages, list) and isinstance(info, Mapping):
            return bool(_INFO & set(info))
        first = row.get(ITEMS)
        return isinstance(first, list) and all(is_message(one) for one in first[:4]) and _is_marked(first[:4])

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        key = "messages" if "messages" in row else ITEMS
        messages: list[Message] = []
        state_only: list[int] = []
        exits = 0
        for index, value in enumerate(read_list(row.get(key), key)):
            if is_message(value) and value["role"] == "exit":
                exits += 1
                continue
            read = read_chat_message(value, f"{key}[{index}]")
            read = with_fenced_command(read, f"call_{index}")
            if read.role is Role.ASSISTANT and not read.tool_calls:
                state_only.append(len(messages))
            messages.append(as_result(read, messages[-1] if messages else None))
        info = row.get("info")
        metadata = {**(short_values(info, {"submission"}) if isinstance(info, Mapping) else {}), HARNESS: self.name}
        if state_only:
            metadata[STATE_ONLY] = state_only
        if exits:
            metadata[LEFT_OUT] = {"exit_notes": exits}
        group = first_name(row, ("instance_id",))
        return Trajectory(tuple(messages), (), domain="software", source=source, group=group, metadata=metadata)


def _is_marked(messages: list[Json]) -> bool:
    texts = [one.get("content") for one in messages]
    return any(isinstance(text, str) and mark in text for text in texts for mark in _MARKS)

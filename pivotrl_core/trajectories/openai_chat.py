"""Reader of OpenAI chat rows: `messages` with `tool_calls` and `tools`, and the older `function_call` and `functions`.

Also read: content as a list of text parts, arguments as an object, `tools` as JSON text, a bare JSON list of messages,
a system prompt in `system`, and calls, results and tools in the text, as Hermes and Qwen write them.
A message of weight 0 belongs to states alone. Unknown keys of a row are kept as metadata.
Format: https://platform.openai.com/docs/guides/function-calling
"""

from __future__ import annotations

from collections.abc import Mapping

from pivotrl_core.trajectories.chat_messages import is_message, read_chat_messages, system_message
from pivotrl_core.trajectories.domains import named_domain
from pivotrl_core.trajectories.fields import first_name, read_list, read_tools
from pivotrl_core.trajectories.hermes_text import prompt_tools
from pivotrl_core.trajectories.marks import RESERVED, STATE_ONLY
from pivotrl_core.trajectories.protocol import ITEMS
from pivotrl_core.types import Json, Trajectory

GROUP_KEYS = ("group", "trajectory_group", "task_id")


class OpenAIChatReader:
    """One row is one conversation. The group is `group` or `task_id`, where the row has one."""

    name = "openai-chat"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        bare = row.get(ITEMS)
        return isinstance(row.get("messages"), list) or (isinstance(bare, list) and bool(bare) and is_message(bare[0]))

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        key = ITEMS if ITEMS in row and "messages" not in row else "messages"
        raw = read_list(row.get(key), key)
        system = system_message(row.get("system"), "system")
        read, positions = read_chat_messages(raw, key)
        if system and read[0] == system[0]:
            system = []
        messages, state_only = [*system, *read], [len(system) + position for position in positions]
        tools_key = "tools" if row.get("tools") else "functions"
        metadata = {k: v for k, v in row.items() if k not in {key, "system", "tools", "functions"} | RESERVED}
        if isinstance(row.get("id"), str | int):
            metadata["row_id"] = str(row["id"])
        if state_only:
            metadata[STATE_ONLY] = state_only
        return Trajectory(
            tuple(messages),
            read_tools(row.get(tools_key), tools_key) or prompt_tools(messages),
            domain=named_domain(row),
            source=source,
            group=first_name(row, GROUP_KEYS),
            metadata=metadata,
        )

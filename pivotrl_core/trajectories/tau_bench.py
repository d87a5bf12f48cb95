"""Reader of tau-bench's result files: a list of {task_id, reward, info, traj, trial}, `traj` in OpenAI's chat format.

The files have no tools: all runs of a file share those inferred from its calls.
Format: https://github.com/sierra-research/tau-bench, historical_trajectories
"""

from __future__ import annotations

from collections.abc import Mapping

from pivotrl_core.trajectories.chat_messages import read_chat_message
from pivotrl_core.trajectories.fields import first_name, read_list, read_object, read_tools, short_values
from pivotrl_core.trajectories.protocol import ITEMS
from pivotrl_core.types import Json, Trajectory


class TauBenchReader:
    """One run is one trajectory. The group is the task's id: trials of one task stay in one split."""

    name = "tau-bench"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        runs = row.get(ITEMS)
        first = runs[0] if isinstance(runs, list) and runs else row
        return isinstance(first, Mapping) and isinstance(first.get("traj"), list)

    def split(self, row: Mapping[str, Json]) -> list[tuple[str, Mapping[str, Json]]]:
        if "traj" in row:
            return [("", row)]
        return [
            (f"[{index}]", read_object(run, f"[{index}]")) for index, run in enumerate(read_list(row.get(ITEMS), ITEMS))
        ]

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        raw = read_list(row.get("traj"), "traj")
        messages = tuple(read_chat_message(value, f"traj[{index}]") for index, value in enumerate(raw))
        tools = read_tools(row.get("tools"), "tools")
        return Trajectory(
            messages,
            tools,
            domain="tool",
            source=source,
            group=first_name(row, ("task_id",)),
            metadata=short_values(row),
        )

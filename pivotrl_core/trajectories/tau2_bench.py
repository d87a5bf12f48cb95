"""Reader of tau2-bench's result files: `simulations`, each a conversation of three: agent, user and environment.

The policy that the file gives becomes the system message. Tools are those of `environment_info.tool_defs`, where the
file has them; else all runs of a file share those inferred from its calls. Not read: calls that the user makes on a
device of his own, and their results, which the agent never sees. Format: https://github.com/sierra-research/tau2-bench
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from pivotrl_core.trajectories.chat_messages import read_chat_message
from pivotrl_core.trajectories.fields import (
    first_name,
    read_content,
    read_list,
    read_object,
    read_role,
    read_tools,
    short_values,
)
from pivotrl_core.trajectories.marks import LEFT_OUT
from pivotrl_core.types import Json, Message, Role, Tool, Trajectory

SIMULATIONS = "simulations"
ENVIRONMENT = "environment_info"


class Tau2BenchReader:
    """One simulation is one trajectory. The group is domain and task: trials of one task stay in one split."""

    name = "tau2-bench"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        return isinstance(row.get(SIMULATIONS), list) or ("messages" in row and "termination_reason" in row)

    def split(self, row: Mapping[str, Json]) -> list[tuple[str, Mapping[str, Json]]]:
        if SIMULATIONS not in row:
            return [("", row)]
        info = row.get("info")
        environment = info.get(ENVIRONMENT) if isinstance(info, Mapping) else None
        paths = [(f"{SIMULATIONS}[{i}]", one) for i, one in enumerate(read_list(row[SIMULATIONS], SIMULATIONS))]
        return [(path, {**read_object(one, path), ENVIRONMENT: environment}) for path, one in paths]

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        environment = row.get(ENVIRONMENT)
        environment = environment if isinstance(environment, Mapping) else {}
        left_out: Counter[str] = Counter()
        messages = [*_policy(row, environment), *_conversation(row, left_out)]
        task = first_name(row, ("task_id",))
        metadata = short_values(row, {"policy", "task_id"})
        if task:
            metadata["task_id"] = task
        if isinstance(row.get("id"), str):
            metadata["row_id"] = row["id"]
        reward = row.get("reward_info")
        if isinstance(reward, Mapping) and isinstance(reward.get("reward"), int | float):
            metadata["reward"] = reward["reward"]
        if +left_out:
            metadata[LEFT_OUT] = dict(sorted((+left_out).items()))
        group = f"{environment.get('domain_name', '')}/{task}" if task else ""
        return Trajectory(
            tuple(messages), _tools(environment), domain="tool", source=source, group=group, metadata=metadata
        )


def _policy(row: Mapping[str, Json], environment: Mapping[str, Json]) -> Iterator[Message]:
    text = row.get("policy") or environment.get("policy")
    if isinstance(text, str) and text.strip():
        yield Message(Role.SYSTEM, text)


def _tools(environment: Mapping[str, Json]) -> tuple[Tool, ...]:
    defined = environment.get("tool_defs")
    tools = list(defined.values()) if isinstance(defined, Mapping) else defined
    return read_tools(tools, f"info.{ENVIRONMENT}.tool_defs")


def _conversation(row: Mapping[str, Json], left_out: Counter[str]) -> Iterator[Message]:
    """What passes between user, agent and the agent's tools."""
    for field, message in _flat(read_list(row.get("messages"), "messages")):
        role = read_role(message.get("role"), f"{field}.role")
        if role is Role.TOOL:
            if message.get("requestor") == "user":
                left_out["results_of_user_calls"] += 1
            else:
                content = read_content(message.get("content"), f"{field}.content")
                yield Message(role, content, tool_call_id=str(message.get("id") or ""))
        elif role is Role.USER:
            if isinstance(message.get("tool_calls"), list):
                left_out["user_calls"] += len(message["tool_calls"])
            content = read_content(message.get("content"), f"{field}.content")
            if content or not message.get("tool_calls"):
                yield Message(role, content)
        else:
            yield read_chat_message(message, field)


def _flat(messages: list[Json]) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """Messages with their paths; results of parallel calls stand together in `tool_messages`."""
    for index, value in enumerate(messages):
        field = f"messages[{index}]"
        message = read_object(value, field)
        inner = message.get("tool_messages")
        if isinstance(inner, list):
            for at, one in enumerate(inner):
                path = f"{field}.tool_messages[{at}]"
                yield path, read_object(one, path)
        else:
            yield field, message

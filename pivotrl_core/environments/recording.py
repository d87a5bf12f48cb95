"""Episodes as trajectories: played in an environment, turned into OpenAI chat rows, written as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pivotrl_core.environments.protocol import Environment, ExpertDomain, Observation, Pool, Task
from pivotrl_core.errors import PivotRLError
from pivotrl_core.seeding import derive_seed
from pivotrl_core.types import Action, Json, Message, Role, Split, ToolCall, Trajectory, tools_to_json


class Recorder:
    """Plays one episode and keeps its messages, the agent's own among them."""

    def __init__(self, environment: Environment, task: Task, source: str = "expert") -> None:
        self.environment = environment
        self.task = task
        self.source = source
        self.done = False
        self._messages: list[Message] = []
        self._observe(environment.reset(task))

    def act(self, action: Action) -> tuple[Message, ...]:
        """One turn of the agent's; returns the messages that follow. Raises PivotRLError after the end."""
        if self.done:
            raise PivotRLError(f"task {self.task.id}: the episode is over, no action can follow")
        content = action.text if action.error else action.content
        self._messages.append(Message(Role.ASSISTANT, content, action.tool_calls, thinking=action.thinking))
        return self._observe(self.environment.step(action))

    def say(self, text: str) -> str:
        """Send a message to the user; returns the user's reply, empty at the end."""
        return "".join(message.content for message in self.act(Action(content=text)))

    def call(self, name: str, arguments: Mapping[str, Json]) -> str:
        """Call one tool; returns its result."""
        call_id = f"call_{sum(len(message.tool_calls) for message in self._messages) + 1}"
        call = ToolCall(name, json.dumps(dict(arguments)), call_id)
        return "".join(message.content for message in self.act(Action(tool_calls=(call,))))

    def trajectory(self) -> Trajectory:
        """The episode so far. Its group is the task, so that all episodes of a task stay in one split."""
        metadata = {"family": self.task.family, "split": str(self.task.split), "task_id": self.task.id}
        return Trajectory(
            messages=tuple(self._messages),
            tools=self.environment.tools,
            source=self.source,
            group=self.task.id,
            metadata=metadata,
        )

    def _observe(self, observation: Observation) -> tuple[Message, ...]:
        self._messages.extend(observation.messages)
        self.done = observation.done
        return observation.messages


def iter_trajectories(
    domain: ExpertDomain, split: Split, count: int, seed: int, pool: Pool = Pool.MAIN
) -> Iterator[Trajectory]:
    """One expert trajectory for each of the first `count` tasks."""
    for task in domain.tasks(split, count, seed, pool):
        yield domain.expert_trajectory(task, derive_seed("expert", seed, task.id))


def to_openai_row(trajectory: Trajectory) -> dict[str, Json]:
    """The trajectory as one row of OpenAI's chat format with tools, with our ids and metadata as further keys."""
    return {
        **trajectory.metadata,
        "id": trajectory.id,
        "task_id": trajectory.group,
        "domain": trajectory.domain,
        "source": trajectory.source,
        "messages": [_message_row(message) for message in trajectory.messages],
        "tools": [{"type": "function", "function": function} for function in tools_to_json(trajectory.tools)],
    }


def _message_row(message: Message) -> dict[str, Json]:
    row: dict[str, Json] = {"role": str(message.role), "content": message.content}
    if message.tool_calls:
        row["content"] = message.content or None
        row["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.role is Role.TOOL:
        row["tool_call_id"] = message.tool_call_id
    return row

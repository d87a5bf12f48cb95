"""What an environment is: reset, step, score, and snapshot/restore. An observation is the list of new messages.

An episode ends when `Observation.done` is set: by the agent's own closing act, by the user, or by the turn limit.

How tau2-bench (https://github.com/sierra-research/tau2-bench) maps on these protocols without a change to either:

- a tau2 task (user scenario, initial state, evaluation criteria) is plain JSON and becomes `Task.content`; the tau2
  domain's name belongs in there too, and `Task.family` is that name or the task's issue type;
- `reset` builds the domain's environment, applies the initial state, and returns the policy as system message and what
  tau2's orchestrator would hand the agent first (its greeting is a message of role assistant, the user's turn follows);
- `step` runs the orchestrator up to the agent's next turn: tool calls go to the environment and come back as tool
  messages; a message goes to the user simulator, whose own tool calls stay inside the step. The simulator is an engine
  that the environment's constructor is given; the end comes from its stop token or the step limit;
- `score` replays the task's gold actions on a fresh environment and compares database hashes, then looks for the facts
  to communicate; the parts of the product are components. Reward 1 is success;
- `snapshot` stores the task and the message history; `restore` replays the history's tool calls, which rebuilds the
  database because tau2's tools are deterministic. `tools` are the domain's for the agent, and may differ by task: read
  them after `reset`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from pivotrl_core.types import Action, Candidate, Json, Message, Split, Tool, ToolCall, Trajectory


class Pool(StrEnum):
    """Which supply of tasks. Warm-up trajectories come from tasks that no other trajectory or evaluation uses."""

    MAIN = "main"
    WARMUP = "warmup"


@dataclass(frozen=True, slots=True)
class Task:
    """One task: content that `reset` understands. `family` groups tasks of one kind; `id` is unique and stable."""

    id: str
    family: str
    split: Split
    content: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Observation:
    """Messages that came since the agent's last action (user text, tool results), and whether the episode is over."""

    messages: tuple[Message, ...]
    done: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """Success is 0 or 1. `components` says why (database equal, answers given, tool errors, turns, ...)."""

    success: float
    components: Mapping[str, Json] = field(default_factory=dict)


class Environment(Protocol):
    """One episode at a time; make one object per parallel episode.

    An object stays in one thread; others are played in other threads (`compute.lanes`): what they share is read-only.
    """

    tools: tuple[Tool, ...]

    def reset(self, task: Task) -> Observation:
        """Start an episode: the system message with the policy text, and the user's first message."""
        ...

    def step(self, action: Action) -> Observation:
        """Apply the agent's action (tool calls, or a message to the user) and return what follows it."""
        ...

    def score(self) -> Score:
        """Compare the final state and the required answers with the task's."""
        ...

    def snapshot(self) -> bytes:
        """The whole state of the episode as bytes (JSON, never pickle)."""
        ...

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot of this or another object of the same environment."""
        ...


class Domain(Protocol):
    """A family of environments with tasks by split: all that policies need to be evaluated in it.

    One that also has `same_call` and `same_message` (`verifiers/tool_call.py`) decides with the verifier which actions
    do the same.
    """

    name: str

    def tasks(self, split: Split, count: int, seed: int, pool: Pool = Pool.MAIN) -> Sequence[Task]:
        """The first `count` distinct tasks of a split and pool under a seed; a larger count only appends.

        All that there are, where a domain has fewer.
        """
        ...

    def environment(self) -> Environment:
        """A new environment object."""
        ...


class ExpertDomain(Domain, Protocol):
    """A domain with a scripted expert: it can make trajectories of its own, and knows which actions do the same."""

    def expert_trajectory(self, task: Task, seed: int) -> Trajectory:
        """A successful episode of `task`, played in the real environment; `seed` varies how it is done."""
        ...

    def same_call(self, candidate: Candidate, expected: ToolCall, actual: ToolCall) -> bool:
        """Whether the domain takes two calls for the same at a state, beyond what the schemas say. Never raises."""
        ...

    def same_message(self, candidate: Candidate, expected: str, actual: str) -> bool:
        """Whether two messages, neither of them blank, do the same at a state. Never raises."""
        ...

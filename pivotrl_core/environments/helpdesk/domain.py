"""The help desk as a Domain: tasks by split and pool, environments, and expert trajectories."""

from __future__ import annotations

from pivotrl_core.environments.helpdesk.environment import HelpdeskEnvironment
from pivotrl_core.environments.helpdesk.equivalence import same_lookup, same_meaning
from pivotrl_core.environments.helpdesk.expert import play_expert
from pivotrl_core.environments.helpdesk.tasks import make_tasks
from pivotrl_core.environments.protocol import Pool, Task
from pivotrl_core.types import Candidate, Split, ToolCall, Trajectory


class HelpdeskDomain:
    """The embedded domain."""

    name = "helpdesk"

    def tasks(self, split: Split, count: int, seed: int, pool: Pool = Pool.MAIN) -> tuple[Task, ...]:
        """The first `count` distinct tasks of a split and pool under a seed; families are balanced."""
        return make_tasks(split, count, seed, pool)

    def environment(self) -> HelpdeskEnvironment:
        """A new environment object."""
        return HelpdeskEnvironment()

    def expert_trajectory(self, task: Task, seed: int) -> Trajectory:
        """A successful episode of `task`, played by the scripted expert."""
        return play_expert(task, seed)

    def same_call(self, candidate: Candidate, expected: ToolCall, actual: ToolCall) -> bool:
        """Whether two calls look up the same order at this state by different keys."""
        return same_lookup(candidate, expected, actual)

    def same_message(self, candidate: Candidate, expected: str, actual: str) -> bool:
        """Whether two messages say the same to the user: both ask, both refuse, or both give the same result."""
        return same_meaning(expected, actual, "\n".join(message.content for message in candidate.state))

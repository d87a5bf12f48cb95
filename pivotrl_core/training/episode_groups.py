"""Groups for end-to-end RL: G whole episodes of one task, rewarded by success at the end.

Every turn of an episode gets the episode's advantage. The states that its turns start from are its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pivotrl_core.config.arms import E2ETrain
from pivotrl_core.config.inputs import EmbeddedSource, TrajectorySource
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import ChatEngine, TokenCount
from pivotrl_core.environments.episodes import Episode, EpisodePlayer
from pivotrl_core.environments.protocol import Domain, Task
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.errors import ConfigError
from pivotrl_core.seeding import generator
from pivotrl_core.training.divided_sampling import divide
from pivotrl_core.training.groups import EpisodeGroup
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.types import Candidate, Split
from pivotrl_core.verifiers.rewards import DEFAULT_RULE

TASK_SEED = 0  # of the training tasks that go with recorded trajectories


def training_tasks(domain: Domain, source: TrajectorySource, pool: Sequence[Candidate]) -> list[Task]:
    """As many tasks as the pool has trajectories, where the domain has them.

    Of an embedded source it is the trajectories' own tasks, so that the arm sees the same data as the others. Which
    tasks recorded trajectories come from the domain cannot be asked: then the first ones of its training split.
    """
    if isinstance(source, EmbeddedSource):
        seen = {str(candidate.metadata.get("task_id", "")) for candidate in pool}
        tasks = [task for task in domain.tasks(Split.TRAIN, source.trajectories, source.seed) if task.id in seen]
    else:
        tasks = list(domain.tasks(Split.TRAIN, len({one.trajectory_id for one in pool}), TASK_SEED))
    if not tasks:
        raise ConfigError(
            f"arms.NAME.train.method: e2e found no task of {domain.name!r} to train on; an embedded source must be the "
            "one that the trajectories were recorded from, with the same seed"
        )
    return tasks


class EpisodeGroups:
    """Implements the group source of `train_policy_gradient` for whole episodes, on the ranks of `policy`."""

    def __init__(
        self,
        policy: TrainablePolicy,
        engine: ChatEngine,
        renderer: ChatRenderer,
        source: TrajectorySource,
        pool: Sequence[Candidate],
        config: E2ETrain,
        seed: int,
    ) -> None:
        if not source.environment:
            raise ConfigError(
                "arms.NAME.train.method: e2e needs an environment to play in; name it as source.environment "
                "(docs/plugging-in.md), or take source.kind 'embedded', which has one"
            )
        self.policy = policy
        self.engine = engine
        self.config = config
        self.seed = seed
        self.count = TokenCount()  # of all ranks
        self.rule = DEFAULT_RULE  # an episode succeeds or fails
        domain = get_domain(source.environment)
        self.player = EpisodePlayer(engine, renderer, domain, config.max_tokens, config.max_turns)
        self.tasks = training_tasks(domain, source, pool)

    @property
    def resting(self) -> int:
        """None: every task comes back in each pass."""
        return 0

    def state(self) -> dict[str, Any]:
        """Nothing: the step alone decides which tasks come next."""
        return {}

    def resume(self, state: dict[str, Any]) -> None:
        """Nothing to go on from."""

    def groups(self, step: int) -> list[EpisodeGroup]:
        """G episodes for each of the step's tasks."""
        size, G = len(self.tasks), self.config.group_size
        tasks = []
        for position in range(step * self.config.prompts_per_step, (step + 1) * self.config.prompts_per_step):
            order = generator(self.seed, "task-order", position // size).permutation(size)
            tasks.append(self.tasks[int(order[position % size])])

        temperature = self.config.at(step).temperature

        def play(own: range) -> list[Episode]:
            return self.player.play(tasks, [temperature] * G, f"e2e-{step}", self.seed, own)

        episodes, tokens = divide(self.policy, self.engine, len(tasks), play)
        self.count.add(tokens)
        return [EpisodeGroup(tuple(episodes[i : i + G])) for i in range(0, len(episodes), G)]

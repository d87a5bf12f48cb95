"""Whole episodes of an environment, many at once: a policy plays, the environment answers, the final state is scored.

A malformed turn is given to the environment as it is (its answer is an error the policy can read), never hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import Sample, SamplingConfig, TokenCount
from pivotrl_core.engines.session import EpisodeSession
from pivotrl_core.engines.transformers_engine import TransformersEngine, common_prefix
from pivotrl_core.environments.protocol import Domain, Environment, Score, Task
from pivotrl_core.lanes import even_batches
from pivotrl_core.seeding import derive_seed
from pivotrl_core.trajectories.thinking import CLOSE
from pivotrl_core.types import Message


@dataclass(slots=True)
class Episode:
    """One episode as it was played: every turn's sample, the context in ids before each, and the score at the end."""

    task: Task
    temperature: float
    samples: list[Sample] = field(default_factory=list)
    contexts: list[tuple[int, ...]] = field(default_factory=list)
    malformed: int = 0
    score: Score = field(default_factory=lambda: Score(0.0))


@dataclass(slots=True)
class _Seat:
    """An episode in play."""

    environment: Environment
    messages: tuple[Message, ...]
    thought: bool = False  # whether thinking stands in its turns


@dataclass(frozen=True, slots=True)
class _Job:
    task: Task
    sample: int
    temperature: float


@dataclass(frozen=True, slots=True)
class EpisodePlayer:
    """Plays episodes of one domain in batches of `parallel` conversations.

    An episode ends where its environment ends it, after `max_turns`, or where the model's context has no room left.
    """

    engine: TransformersEngine
    renderer: ChatRenderer
    domain: Domain
    max_tokens: int
    max_turns: int
    parallel: int = 128

    def play(self, tasks: Sequence[Task], temperatures: Sequence[float], seed_name: str, seed: int) -> list[Episode]:
        """One episode of each task at each temperature, in order; a turn's seed derives from its names alone.

        A task that is named again is played on: its samples are counted, so that none is drawn twice.
        """
        counts: Counter[str] = Counter()
        jobs: list[_Job] = []
        for task in tasks:
            for temperature in temperatures:
                jobs.append(_Job(task, counts[task.id], temperature))
                counts[task.id] += 1
        batches = even_batches(len(jobs), self.parallel, self.engine.lanes.parts)
        episodes: list[Episode] = []

        def play_batch(batch: range) -> tuple[list[Episode], TokenCount]:
            player = replace(self, engine=self.engine.beside())
            return player._play_batch(jobs[batch.start : batch.stop], seed_name, seed), player.engine.count

        with self.engine.sampling():
            for played, count in self.engine.lanes.map(play_batch, batches):
                self.engine.count.add(count)
                episodes += played
        return episodes

    def _play_batch(self, jobs: Sequence[_Job], seed_name: str, seed: int) -> list[Episode]:
        seats = [self._open(job.task) for job in jobs]
        episodes = [Episode(job.task, job.temperature) for job in jobs]
        states = [self.renderer.state_ids(seat.messages, seat.environment.tools) for seat in seats]
        self.engine.check_room(max(map(len, states)), self.max_tokens)
        opening = min(common_prefix(states), min(map(len, states)) - 1)  # a session reads at least one id of each
        samplings = [SamplingConfig(job.temperature, self.max_tokens) for job in jobs]
        session = EpisodeSession(self.engine, states[0][:opening], samplings)
        appended: list[Sequence[int] | None] = [state[opening:] for state in states]
        for turn in range(self.max_turns):
            for episode, ids, context in zip(episodes, appended, session.context, strict=True):
                if ids is not None:
                    episode.contexts.append((*context, *ids))
            seeds = [derive_seed(seed, seed_name, job.task.id, job.sample, turn) for job in jobs]
            replies = session.reply(appended, seeds)
            appended = [
                self._answer(seat, episode, reply) if reply is not None else None
                for seat, episode, reply in zip(seats, episodes, replies, strict=True)
            ]
            room = self.engine.context_tokens - self.max_tokens
            appended = [
                ids if ids is not None and len(context) + len(ids) <= room else None
                for ids, context in zip(appended, session.context, strict=True)
            ]
            if all(ids is None for ids in appended):
                break
        for seat, episode in zip(seats, episodes, strict=True):
            episode.score = seat.environment.score()
        return episodes

    def _open(self, task: Task) -> _Seat:
        environment = self.domain.environment()
        return _Seat(environment, environment.reset(task).messages)

    def _answer(self, seat: _Seat, episode: Episode, reply: Sample) -> tuple[int, ...] | None:
        """Give the turn to the environment; the ids that follow it, or None at the end."""
        action = self.renderer.parse(reply.ids, seat.environment.tools)
        episode.samples.append(reply)
        episode.malformed += bool(action.error)
        seat.thought = seat.thought or CLOSE in action.text
        observation = seat.environment.step(action)
        if observation.done:
            return None
        following = self.renderer.following_ids(observation.messages, seat.thought)
        # A turn that was cut off is closed for it, as the template closes every turn: read, and never trained on.
        ended = reply.ids[-1] == self.renderer.eos_id
        return following if ended else (self.renderer.eos_id, *following)

"""Whole episodes of an environment, many at once: a policy plays, the environment answers, the final state is scored.

A malformed turn is given to the environment as it is (its answer is an error the policy can read), never hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import ChatEngine, Sample, SamplingConfig, TokenCount, check_room
from pivotrl_core.engines.stems import common_prefix
from pivotrl_core.environments.protocol import Domain, Environment, Score, Task
from pivotrl_core.lanes import even_batches
from pivotrl_core.seeding import derive_seed
from pivotrl_core.trajectories.thinking import CLOSE


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
class _Play:
    """An episode in play."""

    episode: Episode
    sample: int
    environment: Environment
    opening: tuple[int, ...]
    context: tuple[int, ...] = ()
    thought: bool = False  # whether thinking stands in its turns


@dataclass(frozen=True, slots=True)
class _Job:
    task: Task
    sample: int
    temperature: float


@dataclass(frozen=True, slots=True)
class EpisodePlayer:
    """Plays episodes of one domain, up to `parallel` at once: where one ends, the next one begins.

    An episode ends where its environment ends it, after `max_turns`, or where the model's context has no room left.
    """

    engine: ChatEngine
    renderer: ChatRenderer
    domain: Domain
    max_tokens: int
    max_turns: int
    parallel: int = 96

    def play(
        self, tasks: Sequence[Task], temperatures: Sequence[float], seed_name: str, seed: int, own: range | None = None
    ) -> list[Episode]:
        """One episode of each task at each temperature, in order; a turn's seed derives from its names alone.

        A task that is named again is played on: its samples are counted, so that none is drawn twice. With `own`, only
        tasks at these places are played.
        """
        counts: Counter[str] = Counter()
        jobs: list[_Job] = []
        for task in tasks:
            for temperature in temperatures:
                jobs.append(_Job(task, counts[task.id], temperature))
                counts[task.id] += 1
        if own is not None:
            jobs = jobs[own.start * len(temperatures) : own.stop * len(temperatures)]
        episodes: list[Episode] = []

        def play_part(part: range) -> tuple[list[Episode], TokenCount]:
            player = replace(self, engine=self.engine.beside())
            return player._play(jobs[part.start : part.stop], seed_name, seed), player.engine.count

        with self.engine.sampling():
            for played, count in self.engine.lanes.map(
                play_part, even_batches(len(jobs), max(len(jobs), 1), self.engine.lanes.parts)
            ):
                self.engine.count.add(count)
                episodes += played
        return episodes

    def _play(self, jobs: Sequence[_Job], seed_name: str, seed: int) -> list[Episode]:
        plays = [self._open(job) for job in jobs]
        check_room(self.engine.context_tokens, max(len(play.opening) for play in plays), self.max_tokens)
        states = [play.opening for play in plays]
        common = min(common_prefix(states), min(map(len, states)) - 1)  # a session reads at least one id of each
        session = self.engine.session(states[0][:common])

        def say(name: int, ids: Sequence[int]) -> None:
            play = plays[name]
            episode = play.episode
            play.context += tuple(ids)
            episode.contexts.append(play.context)
            turn_seed = derive_seed(seed, seed_name, episode.task.id, play.sample, len(episode.samples))
            new = ids if episode.samples else ids[common:]
            session.say(name, new, SamplingConfig(episode.temperature, self.max_tokens), turn_seed)

        coming = iter(range(len(plays)))
        for name in islice(coming, self.parallel):
            say(name, plays[name].opening)
        while turns := session.advance():
            for name, sample in turns:
                following = self._answer(plays[name], sample)
                if following is not None:
                    say(name, following)
                    continue
                plays[name].episode.score = plays[name].environment.score()
                session.end(name)
                for other in islice(coming, 1):
                    say(other, plays[other].opening)
        return [play.episode for play in plays]

    def _open(self, job: _Job) -> _Play:
        environment = self.domain.environment()
        messages = environment.reset(job.task).messages
        opening = self.renderer.state_ids(messages, environment.tools)
        return _Play(Episode(job.task, job.temperature), job.sample, environment, opening)

    def _answer(self, play: _Play, reply: Sample) -> tuple[int, ...] | None:
        """Give the turn to the environment; the ids that follow it, or None at the end."""
        action = self.renderer.parse(reply.ids, play.environment.tools)
        play.context += reply.ids
        play.episode.samples.append(reply)
        play.episode.malformed += bool(action.error)
        play.thought = play.thought or CLOSE in action.text
        observation = play.environment.step(action)
        if observation.done or len(play.episode.samples) == self.max_turns:
            return None
        following = self.renderer.following_ids(observation.messages, play.thought)
        # A turn that was cut off is closed for it, as the template closes every turn: read, and never trained on.
        ended = reply.ids[-1:] == (self.renderer.eos_id,)
        following = following if ended else (self.renderer.eos_id, *following)
        fits = len(play.context) + len(following) + self.max_tokens <= self.engine.context_tokens
        return following if fits else None

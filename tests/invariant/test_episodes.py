"""Whole episodes: what is recorded is what was read and sampled, and what end-to-end RL trains on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pivotrl_core.config.arms import E2ETrain, LoRA, OptimiserConfig
from pivotrl_core.config.inputs import EmbeddedSource, FolderSource
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import load_policy
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.environments.episodes import Episode, EpisodePlayer
from pivotrl_core.environments.protocol import Domain, Pool, Score, Task
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.errors import ConfigError
from pivotrl_core.grpo.prefix_tree import build_tree_row
from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.training.checkpoint import Progress
from pivotrl_core.training.episode_groups import EpisodeGroups
from pivotrl_core.training.groups import EpisodeGroup
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.policy_gradient import train_step
from pivotrl_core.training.scoring import score_row
from pivotrl_core.types import Candidate, Message, Role, Split
from tests.tiny_models import CHATML_CUTTING, COMPUTE, tiny_tokenizer

pytestmark = pytest.mark.usefixtures("deterministic")

TURNS = 3
BOTH = [0.0, 1.0]


def tasks(count: int) -> tuple[Task, ...]:
    domain: Domain = get_domain("helpdesk")
    return tuple(domain.tasks(Split.TRAIN, count, 0))


def player(folder: Path, parallel: int = 50) -> EpisodePlayer:
    policy = load_policy(folder, folder, COMPUTE)
    renderer = ChatRenderer(policy.tokenizer, "compact")
    # Many ids end a turn, so that turns are of unequal length and some are whole.
    engine = TransformersEngine(policy.model, [renderer.eos_id, *range(60, 200)])
    return EpisodePlayer(engine, renderer, get_domain("helpdesk"), 5, TURNS, parallel)


def trace(episodes: list[Episode]) -> list[tuple[Any, ...]]:
    return [(e.task.id, tuple(s.ids for s in e.samples), tuple(e.contexts), e.score.success) for e in episodes]


def test_an_episode_does_not_depend_on_those_played_beside_it(tiny_llama: Path) -> None:
    # Equal up to near-ties, of which these draws have none.
    together = trace(player(tiny_llama).play(tasks(4), BOTH, "x", 0))
    assert trace(player(tiny_llama, parallel=3).play(tasks(4), BOTH, "x", 0)) == together
    assert trace(player(tiny_llama).play(tasks(4), BOTH, "x", 1)) != together
    assert player(tiny_llama).play((), BOTH, "x", 0) == []
    assert len({ids for _, ids, _, _ in together}) > 5


def test_an_episode_ends_where_the_context_has_no_room_for_another_turn(tiny_llama: Path) -> None:
    one = player(tiny_llama)
    free = one.play(tasks(4), BOTH, "x", 0)
    lengths = sorted(len(e.contexts[-1]) for e in free)
    one.engine.context_tokens = lengths[len(lengths) // 2] + one.max_tokens
    bound = one.play(tasks(4), BOTH, "x", 0)
    for short, whole in zip(bound, free, strict=True):
        fitting = [context for context in whole.contexts if len(context) + one.max_tokens <= one.engine.context_tokens]
        assert short.contexts == fitting
    assert any(len(short.contexts) < len(whole.contexts) for short, whole in zip(bound, free, strict=True))
    one.engine.context_tokens = max(len(e.contexts[0]) for e in free) + one.max_tokens - 1
    with pytest.raises(ConfigError, match="cannot hold a prompt"):
        one.play(tasks(4), BOTH, "x", 0)


def test_the_contexts_are_what_the_policy_would_read_at_each_turn(tiny_llama: Path) -> None:
    one = player(tiny_llama)
    for episode in one.play(tasks(2), [1.0], "x", 0):
        environment = one.domain.environment()
        messages = list(environment.reset(episode.task).messages)
        read = one.renderer.state_ids(messages, environment.tools)
        assert len(episode.samples) == len(episode.contexts) <= TURNS
        for context, sample in zip(episode.contexts, episode.samples, strict=True):
            assert context == read
            observation = environment.step(one.renderer.parse(sample.ids, environment.tools))
            # A turn that was cut off, or that another id ended, is closed all the same.
            end = () if sample.ids[-1] == one.renderer.eos_id else (one.renderer.eos_id,)
            read = (*context, *sample.ids, *end, *one.renderer.following_ids(observation.messages))
        assert environment.score() == episode.score


def test_a_turn_that_was_cut_off_stands_in_later_states_as_the_template_writes_it(tiny_llama: Path) -> None:
    one = player(tiny_llama)
    cut = 0
    for episode in one.play(tasks(4), [1.0], "x", 0):
        environment = one.domain.environment()
        messages = list(environment.reset(episode.task).messages)
        for place, sample in enumerate(episode.samples[:-1]):
            action = one.renderer.parse(sample.ids, environment.tools)
            messages += [Message(Role.ASSISTANT, action.text), *environment.step(action).messages]
            later = one.renderer.decode(episode.contexts[place + 1])
            assert later == one.renderer.decode(one.renderer.state_ids(messages, environment.tools))
            cut += action.error.startswith("cut off")
    assert cut > 3


def test_an_episodes_tokens_are_scored_as_they_were_sampled(tiny_qwen3: Path) -> None:
    one = player(tiny_qwen3)
    episodes = tuple(one.play(tasks(2), [1.0, 1.0], "x", 0))
    group = EpisodeGroup(episodes)
    members = list(group.members(0, torch.tensor([1.0, -1.0, 0.5, -0.5])))
    assert group.lengths == [len(member.sequence.places) for member in members]
    row = build_tree_row([member.sequence for member in members])
    with torch.no_grad():
        logprobs_NT, _ = score_row(one.engine.model, row)
    for index, (member, episode) in enumerate(zip(members, episodes, strict=True)):
        sampled = [token for sample in episode.samples for token in sample.ids]
        assert [member.sequence.ids[place] for place in member.sequence.places] == sampled
        found = logprobs_NT[index][row.mask_NT[index]]
        torch.testing.assert_close(found, torch.tensor(member.logprobs), rtol=1e-3, atol=1e-3)


def trainable(folder: Path) -> TrainablePolicy:
    return TrainablePolicy(folder, folder, LoRA(rank=4, alpha=8.0), COMPUTE, seed=0)


CONFIG = E2ETrain(
    method="e2e", prompts_per_step=2, group_size=3, max_tokens=4, max_turns=2,
    optimiser=OptimiserConfig(learning_rate=0.01),
)  # fmt: skip


def pool(count: int) -> list[Candidate]:
    domain = get_domain("helpdesk")
    source = EmbeddedSource(trajectories=count)
    recorded = [domain.expert_trajectory(task, 0) for task in domain.tasks(Split.TRAIN, count, source.seed, Pool.MAIN)]
    return [next(iterate_candidates(one, Split.TRAIN)) for one in recorded]


def test_end_to_end_training_plays_the_tasks_of_the_pool_and_moves_the_policy(tiny_llama: Path) -> None:
    policy = trainable(tiny_llama)
    renderer = ChatRenderer(policy.tokenizer, "compact")
    engine = TransformersEngine(policy.model, [renderer.eos_id])
    candidates = pool(6)[:4]
    source = EpisodeGroups(policy, engine, renderer, EmbeddedSource(trajectories=6), candidates, CONFIG, seed=0)
    assert {task.id for task in source.tasks} == {str(c.metadata["task_id"]) for c in candidates}
    groups = source.groups(0)
    assert [len(group.rewards) for group in groups] == [3, 3]
    assert source.count.turns == sum(len(e.samples) for group in groups for e in group.episodes)
    for group in groups:  # a random policy never succeeds: let one episode of each group have
        group.episodes[0].score = Score(1.0)
    before = [master.detach().clone() for master in policy.masters]
    metrics = train_step(policy, Optimiser(policy, CONFIG.optimiser, 1), groups, CONFIG, 4000, Progress())
    assert metrics["train/ratio_mean"] == pytest.approx(1.0, abs=1e-3)
    assert metrics["train/reward_mean"] == pytest.approx(1 / 3)
    assert any(not torch.equal(a, b) for a, b in zip(before, policy.masters, strict=True))


def test_a_task_that_comes_twice_in_a_step_is_played_on_and_not_again(tiny_llama: Path) -> None:
    one = player(tiny_llama)
    policy = trainable(tiny_llama)
    settings = CONFIG.model_copy(update={"prompts_per_step": 3})
    source = EpisodeGroups(policy, one.engine, one.renderer, EmbeddedSource(trajectories=1), pool(1), settings, seed=0)
    groups = source.groups(0)
    assert {group.episodes[0].task.id for group in groups} == {source.tasks[0].id}
    played = [trace(list(group.episodes)) for group in groups]
    assert played[0] != played[1] != played[2] != played[0]


class Thinker:
    """Makes a renderer read every turn as one with thinking."""

    def __init__(self, renderer: ChatRenderer) -> None:
        self.renderer = renderer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.renderer, name)

    def parse(self, ids: Any, tools: Any) -> Any:
        return replace(self.renderer.parse(ids, tools), text="<think>\nHm.\n</think>\n\nHello.", error="")


def test_a_policy_that_thinks_plays_no_episode_under_a_template_that_cuts_thinking(tiny_llama: Path) -> None:
    plain = player(tiny_llama)
    thinking = replace(plain, renderer=Thinker(plain.renderer))  # type: ignore[arg-type]
    assert thinking.play(tasks(1), [1.0], "x", 0)
    cutting = ChatRenderer(tiny_tokenizer(CHATML_CUTTING), "compact")
    assert replace(plain, renderer=cutting).play(tasks(1), [1.0], "x", 0)
    with pytest.raises(ConfigError, match="cuts the thinking"):
        replace(plain, renderer=Thinker(cutting)).play(tasks(1), [1.0], "x", 0)  # type: ignore[arg-type]


def test_beside_recorded_trajectories_the_first_tasks_of_the_environment_are_trained_on(tiny_llama: Path) -> None:
    one, policy = player(tiny_llama), trainable(tiny_llama)
    source = FolderSource(kind="folder", path="x", environment="helpdesk")
    nameless = [replace(candidate, metadata={}) for candidate in pool(3)]
    played = EpisodeGroups(policy, one.engine, one.renderer, source, nameless, CONFIG, seed=0).tasks
    assert played == list(get_domain("helpdesk").tasks(Split.TRAIN, 3, 0))


def test_end_to_end_training_needs_an_environment_and_its_tasks(tiny_llama: Path) -> None:
    one, policy = player(tiny_llama), trainable(tiny_llama)
    with pytest.raises(ConfigError, match="needs an environment"):
        EpisodeGroups(policy, one.engine, one.renderer, FolderSource(kind="folder", path="x"), pool(1), CONFIG, seed=0)
    with pytest.raises(ConfigError, match="no task of 'helpdesk'"):
        EpisodeGroups(policy, one.engine, one.renderer, EmbeddedSource(trajectories=2), [], CONFIG, seed=0)

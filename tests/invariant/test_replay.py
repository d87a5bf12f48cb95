"""Replay and demonstration: a pivot that the policy fails throughout is given a success that the profile found there,
or the expert's action."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pivotrl_core.config.arms import GRPOTrain, OptimiserConfig
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.evaluation.drift import continuation
from pivotrl_core.grpo.prefix_tree import build_tree_row
from pivotrl_core.training.checkpoint import Progress
from pivotrl_core.training.groups import PivotGroup
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.pivot_groups import PivotGroups
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.policy_gradient import train_step
from pivotrl_core.training.scoring import score_row
from pivotrl_core.types import Action, Candidate, Verdict
from tests.tiny_models import COMPUTE
from tests.toy_training import LOW_RANK, LetterVerifier, toy_candidates

pytestmark = pytest.mark.usefixtures("deterministic")

SETTINGS = GRPOTrain(
    method="grpo", prompts_per_step=3, group_size=4, max_tokens=4, replay=True,
    optimiser=OptimiserConfig(learning_rate=0.01, warmup_steps=0),
)  # fmt: skip
ONLY_THE_EXAMPLE = LetterVerifier("§")
EXAMPLE = "A§"


class OneOf:
    """Reward 1 for an action that is one of some, token by token."""

    name, version = "one-of", "1"

    def __init__(self, renderer: ChatRenderer, actions: set[tuple[int, ...]]) -> None:
        self.texts = {renderer.parse(ids, ()).text for ids in actions}

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        return Verdict(float(action.text in self.texts), "")


def policy_of(folder: Path) -> TrainablePolicy:
    return TrainablePolicy(folder, folder, LOW_RANK, COMPUTE, seed=3)


def groups_of(
    policy: TrainablePolicy, settings: GRPOTrain = SETTINGS, verifier: Any = ONLY_THE_EXAMPLE, found: bool = True
) -> list[PivotGroup]:
    renderer = ChatRenderer(policy.tokenizer, "compact")
    engine = TransformersEngine(policy.model, [renderer.eos_id])
    pool = toy_candidates()
    example = (*policy.tokenizer.encode(EXAMPLE, add_special_tokens=False), renderer.eos_id)
    other = (*policy.tokenizer.encode("B", add_special_tokens=False), renderer.eos_id)  # a success of another verifier
    successes = {pivot.id: (other, example) for pivot in pool} if found else {}
    return PivotGroups(engine, renderer, verifier, pool, settings, 5, successes).groups(0)


def logprob(policy: TrainablePolicy, group: PivotGroup) -> float:
    row = build_tree_row([continuation(group.state_ids, group.action_ids[-1])])
    with torch.no_grad():
        logprobs_NT, _ = score_row(policy.inner, row, 1.0)
    return float(logprobs_NT.sum())


def test_a_group_without_reward_gets_the_profile_s_success_in_its_last_place(tiny_llama: Path) -> None:
    policy = policy_of(tiny_llama)
    plain = groups_of(policy, SETTINGS.model_copy(update={"replay": False}))
    groups = groups_of(policy)
    assert [group.replayed for group in plain] == [False] * 3
    assert [group.replayed for group in groups] == [True] * 3
    for group, before in zip(groups, plain, strict=True):
        assert group.action_ids[:-1] == before.action_ids[:-1]
        assert policy.tokenizer.decode(group.action_ids[-1]).startswith(EXAMPLE)
        assert (before.rewards, group.rewards) == ((0.0,) * 4, (0.0, 0.0, 0.0, 1.0))


def test_a_group_with_a_reward_of_its_own_or_without_a_success_stays_as_it_is(tiny_llama: Path) -> None:
    policy = policy_of(tiny_llama)
    everything = LetterVerifier("".join(map(chr, range(32, 127))))
    rewarded = groups_of(policy, verifier=everything)
    assert not any(group.replayed for group in rewarded if any(group.rewards))
    assert any(any(group.rewards) for group in rewarded)
    assert not any(group.replayed for group in groups_of(policy, found=False))
    # A success of the profile's verifier that the arm's own verifier does not reward is none.
    assert not any(group.replayed for group in groups_of(policy, verifier=LetterVerifier("¤")))


def test_the_expert_s_action_is_given_where_there_is_nothing_to_replay(tiny_llama: Path) -> None:
    policy = policy_of(tiny_llama)
    demonstrating = SETTINGS.model_copy(update={"demonstrate": True, "max_tokens": 64})
    assert all(group.replayed and not group.demonstrated for group in groups_of(policy, demonstrating))
    renderer = ChatRenderer(policy.tokenizer, "compact")
    experts = {renderer.action_ids(pivot.expert) for pivot in toy_candidates()}
    expert_alone = OneOf(renderer, experts)
    settings = [demonstrating, demonstrating.model_copy(update={"replay": False})]
    for groups in (groups_of(policy, one, expert_alone) for one in settings):
        for group in groups:
            assert (group.replayed, group.demonstrated) == (False, True)
            assert group.action_ids[-1] in experts
            assert group.rewards == (0.0, 0.0, 0.0, 1.0)
    assert not any(group.demonstrated for group in groups_of(policy, SETTINGS, expert_alone))
    # An action of the expert's that the arm's own verifier does not reward teaches nothing.
    assert not any(group.demonstrated for group in groups_of(policy, demonstrating, LetterVerifier("¤")))
    # One that is longer than what the policy may write would teach what it can never do.
    lengths = sorted(map(len, experts))
    for limit, given in ((lengths[-1], 3), (lengths[0] - 1, 0)):
        groups = groups_of(policy, demonstrating.model_copy(update={"max_tokens": limit}), expert_alone)
        assert sum(group.demonstrated for group in groups) == given


def test_a_demonstration_moves_the_policy_to_it_and_is_no_reward_of_its_own(tiny_llama: Path) -> None:
    policy = policy_of(tiny_llama)
    renderer = ChatRenderer(policy.tokenizer, "compact")
    expert_alone = OneOf(renderer, {renderer.action_ids(pivot.expert) for pivot in toy_candidates()})
    settings = SETTINGS.model_copy(update={"demonstrate": True, "max_tokens": 64})
    groups = groups_of(policy, settings, expert_alone)
    before = [logprob(policy, group) for group in groups]
    metrics = train_step(policy, Optimiser(policy, settings.optimiser, 1), groups, settings, 400, Progress())
    assert all(logprob(policy, group) > old for group, old in zip(groups, before, strict=True))
    found = [metrics[f"train/{name}"] for name in ("reward_mean", "replayed_share", "demonstrated_share")]
    assert found == [0.0, 0.0, 1.0]


def test_a_pivot_rests_from_a_share_of_full_rewards_on(tiny_llama: Path) -> None:
    policy = policy_of(tiny_llama)
    renderer = ChatRenderer(policy.tokenizer, "compact")
    engine = TransformersEngine(policy.model, [renderer.eos_id])
    verifier = LetterVerifier("".join(map(chr, range(97, 110))))
    rested = {}
    for share in (0.25, 0.5, 1.0):
        settings = SETTINGS.model_copy(update={"replay": False, "rest_passes": 2, "rest_share": share})
        source = PivotGroups(engine, renderer, verifier, toy_candidates(), settings, 5)
        places = PivotGroups(engine, renderer, verifier, toy_candidates(), settings, 5).order.take(3)
        rewards = [sum(group.rewards) / 4 for group in source.groups(0)]
        rested[share] = {place for place, _ in source.state()["back"]}
        assert rested[share] == {place for place, mean in zip(places, rewards, strict=True) if mean >= share}
    assert rested[0.25] > rested[1.0]


@pytest.mark.parametrize("updates", [1, 3])
def test_it_is_trained_on_as_if_it_had_been_sampled(updates: int, tiny_llama: Path) -> None:
    settings = SETTINGS.model_copy(update={"updates_per_step": updates})
    results = []
    for sampled in (False, True):
        policy = policy_of(tiny_llama)
        groups = groups_of(policy, settings)
        if sampled:  # the same groups, with the log-probabilities that an engine would have recorded
            groups = [with_logprobs(policy, group) for group in groups]
        before = [logprob(policy, group) for group in groups]
        metrics = train_step(policy, Optimiser(policy, settings.optimiser, 1), groups, settings, 400, Progress())
        after = [logprob(policy, group) for group in groups]
        assert all(new > old for new, old in zip(after, before, strict=True))
        results.append((metrics["train/loss"], metrics["train/grad_norm"], after))
        # What was replayed does not count as the policy's own reward.
        found = (metrics["train/reward_mean"], metrics["train/replayed_share"])
        assert found == ((0.25, 0.0) if sampled else (0.0, 1.0))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-5)
    assert results[0][1] == pytest.approx(results[1][1], rel=1e-3)
    assert results[0][2] == pytest.approx(results[1][2], rel=1e-3)


def with_logprobs(policy: TrainablePolicy, group: PivotGroup) -> PivotGroup:
    row = build_tree_row([continuation(group.state_ids, group.action_ids[-1])])
    with torch.no_grad():
        logprobs_NT, _ = score_row(policy.inner, row, 1.0)
    logprobs = (*group.logprobs[:-1], tuple(logprobs_NT[0].tolist()))
    return replace(group, logprobs=logprobs, replayed=False, replaced=None)

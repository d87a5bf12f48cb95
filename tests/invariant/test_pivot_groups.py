"""Groups of pivots: who judges them, and what counts as full reward and as none."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from pivotrl_core.config.arms import GRPOTrain
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.training.groups import PivotGroup
from pivotrl_core.training.pivot_groups import PivotGroups
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.ranks import Ranks
from pivotrl_core.types import Action, Candidate, Verdict
from pivotrl_core.verifiers.rewards import RewardRule
from tests.tiny_models import COMPUTE
from tests.toy_training import LOW_RANK, toy_candidates

SETTINGS = GRPOTrain(method="grpo", prompts_per_step=3, group_size=4, max_tokens=4)
RESERVED = RewardRule(success=0.9, failure=0.1, malformed=0.1)


@dataclass
class Always:
    """The same reward for whatever is judged, and how much was."""

    reward: float
    judged: int = 0
    name: str = "always"
    version: str = "1"

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        self.judged += 1
        return Verdict(self.reward, "")


class OnlyGiven:
    """A reward of 0.1 for what is sampled at a pivot, and 0.9 for what is judged after it: an action that is given."""

    name, version = "only-given", "1"

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        self.judged[candidate.id] += 1
        return Verdict(0.9 if self.judged[candidate.id] > SETTINGS.group_size else 0.1, "")


@dataclass
class Meeting:
    """What two ranks in one process leave for each other."""

    values: dict[int, Any] = field(default_factory=dict)
    barrier: Barrier = field(default_factory=lambda: Barrier(2, timeout=60))


class MetRanks(Ranks):
    """A rank of two, each a thread."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        super().__init__(rank, 2)
        object.__setattr__(self, "meeting", meeting)

    def gather(self, value: Any) -> list[Any]:
        self.meeting.values[self.rank] = value  # type: ignore[attr-defined]
        self.meeting.barrier.wait()  # type: ignore[attr-defined]
        return [self.meeting.values[rank] for rank in range(2)]  # type: ignore[attr-defined]


@pytest.fixture
def policy(tiny_llama: Path) -> TrainablePolicy:
    return TrainablePolicy(tiny_llama, tiny_llama, LOW_RANK, COMPUTE, seed=3)


def source_of(policy: TrainablePolicy, verifier: Any, settings: GRPOTrain = SETTINGS, **more: Any) -> PivotGroups:
    renderer = ChatRenderer(policy.tokenizer, "compact")
    engine = TransformersEngine(policy.model, [renderer.eos_id])
    return PivotGroups(engine, renderer, verifier, toy_candidates(), settings, 5, **more)


def test_ranks_train_on_the_same_rewards_though_their_verifiers_differ(policy: TrainablePolicy) -> None:
    meeting, verifiers = Meeting(), [Always(1.0), Always(0.0)]
    sources = [source_of(policy, verifiers[rank], ranks=MetRanks(rank, meeting)) for rank in range(2)]
    found: dict[int, list[PivotGroup]] = {}

    def take(rank: int) -> None:
        found[rank] = sources[rank].groups(0)

    threads = [Thread(target=take, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [group.rewards for group in found[0]] == [(1.0,) * 4, (0.0,) * 4, (0.0,) * 4]
    assert found[0] == found[1]
    assert sources[0].state() == sources[1].state()
    assert sum(verifier.judged for verifier in verifiers) <= 3 * 4


def test_what_full_reward_is_and_what_is_none_comes_from_the_rule(policy: TrainablePolicy) -> None:
    settings = SETTINGS.model_copy(update={"demonstrate": True, "rest_passes": 1, "rest_share": 0.25, "max_tokens": 64})
    source = source_of(policy, OnlyGiven(), settings, rule=RESERVED)
    groups = source.groups(0)
    assert all(group.demonstrated for group in groups)
    assert [group.rewards[-1] for group in groups] == [0.9] * 3
    assert not any(map(source._is_mastered, groups)), "what was given is not what the policy can do"
    assert all(map(source._is_mastered, source_of(policy, Always(0.9), settings, rule=RESERVED).groups(0)))

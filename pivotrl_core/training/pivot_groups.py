"""Groups from a pool of pivots: which pivots a step takes, their samples from the current policy, their rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pivotrl_core.config.arms import GRPOTrain
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import Engine, Request, Sample, SamplingConfig, TokenCount
from pivotrl_core.seeding import derive_seed
from pivotrl_core.training.groups import PivotGroup
from pivotrl_core.training.pivot_order import PivotOrder
from pivotrl_core.training.ranks import ONE_RANK, Ranks
from pivotrl_core.types import Candidate
from pivotrl_core.verifiers.batches import verify_all
from pivotrl_core.verifiers.judged import judge_tokens
from pivotrl_core.verifiers.protocol import Verifier
from pivotrl_core.verifiers.rewards import DEFAULT_RULE, RewardRule


class PivotGroups:
    """Implements `GroupSource`. The order of pivots is `PivotOrder`'s; a step's samples are the policy's as it is.

    With `replay`, a group without any reward is given a success that the profile found at that pivot (`found`, by
    candidate id), the first of them that this training's verifier rewards; with `demonstrate`, where there is none, the
    expert's action: what the policy does not write itself, no sample of its own would teach it. What is given is
    trained on as if it had been sampled (its ratio begins at 1), which is not the paper's objective. What is longer
    than `max_tokens` is not given.

    With several `ranks`, each judges its share of the groups: a verdict may depend on a clock or a server, and all
    ranks must train on the same rewards. `rule` says what full reward is, and what is none.
    """

    def __init__(
        self,
        engine: Engine,
        renderer: ChatRenderer,
        verifier: Verifier,
        pool: Sequence[Candidate],
        config: GRPOTrain,
        seed: int,
        found: Mapping[str, Sequence[tuple[int, ...]]] | None = None,
        rule: RewardRule = DEFAULT_RULE,
        ranks: Ranks = ONE_RANK,
    ) -> None:
        self.engine = engine
        self.renderer = renderer
        self.verifier = verifier
        self.pool = pool
        self.config = config
        self.seed = seed
        self.rule = rule
        self.ranks = ranks
        self.order = PivotOrder(len(pool), seed, config.rest_passes)
        self.found = found if found is not None and config.replay else {}
        self._judge_tokens = 0

    def renew(self, pool: Sequence[Candidate], found: Mapping[str, Sequence[tuple[int, ...]]]) -> None:
        """Train on another pool from now on. Passes go on counting, so that none has the order of an earlier one."""
        self.pool = pool
        self.order = PivotOrder(len(pool), self.seed, self.config.rest_passes, self.order.passes)
        self.found = found if self.config.replay else {}

    @property
    def count(self) -> TokenCount:
        """Tokens sampled so far, and what a judge read and wrote about them."""
        return replace(self.engine.count, judge=self._judge_tokens)

    @property
    def resting(self) -> int:
        """Mastered pivots that sit out."""
        return len(self.order.back)

    def state(self) -> dict[str, Any]:
        """Where the order of pivots stands."""
        return self.order.state()

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.order.resume(state)

    def groups(self, step: int) -> list[PivotGroup]:
        """Groups of the next step: a function of the seed, the step, the order's state and the policy's weights."""
        places = self.order.take(self.config.prompts_per_step)
        pivots = [self.pool[place] for place in places]
        requests = [
            Request(
                f"{step}-{line}",
                self.renderer.state_ids(pivot.state, pivot.tools),
                tuple(derive_seed(self.seed, "train", step, line, g) for g in range(self.config.group_size)),
            )
            for line, pivot in enumerate(pivots)
        ]
        sampling = SamplingConfig(self.config.at(step).temperature, self.config.max_tokens)
        samples = self.engine.sample(requests, sampling)
        groups = self._judged(pivots, [request.prompt_ids for request in requests], samples)
        self.order.note_mastered(place for place, group in zip(places, groups, strict=True) if self._is_mastered(group))
        return groups

    def _judged(
        self, pivots: Sequence[Candidate], states: Sequence[tuple[int, ...]], samples: Sequence[Sequence[Sample]]
    ) -> list[PivotGroup]:
        """All groups, in order, each judged on one rank."""
        before = self._judge_tokens
        own = [self._group(pivots[line], states[line], samples[line]) for line in self.ranks.share(len(pivots))]
        groups, tokens = list[PivotGroup](), before
        for part, asked in self.ranks.gather((own, self._judge_tokens - before)):
            groups += part
            tokens += asked
        self._judge_tokens = tokens
        return groups

    def _group(self, pivot: Candidate, state_ids: tuple[int, ...], samples: Sequence[Sample]) -> PivotGroup:
        actions = tuple(sample.ids for sample in samples)
        rewards = self._rewards(pivot, actions)
        group = PivotGroup(state_ids, actions, tuple(sample.logprobs for sample in samples), rewards)
        return group if any(self._is_rewarded(reward) for reward in rewards) else self._helped(pivot, group)

    def _is_rewarded(self, reward: float) -> bool:
        return reward > self.rule.failure

    def _is_mastered(self, group: PivotGroup) -> bool:
        """Whether enough of what the policy wrote itself has full reward."""
        if group.replayed or group.demonstrated:
            return False
        full = sum(reward >= self.rule.success for reward in group.rewards)
        return full >= self.config.rest_share * len(group.rewards)

    def _rewards(self, pivot: Candidate, group: Sequence[Sequence[int]]) -> tuple[float, ...]:
        cases = [(pivot, self.renderer.parse(ids, pivot.tools)) for ids in group]
        verdicts = verify_all(self.verifier, cases)
        self._judge_tokens += judge_tokens(dict(zip(map(tuple, group), verdicts, strict=True)))
        return tuple(verdict.reward for verdict in verdicts)

    def _helped(self, pivot: Candidate, group: PivotGroup) -> PivotGroup:
        """The group with an action in its last place that this verifier rewards, where one may be given to it."""
        given = [(ids, False) for ids in self.found.get(pivot.id, ())]
        if self.config.demonstrate:
            given.append((self.renderer.action_ids(pivot.expert), True))
        for ids, demonstrated in given:
            if len(ids) > self.config.max_tokens:  # the policy could never write it
                continue
            (reward,) = self._rewards(pivot, [ids])
            if self._is_rewarded(reward):
                return replace(
                    group, action_ids=(*group.action_ids[:-1], ids), logprobs=(*group.logprobs[:-1], ()),
                    rewards=(*group.rewards[:-1], reward), replayed=not demonstrated, demonstrated=demonstrated,
                    replaced=group.rewards[-1],
                )  # fmt: skip
        return group

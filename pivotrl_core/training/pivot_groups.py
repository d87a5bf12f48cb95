"""Groups from a pool of pivots: which pivots a step takes, their samples from the current policy, their rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pivotrl_core.config.arms import GRPOTrain
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import Engine, Request, SamplingConfig, TokenCount
from pivotrl_core.seeding import derive_seed
from pivotrl_core.training.groups import PivotGroup
from pivotrl_core.training.pivot_order import PivotOrder
from pivotrl_core.types import Candidate
from pivotrl_core.verifiers.batches import verify_all
from pivotrl_core.verifiers.judged import judge_tokens
from pivotrl_core.verifiers.protocol import Verifier

FULL_REWARD = 1.0  # of a verdict that accepts without reserve


class PivotGroups:
    """Implements `GroupSource`. The order of pivots is `PivotOrder`'s; a step's samples are the policy's as it is.

    With `replay`, a group without any reward is given a success that the profile found at that pivot (`found`, by
    candidate id), the first of them that this training's verifier rewards; with `demonstrate`, where there is none, the
    expert's action: what the policy does not write itself, no sample of its own would teach it. What is given is
    trained on as if it had been sampled (its ratio begins at 1), which is not the paper's objective.
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
    ) -> None:
        self.engine = engine
        self.renderer = renderer
        self.verifier = verifier
        self.pool = pool
        self.config = config
        self.seed = seed
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
        sampling = SamplingConfig(self.config.temperature, self.config.max_tokens)
        groups = []
        for pivot, request, samples in zip(pivots, requests, self.engine.sample(requests, sampling), strict=True):
            actions = tuple(sample.ids for sample in samples)
            rewards = self._rewards(pivot, actions)
            group = PivotGroup(request.prompt_ids, actions, tuple(sample.logprobs for sample in samples), rewards)
            groups.append(group if any(rewards) else self._helped(pivot, group))
        self.order.note_mastered(place for place, group in zip(places, groups, strict=True) if self._is_mastered(group))
        return groups

    def _is_mastered(self, group: PivotGroup) -> bool:
        full = sum(reward >= FULL_REWARD for reward in group.rewards)
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
            (reward,) = self._rewards(pivot, [ids])
            if reward:
                return replace(
                    group, action_ids=(*group.action_ids[:-1], ids), logprobs=(*group.logprobs[:-1], ()),
                    rewards=(*group.rewards[:-1], reward), replayed=not demonstrated, demonstrated=demonstrated,
                )  # fmt: skip
        return group

"""Groups from a pool of pivots: which pivots a step takes, their samples from the current policy, their rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pivotrl_core.config.arms import GRPOTrain
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import Engine, Request, SamplingConfig, TokenCount
from pivotrl_core.seeding import derive_seed
from pivotrl_core.training.groups import PivotGroup
from pivotrl_core.training.pivot_order import PivotOrder
from pivotrl_core.types import Candidate
from pivotrl_core.verifiers.protocol import Verifier

FULL_REWARD = 1.0  # of a verdict that accepts without reserve


class PivotGroups:
    """Implements `GroupSource`. The order of pivots is `PivotOrder`'s; a step's samples are the policy's as it is."""

    def __init__(
        self,
        engine: Engine,
        renderer: ChatRenderer,
        verifier: Verifier,
        pool: Sequence[Candidate],
        config: GRPOTrain,
        seed: int,
    ) -> None:
        self.engine = engine
        self.renderer = renderer
        self.verifier = verifier
        self.pool = pool
        self.config = config
        self.seed = seed
        self.order = PivotOrder(len(pool), seed, config.rest_passes)

    @property
    def count(self) -> TokenCount:
        """Tokens sampled so far."""
        return self.engine.count

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
            actions = [self.renderer.parse(sample.ids, pivot.tools) for sample in samples]
            groups.append(
                PivotGroup(
                    request.prompt_ids,
                    tuple(sample.ids for sample in samples),
                    tuple(sample.logprobs for sample in samples),
                    tuple(self.verifier.verify(pivot, action).reward for action in actions),
                )
            )
        self.order.note_mastered(
            place for place, group in zip(places, groups, strict=True) if min(group.rewards) >= FULL_REWARD
        )
        return groups

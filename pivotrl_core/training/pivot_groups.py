"""Groups from a pool of pivots: which pivots a step takes, their samples from the current policy, their rewards."""

from __future__ import annotations

from collections.abc import Sequence

from pivotrl_core.config.arms import GRPOTrain
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import Engine, Request, SamplingConfig, TokenCount
from pivotrl_core.seeding import derive_seed, generator
from pivotrl_core.training.groups import PivotGroup
from pivotrl_core.types import Candidate
from pivotrl_core.verifiers.protocol import Verifier


class PivotGroups:
    """Implements `GroupSource`. Passes over the pool, each in an order of the seed's own, run into one another."""

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

    @property
    def count(self) -> TokenCount:
        """Tokens sampled so far."""
        return self.engine.count

    def groups(self, step: int) -> list[PivotGroup]:
        """Groups of one step: a function of the seed, the step and the policy's weights."""
        pivots = self.pivots(step)
        requests = [
            Request(
                f"{step}-{place}",
                self.renderer.state_ids(pivot.state, pivot.tools),
                tuple(derive_seed(self.seed, "train", step, place, g) for g in range(self.config.group_size)),
            )
            for place, pivot in enumerate(pivots)
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
        return groups

    def pivots(self, step: int) -> list[Candidate]:
        """The pivots of one step."""
        size = len(self.pool)
        chosen = []
        for position in range(step * self.config.prompts_per_step, (step + 1) * self.config.prompts_per_step):
            order = generator(self.seed, "pivot-order", position // size).permutation(size)
            chosen.append(self.pool[int(order[position % size])])
        return chosen

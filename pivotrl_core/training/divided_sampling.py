"""Sampling on several ranks: each samples its share of the requests, and every rank gets the samples of all.

A sample is decided by its prompt and seed, so it is the one that a single process draws, but for near-ties: how many
requests share a batch changes the order of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pivotrl_core.engines.protocol import Engine, More, Request, Sample, SamplingConfig, TokenCount
from pivotrl_core.training.policy import TrainablePolicy


class DividedEngine:
    """Implements `Engine` on the ranks of a policy. Its count is that of all ranks.

    Args:
        engine: samples from the policy in this process.
        policy: whose weights are gathered for it.
    """

    def __init__(self, engine: Engine, policy: TrainablePolicy) -> None:
        self.engine = engine
        self.policy = policy
        self.version = engine.version
        self.count = TokenCount()

    def sample(
        self, requests: Sequence[Request], sampling: SamplingConfig, more: More | None = None
    ) -> list[list[Sample]]:
        """One list per request, in order, with one sample per seed, in order; the same on every rank."""
        own = self.policy.ranks.share(len(requests))
        before = replace(self.engine.count)

        def more_of_own(at: int, samples: Sequence[Sample]) -> int:
            assert more is not None
            return more(own.start + at, samples)

        with self.policy.gathered():
            mine = [requests[at] for at in own]
            found = self.engine.sample(mine, sampling, None if more is None else more_of_own) if mine else []
        results: list[list[Sample]] = []
        for samples, count in self.policy.ranks.gather((found, self.engine.count.since(before))):
            results += samples
            self.count.add(count)
        return results

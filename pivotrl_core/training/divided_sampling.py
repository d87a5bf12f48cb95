"""Sampling on several ranks: each samples its share of the requests or tasks, and every rank gets the samples of all.

A sample is decided by its prompt and seed, so it is the one that a single process draws, but for near-ties: how many
requests share a batch changes the order of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from pivotrl_core.engines.protocol import Engine, More, Request, Sample, SamplingConfig, TokenCount
from pivotrl_core.training.policy import TrainablePolicy

Result = TypeVar("Result")


def divide(
    policy: TrainablePolicy, engine: Engine, number: int, sample: Callable[[range], list[Result]]
) -> tuple[list[Result], TokenCount]:
    """What `sample` gives for each of `number` things, in order, and the tokens that it took on all ranks.

    Args:
        policy: whose weights are gathered for it, on whose ranks.
        engine: samples from it in this process, and counts.
        number: of things.
        sample: asked on each rank for its share of them.
    """
    own = policy.ranks.share(number)
    before = replace(engine.count)
    with policy.gathered():
        found = sample(own) if own else []
    results, tokens = list[Result](), TokenCount()
    for part, count in policy.ranks.gather((found, engine.count.since(before))):
        results += part
        tokens.add(count)
    return results, tokens


class DividedEngine:
    """Implements `Engine` on the ranks of a policy; its count is that of all ranks.

    Args:
        engine: samples from the policy in this process.
        policy: whose ranks these are.
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

        def sample_own(own: range) -> list[list[Sample]]:
            asked = None if more is None else lambda at, samples: more(own.start + at, samples)
            return self.engine.sample([requests[at] for at in own], sampling, asked)

        results, tokens = divide(self.policy, self.engine, len(requests), sample_own)
        self.count.add(tokens)
        return results

"""Exact curtailment: no more samples of a candidate than its decisions need.

A rule that looks at one candidate alone decides from s successes among K samples. After n samples with s successes the
K will have between s and s + K - n; where the rule decides all of these alike, the rest of the samples cannot change
the decision, and are not drawn. With K = 8 and lambda_diff 0.6, five successes end it, and so do four failures once
there is a success. Samples are drawn in waves of as many as could possibly decide it, so none is drawn in vain: what is
drawn is what drawing one by one would draw. Given the same stream of samples, the decisions are those of all K.

Rules that look at all candidates together (adaptive eta) need all K. Whoever reads mu or sigma^2 of a candidate that
was cut short reads a biased number: `successes / k` stops where it is most telling. And what is not drawn cannot be
replayed in training, so a rule may ask for all K samples of what it keeps (`complete`): then only drops end early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from pivotrl_core.types import Json

Keeps = Callable[[str, int, int], bool]  # whether a rule keeps a candidate of a domain, with k samples and s successes


class StoppingRule(Protocol):
    """When a candidate has samples enough."""

    @property
    def identity(self) -> Json:
        """Plain values that say how many samples are drawn, beside K and the threshold of success."""
        ...

    def needed(self, domain: str, drawn: int, successes: int) -> int:
        """How many samples to draw next; 0 where there are enough."""
        ...


@dataclass(frozen=True, slots=True)
class Curtailment:
    """When the decisions of all rules on a candidate stand.

    Attributes:
        rules: what is decided, by names that say all that a rule decides by.
        k: samples of a candidate that is not cut short.
        complete: names of the rules that need all `k` samples of what they keep.
    """

    rules: Mapping[str, Keeps]
    k: int
    complete: frozenset[str] = frozenset()
    _kept: dict[str, list[list[int]]] = field(default_factory=dict, init=False, compare=False)

    @property
    def identity(self) -> Json:
        """The names of the rules, and of those that need more than a decision."""
        names: list[Json] = [*sorted(self.rules)]
        return [names, [*sorted(self.complete)]] if self.complete else names

    def needed(self, domain: str, drawn: int, successes: int) -> int:
        """The fewest further samples after which all decisions could stand; 0 where they stand. Of none drawn, one."""
        kept = self._kept_until(domain)
        if drawn == self.k or (drawn and self._stand(kept, drawn, successes)):
            return 0
        for more in range(1, self.k - drawn):
            if any(self._stand(kept, drawn + more, successes + found) for found in range(more + 1)):
                return more
        return self.k - drawn

    def _stand(self, kept: list[list[int]], drawn: int, successes: int) -> bool:
        outcomes = self.k - drawn + 1
        found = (until[successes + outcomes] - until[successes] for until in kept)
        return all(
            count == 0 or (count == outcomes and name not in self.complete)
            for name, count in zip(self.rules, found, strict=True)
        )

    def _kept_until(self, domain: str) -> list[list[int]]:
        """Of each rule and each s, how many numbers of successes below s it keeps a candidate for."""
        if domain not in self._kept:
            self._kept[domain] = [
                list(accumulate((keeps(domain, self.k, s) for s in range(self.k + 1)), initial=0))
                for keeps in self.rules.values()
            ]
        return self._kept[domain]


def stands(keeps: Keeps, domain: str, k: int, drawn: int, successes: int) -> bool:
    """Whether the samples that are missing of `k` cannot change what a rule decides."""
    return len({keeps(domain, k, successes + further) for further in range(k - drawn + 1)}) == 1

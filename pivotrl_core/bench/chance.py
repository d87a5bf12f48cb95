"""Success by chance, where a model's weights are random and nothing that it writes could succeed.

How often a candidate's samples succeed is drawn from what was seen of real candidates, once for each candidate; whether
one sample does is drawn from its text. So the same samples have the same verdicts, in whatever order they come.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pivotrl_core.types import Action, Candidate, Verdict

# Candidates of the help desk by their successes among 16 samples of its base policy (lab log, 2026-12-01).
HELP_DESK = (8, 7, 7, 19, 5, 17, 10, 14, 6, 8, 10, 2, 8, 9, 22, 35, 51)


def draw_rates(source: random.Random, counts: Sequence[int], number: int) -> list[float]:
    """Rates of success that are spread as those of a real profile may be.

    Args:
        source: of random numbers.
        counts: real candidates by their successes s of K; the rate of one is drawn from Beta(s + 1/2, K - s + 1/2).
        number: of rates.
    """
    k = len(counts) - 1
    successes = source.choices(range(k + 1), weights=counts, k=number)
    return [source.betavariate(s + 0.5, k - s + 0.5) for s in successes]


@dataclass(slots=True)
class ChanceVerifier:
    """Accepts as many actions of a candidate as its rate says."""

    name: str = "chance"
    version: str = "1"

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        (rate,) = draw_rates(random.Random(candidate.id), HELP_DESK, 1)
        return Verdict(float(random.Random(f"{candidate.id} {action}").random() < rate), "chance")

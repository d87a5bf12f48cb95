"""When to profile again: the rule that says that a pool has taught what it can teach for now.

It looks at a window of the newest steps, all of them since the last profile, and at three numbers of each: the mean
reward, the mean spread of rewards in a group, and the share of groups without any spread. Each has a limit, or none and
is not looked at. Training is saturated where, over the window,

1. the mean share of zero-variance groups is above its limit: most samples teach nothing (Proposition 3.1), or
2. the mean reward is flat, or
3. the mean spread is flat.

Flat is what neither rises nor falls by more than a limit from the window's first step to its last, on the line of least
squares. The reports on the recipe say that it profiles again 'whenever accuracy saturates' and give no threshold: the
limits are ours. Rewards of a step are noisy: with deviation d, the fitted rise over n steps has the deviation
d sqrt(12 (n - 1) / (n (n + 1))), about d at n = 10, and a limit far below it is met by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean


class Saturation(StrEnum):
    """Why a policy profiles again."""

    EQUAL_GROUPS = "zero_variance"
    REWARD = "reward_flat"
    SPREAD = "spread_flat"


@dataclass(frozen=True, slots=True)
class StepSignal:
    """What one step says: mean reward, mean over groups of the standard deviation, share of zero-variance groups."""

    reward: float
    spread: float
    zero_variance_share: float


@dataclass(frozen=True, slots=True)
class SaturationRule:
    """The rule with its limits.

    Attributes:
        window: steps that are looked at, 2 or more.
        limit: how often at most.
        zero_variance_share: of zero-variance groups, in [0, 1]; saturated above it. None: not looked at.
        reward_change: of the mean reward over the window; saturated where it changes by no more. None: not looked at.
        spread_change: the same of the mean standard deviation in a group.
    """

    window: int
    limit: int
    zero_variance_share: float | None = None
    reward_change: float | None = None
    spread_change: float | None = None

    def reason(self, signals: Sequence[StepSignal], done: int, left: int) -> Saturation | None:
        """Why to profile again now, or None.

        Args:
            signals: of each step since the last profile, in order.
            done: how often it has profiled again.
            left: steps still to train. Below a window of them it is too late: the new pool would hardly be used.
        """
        if done >= self.limit or left < self.window or len(signals) < self.window:
            return None
        seen = signals[-self.window :]
        share = sum(one.zero_variance_share for one in seen) / self.window
        if self.zero_variance_share is not None and share > self.zero_variance_share:
            return Saturation.EQUAL_GROUPS
        if _is_flat([one.reward for one in seen], self.reward_change):
            return Saturation.REWARD
        return Saturation.SPREAD if _is_flat([one.spread for one in seen], self.spread_change) else None


def moving_means(signals: Sequence[StepSignal], period: int) -> list[StepSignal]:
    """The mean of each `period` neighbouring steps, so `period` - 1 fewer; none where there are not so many."""
    parts = [signals[end - period : end] for end in range(period, len(signals) + 1)]
    return [
        StepSignal(
            fmean(one.reward for one in part),
            fmean(one.spread for one in part),
            fmean(one.zero_variance_share for one in part),
        )
        for part in parts
    ]


def fitted_change(values: Sequence[float]) -> float:
    """Change from the first to the last value of the line of least squares through them; 2 values or more."""
    middle = (len(values) - 1) / 2
    offsets = [index - middle for index in range(len(values))]
    slope = sum(offset * value for offset, value in zip(offsets, values, strict=True)) / sum(o * o for o in offsets)
    return slope * (len(values) - 1)


def _is_flat(values: Sequence[float], limit: float | None) -> bool:
    return limit is not None and abs(fitted_change(values)) <= limit

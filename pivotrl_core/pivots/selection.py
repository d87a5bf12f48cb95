"""Selection rules: which profiled candidates are worth training on, and for each of the others, why not.

A rule sees the profile's rows only, never a model. Every rule decides each row and keeps the order.
Source of `pivots`: arXiv 2603.21383, section 3 (keep sigma^2 > 0 and mu < lambda_diff). The others are variants in use.

Differs from the paper: 1. `inclusive` keeps mu == lambda_diff too, as the authors' preparation script does. 2. The
bootstrap is the ideal one: the distribution of resampled means is binomial and is summed exactly, without drawing.

A row may have been cut short (`k` of `planned` samples, see curtailment.py): it is decided as all `planned` would
decide it, which the missing ones cannot change; the reason for dropping it is then that without a further success. Of a
staged profile (staging.py) a row may be decided as the profile did, for the rules that it was made for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol, runtime_checkable

import pandas as pd

from pivotrl_core.errors import DataError
from pivotrl_core.pivots.curtailment import Keeps, stands
from pivotrl_core.pivots.profile_record import EARLY
from pivotrl_core.seeding import derive_seed


class SelectionReason(StrEnum):
    KEPT = "kept"
    ALL_FAILED = "all_failed"
    ALL_SUCCEEDED = "all_succeeded"
    TOO_EASY = "mu_not_below_lambda"
    LOW_SIGMA = "sigma_not_above_eta"
    UNSURE_SPREAD = "spread_not_confident"
    UNSURE_DIFFICULTY = "difficulty_not_confident"
    NOT_DRAWN = "not_drawn"
    EARLY = "dropped_early"  # by a staged profile: all K would keep it with at most its error


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a row is in the pool, and the reason."""

    kept: bool
    reason: str


@runtime_checkable
class SelectionRule(Protocol):
    """A rule with its parameters. Reads the columns candidate_id, domain, k, planned, successes, sigma2.

    Attributes:
        name: as the configuration has it.
        reads_profile: whether what the samples earned decides which rows are in the pool.
    """

    name: ClassVar[str]
    reads_profile: ClassVar[bool]

    def decide(self, rows: pd.DataFrame) -> list[Decision]:
        """One decision a row, in order.

        Raises:
            DataError: rows were cut short before this rule's decision stood.
        """
        ...


class CountRule(SelectionRule, Protocol):
    """A rule that looks at one row alone, and of its samples at nothing but the number of successes."""

    def reason(self, domain: str, k: int, successes: int) -> SelectionReason:
        """What it decides from `successes` among `k` samples."""
        ...


def describe(rule: SelectionRule) -> str:
    """A rule for people: its name, and the parameters that say something, as in `pivots (lambda_diff 0.6)`."""
    told = [
        f"{name} {describe(value) if isinstance(value, SelectionRule) else value}"
        for name, value in _parameters(rule).items()
        if value is not False and value != {}
    ]
    return f"{rule.name} ({', '.join(told)})" if told else rule.name


def rule_key(rule: SelectionRule) -> str:
    """A rule for machines: the same text wherever name and parameters are the same."""
    values = {
        name: rule_key(value) if isinstance(value, SelectionRule) else value
        for name, value in _parameters(rule).items()
    }
    return f"{rule.name} {json.dumps(values, sort_keys=True)}"


def _parameters(rule: SelectionRule) -> dict[str, Any]:
    return {one.name: getattr(rule, one.name) for one in fields(rule)} if is_dataclass(rule) else {}


def keeps(rule: CountRule) -> Keeps:
    """The rule as curtailment asks it."""
    return lambda domain, k, successes: rule.reason(domain, k, successes) is SelectionReason.KEPT


def decide_by_count(rule: CountRule, rows: pd.DataFrame) -> list[Decision]:
    """Decide each row; one that was cut short, by what its missing samples cannot change, or will hardly.

    Raises:
        DataError: they could change some, and no staged profile has decided these for this rule.
    """
    columns = zip(
        rows["domain"], rows["planned"], rows["k"], rows["successes"], _early_decisions(rule, rows), strict=True
    )
    decided = [_decide(rule, str(name), int(k), int(drawn), int(s), early) for name, k, drawn, s, early in columns]
    unsettled = sum(decision is None for decision in decided)
    if unsettled:
        raise DataError(
            f"{unsettled} of {len(rows)} candidates were profiled with fewer samples than '{describe(rule)}' needs; "
            "add the rule to profile.decides_for, and the profile draws what is missing"
        )
    return [decision for decision in decided if decision is not None]


def _decide(rule: CountRule, domain: str, k: int, drawn: int, successes: int, early: bool | None) -> Decision | None:
    if stands(keeps(rule), domain, k, drawn, successes):
        return _decision(rule.reason(domain, k, successes))
    if early is None:
        return None
    return _decision(SelectionReason.KEPT if early else SelectionReason.EARLY)


def _early_decisions(rule: CountRule, rows: pd.DataFrame) -> list[bool | None]:
    """What a staged profile has decided by this rule where it stopped; None elsewhere."""
    if EARLY not in rows.columns:
        return [None] * len(rows)
    return [json.loads(text).get(rule_key(rule)) for text in rows[EARLY]]


def _decision(reason: SelectionReason) -> Decision:
    return Decision(reason is SelectionReason.KEPT, str(reason))


def _constant_reason(mu: float) -> SelectionReason:
    """Why a group of equal rewards teaches nothing (Proposition 3.1)."""
    return SelectionReason.ALL_FAILED if mu == 0.0 else SelectionReason.ALL_SUCCEEDED


@dataclass(frozen=True, slots=True)
class Pivots:
    """sigma^2 > 0 and mu < lambda_diff, the latter per domain where `lambda_by_domain` names it."""

    name: ClassVar[str] = "pivots"
    reads_profile: ClassVar[bool] = True
    lambda_diff: float = 0.6
    lambda_by_domain: Mapping[str, float] = field(default_factory=dict)
    inclusive: bool = False
    keep_failed: bool = False

    def decide(self, rows: pd.DataFrame) -> list[Decision]:
        return decide_by_count(self, rows)

    def reason(self, domain: str, k: int, successes: int) -> SelectionReason:
        mu = successes / k
        if successes in (0, k) and not (self.keep_failed and mu == 0.0):
            return _constant_reason(mu)
        limit = self.lambda_by_domain.get(domain, self.lambda_diff)
        below = mu <= limit if self.inclusive else mu < limit
        return SelectionReason.KEPT if below else SelectionReason.TOO_EASY


@dataclass(frozen=True, slots=True)
class SigmaThreshold:
    """sigma > eta (sigma of a binary reward is at most 0.5)."""

    name: ClassVar[str] = "sigma"
    reads_profile: ClassVar[bool] = True
    eta: float = 0.3

    def decide(self, rows: pd.DataFrame) -> list[Decision]:
        return decide_by_count(self, rows)

    def reason(self, domain: str, k: int, successes: int) -> SelectionReason:
        del domain
        if successes in (0, k):
            return _constant_reason(successes / k)
        sigma = math.sqrt(successes * (k - successes) / (k * k))
        return SelectionReason.KEPT if sigma > self.eta else SelectionReason.LOW_SIGMA


@dataclass(frozen=True, slots=True)
class AdaptiveEta:
    """sigma > eta, with eta x 0.9 while the share of pivots is below a band and x 1.1 while it is above.

    The spread takes few values, so that the band may not be reachable: after `max_steps`, or once eta swings around the
    band, the eta whose share came closest to it counts.
    """

    name: ClassVar[str] = "adaptive-eta"
    reads_profile: ClassVar[bool] = True
    eta: float = 0.3
    low_share: float = 0.15
    high_share: float = 0.25
    max_steps: int = 50

    def decide(self, rows: pd.DataFrame) -> list[Decision]:
        short = int((rows["k"] < rows["planned"]).sum())
        if short:
            raise DataError(
                f"{short} of {len(rows)} candidates were profiled with fewer than K samples, and adaptive-eta looks at "
                "the spread of all of them; set profile.curtail to false and profile.staged to null"
            )
        return SigmaThreshold(self.settle(rows)).decide(rows)

    def settle(self, rows: pd.DataFrame) -> float:
        """The eta at which the share of kept rows lies in the band, or comes closest to it."""
        if rows.empty:
            return self.eta
        sigmas = [math.sqrt(sigma2) for sigma2 in rows["sigma2"]]
        eta, best, best_distance = self.eta, self.eta, math.inf
        for _ in range(self.max_steps):
            share = sum(sigma > eta for sigma in sigmas) / len(sigmas)
            distance = max(self.low_share - share, share - self.high_share, 0.0)
            if distance < best_distance:
                best, best_distance = eta, distance
            if distance == 0.0:
                break
            eta *= 0.9 if share < self.low_share else 1.1
        return best


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The paper's rule where resampling the K rewards confirms both of its conditions with probability `confidence`.

    With p = mu: P(sigma^2 > 0) = 1 - p^K - (1 - p)^K, and P(mean < lambda) = P(Binomial(K, p) < lambda K).
    """

    name: ClassVar[str] = "bootstrap"
    reads_profile: ClassVar[bool] = True
    lambda_diff: float = 0.6
    confidence: float = 0.8

    def decide(self, rows: pd.DataFrame) -> list[Decision]:
        return decide_by_count(self, rows)

    def reason(self, domain: str, k: int, successes: int) -> SelectionReason:
        del domain
        p = successes / k
        if successes in (0, k):
            return _constant_reason(p)
        if not p < self.lambda_diff:
            return SelectionReason.TOO_EASY
        if 1.0 - p**k - (1.0 - p) ** k < self.confidence:
            return SelectionReason.UNSURE_SPREAD
        below = sum(math.comb(k, s) * p**s * (1.0 - p) ** (k - s) for s in range(k + 1) if s / k < self.lambda_diff)
        return SelectionReason.KEPT if below >= self.confidence else SelectionReason.UNSURE_DIFFICULTY


@dataclass(frozen=True, slots=True)
class RandomTurns:
    """As many rows as `like` keeps, drawn from all rows: the control. A row's draw depends on seed and id alone."""

    name: ClassVar[str] = "random"
    reads_profile: ClassVar[bool] = False
    like: SelectionRule
    seed: int = 0

    def decide(self, rows: pd.DataFrame) -> list[Decision]:
        size = sum(decision.kept for decision in self.like.decide(rows))
        draws = [derive_seed("random-turns", self.seed, str(identity)) for identity in rows["candidate_id"]]
        drawn = set(sorted(range(len(draws)), key=lambda index: draws[index])[:size])
        reasons = (SelectionReason.KEPT if i in drawn else SelectionReason.NOT_DRAWN for i in range(len(draws)))
        return [_decision(reason) for reason in reasons]


@dataclass(frozen=True, slots=True)
class AllTurns:
    """Every row."""

    name: ClassVar[str] = "all"
    reads_profile: ClassVar[bool] = False

    def decide(self, rows: pd.DataFrame) -> list[Decision]:
        return decide_by_count(self, rows)

    def reason(self, domain: str, k: int, successes: int) -> SelectionReason:
        del domain, k, successes
        return SelectionReason.KEPT

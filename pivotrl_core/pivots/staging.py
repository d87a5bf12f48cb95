"""Staged profiling: waves of samples, and after each a stop where all K would hardly decide a candidate otherwise.

The approximate kind beside exact curtailment (curtailment.py): fewer waves and fewer samples, for a stated share of
other decisions. Of the K samples that a candidate would have, the first n are any n: given that S of the K succeed, the
successes among the first n are hypergeometric, whatever the candidate's rate. So, for each rule, each S, and the
sequence of waves, the probability of a stop with another decision than that of S is known exactly, and the stops are
chosen so that it never exceeds `error`: no rate is estimated, and nothing is assumed of how rates are spread. (From
Clopper-Pearson limits of the rate the K samples would have to be bounded in a second step, with an error of its own,
and after each wave anew.)

A state (n samples, s successes) is a stop with the decisions that are least often wrong. Those least often wrong come
first, as long as no S has spent more of `error` than the waves so far have a share of: error w / W after wave w of W.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb

from pivotrl_core.pivots.curtailment import Keeps
from pivotrl_core.types import Json

Stops = Mapping[tuple[int, int], Mapping[str, bool]]  # by (samples, successes): what each rule decides there


@dataclass(frozen=True, slots=True)
class Staging:
    """When the decisions of all rules on a candidate are near enough.

    Attributes:
        rules: what is decided, by names that say all that a rule decides by.
        k: samples of a candidate that is not stopped.
        waves: numbers of samples after which it may be, rising, below k.
        error: probability, for each rule, that all K decide otherwise; at most, whatever the K are.
    """

    rules: Mapping[str, Keeps]
    k: int
    waves: tuple[int, ...]
    error: float
    _stops: dict[str, Stops] = field(default_factory=dict, init=False, compare=False)

    @property
    def identity(self) -> Json:
        """Plain values that say how many samples are drawn."""
        return [sorted(self.rules), list(self.waves), self.error]

    def needed(self, domain: str, drawn: int, successes: int) -> int:
        """Samples until the end of the next wave; 0 where it stops."""
        if drawn == self.k or (drawn, successes) in self._stops_of(domain):
            return 0
        return next(wave for wave in (*self.waves, self.k) if wave > drawn) - drawn

    def decided(self, domain: str, drawn: int, successes: int) -> Mapping[str, bool]:
        """Whether each rule keeps a candidate that was stopped here; nothing where it was not."""
        return self._stops_of(domain).get((drawn, successes), {})

    def _stops_of(self, domain: str) -> Stops:
        if domain not in self._stops:
            kept = {name: [keeps(domain, self.k, s) for s in range(self.k + 1)] for name, keeps in self.rules.items()}
            self._stops[domain] = find_stops(kept, self.waves, self.error)
        return self._stops[domain]


@dataclass(slots=True)
class _Spent:
    """Of one rule, by S: how many orders of K samples with S successes were stopped with another decision than S's."""

    kept: Sequence[bool]
    orders: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.orders = [0] * len(self.kept)

    def adds(self, drawn: int, successes: int, ways: int, decision: bool) -> dict[int, int]:
        """By S, the orders that `ways` sequences of the first samples add, if they stop with this decision."""
        rest = len(self.kept) - 1 - drawn
        return {
            successes + more: ways * comb(rest, more)
            for more in range(rest + 1)
            if self.kept[successes + more] != decision
        }

    def worst(self, adds: Mapping[int, int]) -> Fraction:
        """The largest probability of another decision, over S, with these added."""
        k = len(self.kept) - 1
        return max((Fraction(self.orders[s] + more, comb(k, s)) for s, more in adds.items()), default=Fraction(0))

    def better(self, drawn: int, successes: int, ways: int) -> tuple[Fraction, bool]:
        """The decision that is less often wrong at a state, behind how often it is."""
        return min((self.worst(self.adds(drawn, successes, ways, decision)), decision) for decision in (False, True))


def find_stops(kept: Mapping[str, Sequence[bool]], waves: Sequence[int], error: float) -> Stops:
    """Where to stop.

    Args:
        kept: of each rule, whether it keeps a candidate with 0, 1, ... K successes.
        waves: numbers of samples, rising, below K.
        error: as `Staging` has it, in [0, 1].
    """
    spent = {name: _Spent(row) for name, row in kept.items()}
    stops: dict[tuple[int, int], dict[str, bool]] = {}
    going, drawn = {0: 1}, 0  # by successes: sequences of the samples so far that no wave has stopped
    for number, wave in enumerate(waves, start=1):
        going, drawn = _grow(going, wave - drawn), wave
        budget = Fraction(error) * number / len(waves)
        for successes in _surest_first(list(spent.values()), drawn, going):
            choice = {name: one.better(drawn, successes, going[successes]) for name, one in spent.items()}
            if any(wrong > budget for wrong, _ in choice.values()):
                continue
            ways = going.pop(successes)
            stops[drawn, successes] = {name: decision for name, (_, decision) in choice.items()}
            for name, (_, decision) in choice.items():
                for s, more in spent[name].adds(drawn, successes, ways, decision).items():
                    spent[name].orders[s] += more
    return stops


def _grow(going: Mapping[int, int], more: int) -> dict[int, int]:
    """Sequences by their successes, each with every continuation of `more` samples."""
    grown: dict[int, int] = {}
    for successes, ways in going.items():
        for found in range(more + 1):
            grown[successes + found] = grown.get(successes + found, 0) + ways * comb(more, found)
    return grown


def _surest_first(spent: Sequence[_Spent], drawn: int, going: Mapping[int, int]) -> list[int]:
    """Numbers of successes, those first at which the decisions are least often wrong."""

    def wrong(successes: int) -> Fraction:
        return max((one.better(drawn, successes, going[successes])[0] for one in spent), default=Fraction(0))

    return sorted(going, key=lambda successes: (wrong(successes), successes))

"""`pivotrl bench curtail`: what exact curtailment saves of the full K, and that no decision changes.

On simulated candidates of every difficulty, and on the rollouts of a real profile where there is one. Then in time, as
whole profiles: on the embedded model, and on the candidates and the base policy of a checkout where it has them. Given
the same samples, decisions are equal by construction; on a model, samples that are drawn in another batch may differ at
near-ties, which then counts.

Beside it the approximate kind, staged profiling, for some errors: on candidates simulated after a real profile, and on
those of the real profile. There the decisions that change are what is measured.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from pivotrl_core.bench.chance import HELP_DESK, draw_rates
from pivotrl_core.bench.conversations import desk_candidates
from pivotrl_core.bench.desk_profile import DeskProfile, ProfilePlan
from pivotrl_core.bench.measuring import Bench, Side, measure
from pivotrl_core.bench.records import Comparison, compare, skip
from pivotrl_core.config.folders import BASE_POLICY, CANDIDATES
from pivotrl_core.engines.model import follow_path
from pivotrl_core.engines.protocol import SamplingConfig
from pivotrl_core.pivots.curtailment import Curtailment, StoppingRule
from pivotrl_core.pivots.profile_record import mean_and_variance, read_candidates
from pivotrl_core.pivots.profiling import by_candidate, read_rollouts
from pivotrl_core.pivots.selection import Bootstrap, CountRule, Pivots, describe, keeps, rule_key
from pivotrl_core.pivots.staging import Staging
from pivotrl_core.types import Candidate, Split

PAPER: tuple[CountRule, ...] = (Pivots(0.6),)
GRID: tuple[CountRule, ...] = (Pivots(0.4), Pivots(0.6), Pivots(0.8, inclusive=True), Bootstrap(0.6, 0.8))
DOMAIN = "any"  # no rule here asks for it
REAL = "a checkout's"
BLOCK = 48  # trajectories: a batch with few rows left costs nearly as much as one of many
ERRORS = (0.01, 0.05, 0.1, 0.2)


@dataclass(frozen=True, slots=True)
class CurtailBench(Bench):
    """What is measured.

    Attributes:
        samples: K.
        simulated: candidates, of all difficulties, those that always or never succeed among them.
        rollouts: `rollouts.parquet` of a full profile; None, or a path where there is none, skips it.
        candidates: of the embedded domain, on the model in `folder`; 0 skips it. `by_chance`: they succeed by chance.
        checkout: whose base policy profiles `real` candidates of its training split, in time; None or 0 skips it.
        rounds: measured runs of each side on models.
    """

    samples: int = 8
    max_tokens: int = 40
    simulated: int = 10_000
    rollouts: Path | None = None
    candidates: int = 24
    by_chance: bool = False
    checkout: Path | None = None
    real: int = 192
    rounds: int = 3

    def run(self) -> Iterator[Comparison]:
        """All, what is counted for the paper's rule alone and for several rules at once; and staged profiling."""
        for rules in (PAPER, GRID):
            yield self._streams("simulated", simulate(self.simulated, self.samples), rules)
        desk = simulate_like(HELP_DESK, self.simulated, self.samples)
        yield from (self._staged("simulated after the help desk", desk, error) for error in ERRORS)
        yield from self._real()
        if self.candidates:
            yield self.timed()
        if self.checkout is not None and self.real:
            yield self._timed_on(self.checkout)

    def _real(self) -> list[Comparison]:
        streams = real_streams(self.rollouts) if self.rollouts is not None and self.rollouts.is_file() else []
        reason = "" if streams else f"no rollouts of a profile at {self.rollouts or '--rollouts'}"
        if len({len(stream) for stream in streams}) > 1:
            reason = f"{self.rollouts} is of a profile that was curtailed itself"
        if reason:
            return [skip("curtail", "full-k", {"candidates": "a real profile"}, reason)]
        exact = [self._streams("a real profile", streams, rules) for rules in (PAPER, GRID)]
        return [*exact, *(self._staged("a real profile", streams, error) for error in ERRORS)]

    def _streams(self, source: str, streams: Sequence[Sequence[bool]], rules: Sequence[CountRule]) -> Comparison:
        """What is saved of given samples, and how many decisions it changes."""
        drawn = [curtailed(stream, rules) for stream in streams]
        changed = sum(
            before != after
            for rule in rules
            for before, after in zip(
                decisions(rule, streams, list(map(len, streams))), decisions(rule, streams, drawn), strict=True
            )
        )
        setting = {
            "candidates": source, "count": len(streams), "group_size": max(map(len, streams)),
            "rules": [describe(rule) for rule in rules],
        }  # fmt: skip
        saved = 1 - sum(drawn) / sum(map(len, streams))
        return Comparison("curtail", "full-k", setting, changed_decisions=changed, saved_share=saved)

    def _staged(self, source: str, streams: Sequence[Sequence[bool]], error: float) -> Comparison:
        """What waves of a quarter and a half of the samples save for the paper's rule, and what they change."""
        samples = len(streams[0])
        waves = tuple(sorted({max(1, samples // 4), max(1, samples // 2)}))
        plan = Staging({rule_key(rule): keeps(rule) for rule in PAPER}, samples, waves, error)
        drawn = [draw(stream, plan) for stream in streams]
        changed = 0
        for stream, count in zip(streams, drawn, strict=True):
            decided = plan.decided(DOMAIN, count, sum(stream[:count])) if count < samples else {}
            changed += sum(
                decided[rule_key(rule)] != keeps(rule)(DOMAIN, samples, sum(stream)) for rule in PAPER if decided
            )
        setting = {
            "candidates": source, "count": len(streams), "group_size": samples,
            "rules": [describe(rule) for rule in PAPER], "waves": list(waves), "error": error,
        }  # fmt: skip
        saved = 1 - sum(drawn) / sum(map(len, streams))
        return Comparison("curtail", "full-k", setting, changed_decisions=changed, saved_share=saved)

    def timed(self) -> Comparison:
        """On the model, in time."""
        name = "the model's, by chance" if self.by_chance else "the model's"
        return self._timed(name, self.folder, desk_candidates(self.candidates))

    def _timed_on(self, checkout: Path) -> Comparison:
        """On what a checkout has profiled: its own candidates, by its base policy."""
        table, policy = checkout / CANDIDATES / "candidates.parquet", follow_path(checkout / BASE_POLICY, checkout)
        if not (table.is_file() and (policy / "config.json").is_file()):
            return skip("curtail", "full-k", {"candidates": REAL}, f"{checkout} has no candidates or no base policy")
        own = [one for one in read_candidates(table) if one.split is Split.TRAIN]
        return self._timed(REAL, policy, own[: self.real])

    def _timed(self, name: str, folder: Path, candidates: Sequence[Candidate]) -> Comparison:
        """Both on a model, with everything that a profile does."""
        self.say(f"profiling {len(candidates)} candidates, with and without curtailment")
        chance = self.by_chance and folder == self.folder
        full = ProfilePlan(self.samples, SamplingConfig(1.0, self.max_tokens), by_chance=chance, block=BLOCK)
        sides = [
            Side("ours", DeskProfile, (folder, self.compute, replace(full, curtailed=True))),
            Side("full-k", DeskProfile, (folder, self.compute, full)),
        ]
        measured = measure(sides, candidates, self.rounds, self.machine)
        ours, theirs = (measured[name].answer for name in ("ours", "full-k"))
        setting: dict[str, Any] = {
            "candidates": name, "count": len(candidates), "group_size": self.samples,
            "rules": [describe(rule) for rule in PAPER], "action_tokens": self.max_tokens, **self.computed_on,
        }  # fmt: skip
        if folder != self.folder:
            setting["model"] = "the base policy"
        return replace(
            compare("curtail", "full-k", setting, measured["ours"], measured["full-k"]),
            changed_decisions=sum(a != b for a, b in zip(ours["kept"], theirs["kept"], strict=True)),
            saved_share=1 - ours["samples"] / theirs["samples"],
        )


def simulate(count: int, samples: int, seed: int = 0) -> list[list[bool]]:
    """Successes and failures of candidates whose rates are 0, 1 or anything between, a third each."""
    source = random.Random(seed)
    rates = [source.choice([0.0, 1.0, source.random()]) for _ in range(count)]
    return [[source.random() < rate for _ in range(samples)] for rate in rates]


def simulate_like(counts: Sequence[int], count: int, samples: int, seed: int = 0) -> list[list[bool]]:
    """Successes and failures of candidates whose rates are spread as those of a real profile may be (`draw_rates`).

    Args:
        counts: real candidates by their successes.
        count: candidates to simulate.
        samples: of each.
        seed: of the simulation.
    """
    source = random.Random(seed)
    rates = draw_rates(source, counts, count)
    return [[source.random() < rate for _ in range(samples)] for rate in rates]


def real_streams(path: Path) -> list[list[bool]]:
    """Successes and failures of each candidate of a profile, in the order of its samples."""
    rollouts = read_rollouts(path)
    ids = list(dict.fromkeys(one.candidate_id for one in rollouts))
    return [[one.verdict.reward >= 1.0 for one in group] for group in by_candidate(rollouts, ids)]


def curtailed(stream: Sequence[bool], rules: Sequence[CountRule]) -> int:
    """How many samples of a stream are drawn."""
    return draw(stream, Curtailment({rule_key(rule): keeps(rule) for rule in rules}, len(stream)))


def draw(stream: Sequence[bool], plan: StoppingRule) -> int:
    """How many samples of a stream a plan draws."""
    count = 0
    while more := plan.needed(DOMAIN, count, sum(stream[:count])):
        count += more
    return count


def decisions(rule: CountRule, streams: Sequence[Sequence[bool]], counts: Sequence[int]) -> list[bool]:
    """Whether a rule keeps each candidate, of whose samples the first `counts` were drawn."""
    successes = [sum(stream[:count]) for stream, count in zip(streams, counts, strict=True)]
    statistics = [mean_and_variance(*pair) for pair in zip(successes, counts, strict=True)]
    frame = pd.DataFrame({
        "candidate_id": [str(at) for at in range(len(streams))], "domain": DOMAIN,
        "planned": [len(stream) for stream in streams], "k": counts, "successes": successes,
        "mu": [mu for mu, _ in statistics], "sigma2": [sigma2 for _, sigma2 in statistics],
    })  # fmt: skip
    return [one.kept for one in rule.decide(frame)]

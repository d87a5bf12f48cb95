"""Rounds: where training saturates, the policy as it is becomes the reference policy, and profiles and selects again.

A round begins between two steps. The policy's weights are kept as the new pi_0 (the KL term is to it from then on), the
candidates are profiled with them, the arm's own rule makes a new pool, and training goes on with its optimiser and its
schedule as they stand. What pivots to train on and what successes to replay come from the new profile alone.

Invariants: a round is a function of the weights, the seed and its number, so one that was killed is done again to the
same bits (samples of whole blocks are found stored). Its files lie in the stage's scratch folder, beside the
checkpoints; a checkpoint names the rounds before it by the digests of their files, and counts only if they are whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.engines.protocol import TokenCount
from pivotrl_core.files import tree_digest
from pivotrl_core.pivots.pool import PoolRow, read_pool
from pivotrl_core.pivots.reprofiling import Saturation, SaturationRule, StepSignal, moving_means
from pivotrl_core.training.checkpoint import Progress
from pivotrl_core.training.pivot_groups import PivotGroups
from pivotrl_core.training.policy import TrainablePolicy

POLICY, PROFILE, POOL = "policy", "profile", "pool"


@dataclass(frozen=True, slots=True)
class NewProfile:
    """What profiling and selecting again cost, and how many pivots there are now; 0: the rule leaves none."""

    tokens: TokenCount
    kept: int


ProfileAgain = Callable[[int, Path], NewProfile]  # of round n, from 1, in a folder: reads policy/, writes the others


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rounds of one training.

    Attributes:
        steps: of the whole training.
        period: steps after which temperatures come again; signals are means over so many, or the turns of low and high
            temperature would look like a change, or hide one.
        folder: of their files; each round has one in it, named by its number.
        profile_again: profiles with the policy as it is into `profile/`, and selects into `pool/`.
    """

    policy: TrainablePolicy
    source: PivotGroups
    rule: SaturationRule
    steps: int
    folder: Path
    profile_again: ProfileAgain
    period: int = 1

    def due(self, progress: Progress) -> Saturation | None:
        """Why a round begins before the next step, or None."""
        since = progress.rounds[-1]["step"] if progress.rounds else 0
        signals = [_signal(line["metrics"]) for line in progress.lines if line["step"] >= since]
        return self.rule.reason(moving_means(signals, self.period), len(progress.rounds), self.steps - progress.step)

    def go_on(self, progress: Progress) -> bool:
        """Do the next round where it is due. False: the rule leaves nothing to train on, so training is over."""
        reason = self.due(progress)
        return reason is None or self._begin(reason, progress)

    def _begin(self, reason: Saturation, progress: Progress) -> bool:
        number = len(progress.rounds) + 1
        place = self.folder / str(number)
        shutil.rmtree(place, ignore_errors=True)
        self.policy.save(place / POLICY)
        self.policy.anchor_to(place / POLICY)
        found = self.profile_again(number, place)
        told = {"step": progress.step, "reason": str(reason), "pool": found.kept, "turns": found.tokens.turns}
        progress.rounds.append({**told, "digest": tree_digest(place)})
        progress.counters["idle_steps"] = 0
        progress.add_cost(found.tokens)
        progress.counters["reprofiling_turns"] = progress.counters.get("reprofiling_turns", 0) + found.tokens.turns
        if found.kept:
            self._train_on(read_pool(place / POOL / "pool.parquet"))
            progress.source = self.source.state()
        return found.kept > 0

    def check(self, progress: Progress) -> None:
        """Raise ValueError where a round that a checkpoint knows is not there as it was."""
        for number, told in enumerate(progress.rounds, start=1):
            if tree_digest(self.folder / str(number)) != told["digest"]:
                raise ValueError(f"the files of its round {number} are not what they were")

    def resume(self, progress: Progress) -> None:
        """Go on in the round that a checkpoint stands in."""
        progress.counters.setdefault("reprofiling_turns", 0)
        if progress.rounds:
            place = self.folder / str(len(progress.rounds))
            self.policy.anchor_to(place / POLICY)
            self._train_on(read_pool(place / POOL / "pool.parquet"))

    def metrics(self, progress: Progress) -> dict[str, float]:
        """Of the step at hand: its round, and at the first step of one, why it began and on how many pivots."""
        metrics: dict[str, float] = {"train/round": len(progress.rounds)}
        if progress.rounds and progress.rounds[-1]["step"] == progress.step:
            told = progress.rounds[-1]
            metrics |= {f"train/reprofiled_{told['reason']}": 1.0, "train/round_pool_size": told["pool"]}
        return metrics

    def publish(self, progress: Progress, folder: Path) -> None:
        """Copy profile and pool of each round into an output folder; the weights stay, the report has their digest."""
        for number in range(1, len(progress.rounds) + 1):
            for part in (PROFILE, POOL):
                shutil.copytree(self.folder / str(number) / part, folder / str(number) / part, dirs_exist_ok=True)

    def _train_on(self, rows: Sequence[PoolRow]) -> None:
        self.source.renew([row.candidate for row in rows], {row.candidate.id: row.found for row in rows})


def _signal(metrics: Mapping[str, float]) -> StepSignal:
    return StepSignal(
        metrics["train/reward_mean"], metrics["train/group_reward_std"], metrics["train/zero_variance_share"]
    )

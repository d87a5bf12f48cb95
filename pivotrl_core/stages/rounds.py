"""What a training does when it saturates: profile and select again, as the stages of these names do, with its policy.

The samples come from the engine that training samples through, with the weights as they stand; what they are stored
under is the digest of these weights.
"""

from __future__ import annotations

from pathlib import Path

from pivotrl_core.config.arms import GRPOTrain, Reprofile
from pivotrl_core.errors import NoPivotsError
from pivotrl_core.pivots.reprofiling import SaturationRule
from pivotrl_core.seeding import derive_seed
from pivotrl_core.stages.context import StageContext, write_report
from pivotrl_core.stages.profile import make_profiler, training_candidates, write_profile_of
from pivotrl_core.stages.select import select_pool
from pivotrl_core.training.pivot_groups import PivotGroups
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.rounds import POLICY, POOL, PROFILE, NewProfile, Rounds


def configured_rounds(
    context: StageContext, arm: str, seed: int, policy: TrainablePolicy, source: PivotGroups, settings: GRPOTrain
) -> Rounds | None:
    """The rounds of one training; None where its arm never profiles again."""
    select = context.config.arms[arm].select
    if settings.reprofile is None or select is None:
        return None
    candidates = training_candidates(context)

    def profile_again(number: int, place: Path) -> NewProfile:
        print(f"train {arm}-{seed}: round {number} begins, profiling {len(candidates)} candidates again", flush=True)
        own_seed = derive_seed(seed, "round", number)
        profiler = make_profiler(context, source.engine, source.renderer, place / POLICY, own_seed)
        cost = write_profile_of(context, profiler, candidates, place / PROFILE, "train")
        profile, pool = place / PROFILE / "profile.parquet", place / POOL
        try:
            kept = len(select_pool(context, arm, select, profile, pool, f"{arm}-{seed}, round {number}"))
        except NoPivotsError as error:
            print(f"train {arm}-{seed}: {error}", flush=True)
            kept = 0
            write_report(pool / "report.json", "select", {"select/pool_size": 0}, arm=arm, error=str(error))
        return NewProfile(cost.tokens, kept)

    period = max(1, len(settings.temperatures))
    folder = context.scratch / "rounds"
    return Rounds(
        policy,
        source,
        _rule(settings.reprofile),
        steps=settings.steps,
        folder=folder,
        profile_again=profile_again,
        period=period,
    )


def _rule(settings: Reprofile) -> SaturationRule:
    return SaturationRule(
        settings.window, settings.limit, settings.zero_variance_share, settings.reward_change, settings.spread_change
    )

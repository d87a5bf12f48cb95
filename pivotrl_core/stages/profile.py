"""Profile: K samples of the frozen reference policy at each training candidate, with mean and variance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import compute_dtype, load_policy, prepare_torch
from pivotrl_core.engines.plain_engine import embedded_engine
from pivotrl_core.engines.protocol import SamplingConfig
from pivotrl_core.errors import DataError
from pivotrl_core.pivots.profile_record import ProfileRow, read_candidates, write_profile
from pivotrl_core.pivots.profiling import ProfileCost, Profiler, Rollout, distinct_successes, write_rollouts
from pivotrl_core.stages.context import BASE, CANDIDATES, MetricsFile, StageContext, timed, write_report
from pivotrl_core.stages.models import policy_digest
from pivotrl_core.stages.rules import check_domains, curtailment
from pivotrl_core.stages.verification import configured_verifier
from pivotrl_core.types import Candidate, Split, content_id


def run_profile(context: StageContext, key: str, policy_folder: str) -> None:
    """Write data/profiles/KEY: profile.parquet, rollouts.parquet, report.json, metrics.jsonl."""
    config = context.config
    prepare_torch(config.compute)
    out = context.path(Path("data/profiles") / key)
    with timed(context, f"profile-{key}"):
        candidates = read_candidates(context.path(CANDIDATES / "candidates.parquet"))
        own = [candidate for candidate in candidates if candidate.split is Split.TRAIN]
        if not own:
            raise DataError(f"none of {len(candidates)} candidates is in the training split; lower data.*_share")
        for at, rule in enumerate(config.profile.decides_for):
            check_domains(rule, (candidate.domain for candidate in own), f"profile.decides_for.{at}")
        profiler = _profiler(context, context.path(policy_folder))
        metrics = MetricsFile(out / "metrics.jsonl", [])

        def on_block(index: int, of: int, rollouts: list[Rollout]) -> None:
            mean = sum(rollout.verdict.reward for rollout in rollouts) / len(rollouts)
            metrics.append(index, {"profile/block_reward_mean": mean})
            print(f"profile block {index + 1}/{of}: {len(rollouts)} samples, mean reward {mean:.3f}", flush=True)

        groups, cost = profiler.profile(own, on_block)
        threshold = config.profile.success_threshold
        rows = [
            ProfileRow(
                candidate, tuple(rollout.verdict for rollout in group), threshold,
                distinct_successes(group, threshold), config.profile.samples,
            )
            for candidate, group in zip(own, groups, strict=True)
        ]  # fmt: skip
        write_rollouts(out / "rollouts.parquet", [rollout for group in groups for rollout in group])
        write_profile(out / "profile.parquet", rows)
        write_report(
            out / "report.json", "profile", _metrics(rows, groups, cost), candidates=len(own), kinds=_kinds(own),
            dtype=compute_dtype(config.compute),
        )  # fmt: skip
        print(f"blocks: {cost.computed_blocks} computed, {cost.stored_blocks} found stored", flush=True)
        if cost.topped_up:
            print(f"{cost.topped_up} candidates had samples and drew more, for profile.decides_for", flush=True)


def _profiler(context: StageContext, folder: Path) -> Profiler:
    config, compute = context.config, context.config.compute
    base = context.path(BASE)
    policy = load_policy(folder, base, compute)
    renderer = ChatRenderer(policy.tokenizer, config.data.tool_format)
    return Profiler(
        embedded_engine(policy.model, [renderer.eos_id], lanes=compute.lane_plan),
        renderer,
        configured_verifier(config),
        SamplingConfig(config.profile.temperature, config.profile.max_tokens),
        config.profile.samples,
        0,
        # Another dtype or number of threads a lane may change a sample at a near-tie: its blocks are others.
        content_id([policy_digest(folder, base), compute.device, compute_dtype(compute), compute.threads_per_lane]),
        context.store / "profile-blocks",
        config.profile.block_trajectories,
        config.profile.success_threshold,
        curtailment(config.profile),
    )


def _metrics(rows: Sequence[ProfileRow], groups: Sequence[Sequence[Rollout]], cost: ProfileCost) -> dict[str, float]:
    count = len(rows)
    rollouts = [rollout for group in groups for rollout in group]
    planned = sum(row.planned or row.k for row in rows)
    censored = sum(row.k < (row.planned or row.k) for row in rows)
    metrics = {
        "profile/candidates": count,
        "profile/saved_share": 1 - len(rollouts) / planned,
        "profile/censored_share": censored / count,
        "profile/malformed_share": sum(r.verdict.reason == "malformed" for r in rollouts) / len(rollouts),
        "profile/cut_off_share": sum(r.finish == "length" for r in rollouts) / len(rollouts),
        "cost/rollout_turns": cost.tokens.turns,
        "cost/generated_tokens": cost.tokens.generated,
        "cost/prefilled_tokens": cost.tokens.prefilled,
    }
    if not censored:
        metrics |= _mean_rewards([row.successes / row.k for row in rows])
    return metrics


def _mean_rewards(means: Sequence[float]) -> dict[str, float]:
    """What can be said of mean rewards where none is censored."""
    count = len(means)
    return {
        "profile/mean_reward": sum(means) / count,
        "profile/all_zero_share": sum(mean == 0 for mean in means) / count,
        "profile/all_one_share": sum(mean == 1 for mean in means) / count,
        "profile/mixed_share": sum(0 < mean < 1 for mean in means) / count,
    }


def _kinds(candidates: Sequence[Candidate]) -> dict[str, int]:
    calls = sum(bool(candidate.expert.tool_calls) for candidate in candidates)
    return {"tool_call": calls, "message": len(candidates) - calls}

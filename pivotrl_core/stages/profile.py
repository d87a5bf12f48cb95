"""Profile: K samples of the frozen reference policy at each training candidate, with mean and variance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pivotrl_core.config.engine import SamplingStage
from pivotrl_core.config.folders import BASE_POLICY, CANDIDATES, PROFILES
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import compute_dtype, load_policy, load_tokenizer, prepare_torch
from pivotrl_core.engines.plain_engine import embedded_engine
from pivotrl_core.engines.protocol import Engine, SamplingConfig
from pivotrl_core.errors import DataError
from pivotrl_core.pivots.profile_record import ProfileRow, read_candidates, write_profile
from pivotrl_core.pivots.profiling import ProfileCost, Profiler, Rollout, distinct_successes, write_rollouts
from pivotrl_core.pivots.staging import Staging
from pivotrl_core.stages.context import BLOCKS, MetricsFile, StageContext, timed, write_report
from pivotrl_core.stages.engine import engine_kind, samples_elsewhere, server_engine
from pivotrl_core.stages.models import configured_renderer, policy_digest, policy_path
from pivotrl_core.stages.rules import check_domains, curtailment
from pivotrl_core.stages.verification import configured_verifier, grading_id
from pivotrl_core.trajectories.formatting import OTHER_FORMAT
from pivotrl_core.types import Candidate, Split, Verdict, content_id
from pivotrl_core.verifiers.row_fields import Grounds


def run_profile(context: StageContext, key: str, policy_folder: str) -> None:
    """Write data/profiles/KEY: profile.parquet, rollouts.parquet, report.json, metrics.jsonl."""
    config = context.config
    prepare_torch(config.compute)
    with timed(context, f"profile-{key}"):
        own = training_candidates(context)
        for at, rule in enumerate(config.profile.decides_for):
            check_domains(rule, (candidate.domain for candidate in own), f"profile.decides_for.{at}")
        with _sampler(context, policy_folder) as (engine, renderer):
            profiler = make_profiler(context, engine, renderer, policy_path(context, policy_folder))
            write_profile_of(context, profiler, own, context.path(f"{PROFILES}/{key}"), "profile")


@contextmanager
def _sampler(context: StageContext, policy: str) -> Iterator[tuple[Engine, ChatRenderer]]:
    """What samples from the policy in a folder, and the renderer of its tokenizer."""
    config, folder, base = context.config, policy_path(context, policy), policy_path(context, BASE_POLICY)
    if samples_elsewhere(context, "profile"):
        renderer = configured_renderer(load_tokenizer(folder, base), config.data)
        with server_engine(context, "profile", policy, renderer) as engine:
            yield engine, renderer
        return
    loaded = load_policy(folder, base, config.compute)
    renderer = configured_renderer(loaded.tokenizer, config.data)
    yield embedded_engine(loaded.model, [renderer.eos_id], lanes=config.compute.lane_plan), renderer


def training_candidates(context: StageContext) -> list[Candidate]:
    """The candidates that are profiled: those of the training split. Raises DataError where there are none."""
    candidates = read_candidates(context.path(f"{CANDIDATES}/candidates.parquet"))
    own = [candidate for candidate in candidates if candidate.split is Split.TRAIN]
    if not own:
        raise DataError(f"none of {len(candidates)} candidates is in the training split; lower data.*_share")
    return own


def make_profiler(
    context: StageContext, engine: Engine, renderer: ChatRenderer, folder: Path, seed: int = 0
) -> Profiler:
    """A profiler of the policy whose weights lie in `folder`, which `engine` samples from; each `seed` its samples."""
    config, compute = context.config, context.config.compute
    digest = policy_digest(folder, policy_path(context, BASE_POLICY))
    return Profiler(
        engine,
        renderer,
        configured_verifier(config, context.places),
        sampling=SamplingConfig(config.profile.temperature, config.profile.max_tokens),
        samples=config.profile.samples,
        seed=seed,
        # Another dtype or number of threads a lane may change a sample at a near-tie: its blocks are others.
        policy_digest=content_id([digest, compute.device, compute_dtype(compute), compute.threads_per_lane]),
        store=context.store / BLOCKS,
        block_trajectories=config.profile.block_trajectories,
        success_threshold=config.profile.success_threshold,
        curtailment=curtailment(config.profile),
        grounds=Grounds(context.places.workspaces),
    )


def write_profile_of(
    context: StageContext, profiler: Profiler, candidates: Sequence[Candidate], out: Path, stage: SamplingStage
) -> ProfileCost:
    """Profile, and write a profile's files into `out`. `stage` is the one it happens in. Returns what it cost."""
    metrics = MetricsFile(out / "metrics.jsonl", [])
    _warn_of_long_experts(profiler, candidates)

    def on_block(index: int, of: int, rollouts: list[Rollout]) -> None:
        mean = sum(rollout.verdict.reward for rollout in rollouts) / len(rollouts)
        metrics.append(index, {"profile/block_reward_mean": mean})
        print(f"profile block {index + 1}/{of}: {len(rollouts)} samples, mean reward {mean:.3f}", flush=True)

    groups, cost = profiler.profile(candidates, on_block)
    rows = [_row(profiler, candidate, group) for candidate, group in zip(candidates, groups, strict=True)]
    write_rollouts(out / "rollouts.parquet", [rollout for group in groups for rollout in group])
    write_profile(out / "profile.parquet", rows)
    write_report(
        out / "report.json", "profile", _metrics(rows, groups, cost), candidates=len(candidates),
        kinds=_kinds(candidates), grading=grading_id(context.config, context.places),
        dtype=compute_dtype(context.config.compute), engine=engine_kind(context, stage),
    )  # fmt: skip
    _warn_of_other_format(context, [rollout.verdict for group in groups for rollout in group])
    print(f"blocks: {cost.computed_blocks} computed, {cost.stored_blocks} found stored", flush=True)
    if cost.topped_up:
        print(f"{cost.topped_up} candidates had samples and drew more, for profile.decides_for", flush=True)
    return cost


def _warn_of_long_experts(profiler: Profiler, candidates: Sequence[Candidate]) -> None:
    limit = profiler.sampling.max_tokens
    long = sum(len(profiler.renderer.action_ids(candidate.expert)) > limit for candidate in candidates)
    if long:
        print(
            f"{long} of {len(candidates)} candidates have an expert whose action is longer than profile.max_tokens, "
            f"{limit}: no sample can write it; raise profile.max_tokens and the arms' max_tokens, or lower "
            "data.max_action_tokens, which leaves such turns out",
            flush=True,
        )


def _warn_of_other_format(context: StageContext, verdicts: Sequence[Verdict]) -> None:
    other = sum(verdict.components.get("error") == OTHER_FORMAT for verdict in verdicts)
    if other:
        asked = context.config.data.tool_format
        written = "hermes" if asked == "compact" else "compact"
        print(
            f"{other} of {len(verdicts)} samples call tools in the format '{written}' and count as failures: "
            f"data.tool_format is '{asked}'",
            flush=True,
        )


def _row(profiler: Profiler, candidate: Candidate, group: Sequence[Rollout]) -> ProfileRow:
    threshold = profiler.success_threshold
    row = ProfileRow(
        candidate, tuple(rollout.verdict for rollout in group), threshold,
        distinct_successes(group, threshold), profiler.samples,
    )  # fmt: skip
    if not isinstance(profiler.curtailment, Staging):
        return row
    return replace(row, early=profiler.curtailment.decided(candidate.domain, row.k, row.successes))


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
        "cost/judge_tokens": cost.tokens.judge,
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

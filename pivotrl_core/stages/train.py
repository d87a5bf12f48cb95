"""Train: one arm under one seed, by supervised fine-tuning, GRPO on pivots, or GRPO on whole episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import groupby
from math import ceil
from pathlib import Path

from pivotrl_core.config.arms import E2ETrain, GRPOTrain, PolicyGradient, SFTTrain, TrainConfig
from pivotrl_core.config.folders import BASE_POLICY, MODELS, POOLS, TRAININGS
from pivotrl_core.config.graph import policy_folder
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import compute_dtype, prepare_torch
from pivotrl_core.engines.plain_engine import embedded_engine
from pivotrl_core.engines.protocol import ChatEngine
from pivotrl_core.errors import ConfigError
from pivotrl_core.pivots.pool import PoolRow, read_pool
from pivotrl_core.seeding import derive_seed
from pivotrl_core.stages.context import MetricsFile, StageContext, timed, write_report
from pivotrl_core.stages.engine import engine_kind, following_engine, samples_elsewhere
from pivotrl_core.stages.models import configured_renderer, policy_path
from pivotrl_core.stages.rounds import configured_rounds
from pivotrl_core.stages.verification import configured_verifier, reward_rule
from pivotrl_core.training.checkpoint import Checkpoints, Progress
from pivotrl_core.training.divided_sampling import DividedEngine
from pivotrl_core.training.episode_groups import EpisodeGroups
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.pivot_groups import PivotGroups
from pivotrl_core.training.policies import policy_on
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.policy_gradient import GroupSource, train_policy_gradient
from pivotrl_core.training.ranks import Ranks, joined_ranks
from pivotrl_core.training.rounds import Rounds
from pivotrl_core.training.supervised import SupervisedPlan, train_supervised, trajectory_rows

OnStep = Callable[[Progress, dict[str, float]], None]
METRICS = "metrics.jsonl"
LAST = 5  # steps that the final reward is a mean over, or more: each of several temperatures comes as often


def run_train(context: StageContext, arm: str, seed: int, start: str, pool: str) -> None:
    """Write models/ARM/SEED and reports/train/ARM-SEED, there with profile and pool of each time it profiled again.

    `start` is a folder: that of the arm's own start, which was profiled and is pi_0, or a descendant of it (a nightly
    run goes on from the last good model, and pi_0 stays what it was).

    Where `compute.processes` is above 1, this runs in each of them; the first rank alone writes.
    """
    settings = context.config.arms[arm].train
    if settings is None:
        raise ConfigError(f"arms.{arm}.train is missing")
    prepare_torch(context.config.compute)
    with joined_ranks(context.config.compute) as ranks:
        _train(context, settings, ranks, arm, seed, start, pool)


def _train(
    context: StageContext, settings: TrainConfig, ranks: Ranks, arm: str, seed: int, start: str, pool: str
) -> None:
    key = f"{arm}-{seed}"
    reports = context.path(f"{TRAININGS}/{key}")
    with timed(context, f"train-{key}") if ranks.writes else nullcontext():
        pivots = read_pool(context.path(f"{POOLS}/{pool}/pool.parquet"))
        policy = policy_on(
            ranks,
            policy_path(context, start),
            policy_path(context, BASE_POLICY),
            parameters=settings.parameters,
            compute=context.config.compute,
            seed=derive_seed(seed, "lora", arm) % 2**31,
            reference=policy_path(context, policy_folder(settings.start, seed)),
        )
        on_step = _recorder(reports, key) if ranks.writes else _keep_line
        checkpoints = Checkpoints(context.scratch / "checkpoints", ranks)
        if isinstance(settings, SFTTrain):
            progress = _supervised(context, policy, settings, pivots, seed, checkpoints, on_step)
        else:
            renderer = configured_renderer(policy.tokenizer, context.config.data)
            with _sampler(context, policy, start, renderer) as engine:
                source = _groups(context, policy, engine, renderer, settings, pivots, seed)
                rounds = None
                if isinstance(settings, GRPOTrain) and isinstance(source, PivotGroups):
                    rounds = configured_rounds(context, arm, seed, policy, source, settings)
                progress = _policy_gradient(context, policy, settings, source, checkpoints, on_step, rounds)
                if rounds is not None:
                    rounds.publish(progress, reports / "rounds")
        if progress.ended and ranks.writes:
            print(f"train {key}: over after {progress.step} steps: {progress.ended}", flush=True)
        policy.save(context.path(f"{MODELS}/{arm}/{seed}"))
        if not ranks.writes:
            return
        if not (reports / METRICS).exists():  # a training that was resumed and had no step left
            MetricsFile(reports / METRICS, progress.lines)
        final = final_metrics(progress, len(getattr(settings, "temperatures", ())))
        write_report(
            reports / "report.json", "train", final, arm=arm, seed=seed, method=settings.method,
            steps=progress.step, pool=len(pivots),
            replay=getattr(settings, "replay", False), dtype=compute_dtype(context.config.compute),
            engine=engine_kind(context, "train") if not isinstance(settings, SFTTrain) else "none",
            layout=policy.layout,
            **({"ended": progress.ended} if progress.ended else {}),
            **({"processes": ranks.count} if ranks.count > 1 else {}),
            **({"rounds": progress.rounds} if getattr(settings, "reprofile", None) is not None else {}),
        )  # fmt: skip


def _recorder(reports: Path, key: str) -> OnStep:
    metrics: MetricsFile | None = None

    def on_step(progress: Progress, values: dict[str, float]) -> None:
        nonlocal metrics
        metrics = metrics or MetricsFile(reports / METRICS, progress.lines)
        metrics.append(progress.step, values)
        shown = [
            f"{n.removeprefix('train/')} {values[n]:.3f}" for n in ("train/loss", "train/reward_mean") if n in values
        ]
        print(f"train {key} step {progress.step + 1}: {', '.join(shown)}", flush=True)

    return on_step


def _keep_line(progress: Progress, values: dict[str, float]) -> None:
    """What a rank does at a step that writes nothing."""
    progress.lines.append({"step": progress.step, "metrics": dict(values)})


def _supervised(
    context: StageContext,
    policy: TrainablePolicy,
    settings: SFTTrain,
    pivots: list[PoolRow],
    seed: int,
    checkpoints: Checkpoints,
    on_step: OnStep,
) -> Progress:
    renderer = configured_renderer(policy.tokenizer, context.config.data)
    ordered = sorted((pivot.candidate for pivot in pivots), key=lambda one: (one.trajectory_id, one.turn_index))
    rows = [trajectory_rows(list(turns), renderer) for _, turns in groupby(ordered, lambda one: one.trajectory_id)]
    plan = SupervisedPlan(
        settings.epochs, settings.batch_trajectories, seed, settings.checkpoint_every, context.config.compute.row_tokens
    )
    optimiser = Optimiser(policy, settings.optimiser, len(plan.batches(len(rows))))
    return train_supervised(policy, optimiser, rows, plan, checkpoints, on_step)


@contextmanager
def _sampler(
    context: StageContext, policy: TrainablePolicy, start: str, renderer: ChatRenderer
) -> Iterator[ChatEngine]:
    """What samples from the policy as it is."""
    if samples_elsewhere(context, "train"):
        with following_engine(context, start, policy, renderer) as engine:
            yield engine
        return
    with policy.gathered():
        embedded = embedded_engine(policy.model, [renderer.eos_id], lanes=policy.lanes)
    yield embedded


def _groups(
    context: StageContext,
    policy: TrainablePolicy,
    engine: ChatEngine,
    renderer: ChatRenderer,
    settings: GRPOTrain | E2ETrain,
    pivots: list[PoolRow],
    seed: int,
) -> GroupSource:
    candidates = [pivot.candidate for pivot in pivots]
    if isinstance(settings, GRPOTrain):
        verifier = configured_verifier(context.config, context.places, settings.reward)
        found = {pivot.candidate.id: pivot.found for pivot in pivots}
        sampler = engine if policy.ranks.count == 1 else DividedEngine(engine, policy)
        rule = reward_rule(context.config.verifier)
        return PivotGroups(
            sampler,
            renderer,
            verifier,
            candidates,
            config=settings,
            seed=seed,
            found=found,
            rule=rule,
            ranks=policy.ranks,
        )
    return EpisodeGroups(
        policy, engine, renderer, source=context.config.source, pool=candidates, config=settings, seed=seed
    )


def _policy_gradient(
    context: StageContext,
    policy: TrainablePolicy,
    settings: PolicyGradient,
    source: GroupSource,
    checkpoints: Checkpoints,
    on_step: OnStep,
    rounds: Rounds | None,
) -> Progress:
    optimiser = Optimiser(policy, settings.optimiser, settings.steps * settings.updates_per_step)
    return train_policy_gradient(
        policy,
        optimiser,
        source,
        settings,
        row_tokens=context.config.compute.row_tokens,
        checkpoints=checkpoints,
        on_step=on_step,
        rounds=rounds,
    )


def final_metrics(progress: Progress, temperatures: int = 0) -> dict[str, float]:
    """The last step's metrics, rewards as a mean over the last steps, and what it all cost."""
    metrics: dict[str, float] = dict(progress.lines[-1]["metrics"])
    last = LAST if temperatures < 2 else temperatures * ceil(LAST / temperatures)
    for name in ("train/reward_mean", "train/zero_variance_share"):
        values = [line["metrics"][name] for line in progress.lines[-last:] if name in line["metrics"]]
        if values:
            metrics[name] = sum(values) / len(values)
    counted = {"trained_tokens": 0, **progress.counters}  # where no group had a lesson, none were trained
    costs = {name: value for name, value in counted.items() if name not in ("idle_steps", "taught_steps")}
    return metrics | {f"cost/{name}": value for name, value in costs.items()}

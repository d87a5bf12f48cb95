"""Warm-up: a short SFT that teaches a raw model the tool format. Its result is the base policy pi_0.

Without epochs, the base policy is the source model itself: a pointer that says which model that is, and no copy (but
of the small bundled model, whose place differs from machine to machine).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from pivotrl_core.config.arms import OptimiserConfig
from pivotrl_core.config.folders import BASE_POLICY, PULLED, WARMUP
from pivotrl_core.config.inputs import BundledModel
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import POINTER, compute_dtype, prepare_torch
from pivotrl_core.errors import DataError
from pivotrl_core.files import read_json, write_json
from pivotrl_core.grpo.prefix_tree import TargetSequence
from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.pivots.tables import write_table
from pivotrl_core.stages.context import MetricsFile, StageContext, timed, write_report
from pivotrl_core.stages.models import check_lengths, configured_renderer, source_model
from pivotrl_core.stages.reading import check_pulled, iterate_pulled, source_names
from pivotrl_core.training.checkpoint import Checkpoints, Progress
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.supervised import SupervisedPlan, train_supervised, trajectory_rows
from pivotrl_core.trajectories.drop_table import DROP_SCHEMA, row_drops
from pivotrl_core.trajectories.drops import Drop, DropReason, DropReport
from pivotrl_core.trajectories.loading import trajectory_files
from pivotrl_core.types import Split, Trajectory


def run_warmup(context: StageContext) -> None:
    """Write models/base and reports/warmup."""
    prepare_torch(context.config.compute)
    with timed(context, "warmup"):
        if context.config.warmup.epochs == 0:
            _point_to_source(context)
            MetricsFile(context.path(f"{WARMUP}/metrics.jsonl"), [])
            write_report(context.path(f"{WARMUP}/report.json"), "warmup", {}, trained=False)
            return
        _train(context, source_model(context))


def _point_to_source(context: StageContext) -> None:
    """Make the source model the base policy. The pointer differs where the model does: later stages depend on it."""
    base = context.path(BASE_POLICY)
    if isinstance(context.config.model, BundledModel):
        shutil.copytree(source_model(context), base, dirs_exist_ok=True)
        return
    write_json(base / POINTER, read_json(context.path(f"{PULLED}/model.json")))


def _train(context: StageContext, model: Path) -> None:
    settings = context.config.warmup
    check_lengths(context, model)
    policy = TrainablePolicy(model, model, settings.parameters, context.config.compute, seed=0)
    rows, read = _rows(context, configured_renderer(policy.tokenizer, context.config.data))
    plan = SupervisedPlan(
        settings.epochs,
        settings.batch_trajectories,
        seed=0,
        checkpoint_every=100,
        row_tokens=context.config.compute.row_tokens,
    )
    total = len(plan.batches(len(rows)))
    optimiser = Optimiser(policy, OptimiserConfig(learning_rate=settings.learning_rate, schedule="linear"), total)
    metrics: MetricsFile | None = None

    def on_step(progress: Progress, values: dict[str, float]) -> None:
        nonlocal metrics
        metrics = metrics or MetricsFile(context.path(f"{WARMUP}/metrics.jsonl"), progress.lines)
        metrics.append(progress.step, values)
        print(f"warm-up step {progress.step + 1}/{total}: loss {values['train/loss']:.3f}", flush=True)

    progress = train_supervised(policy, optimiser, rows, plan, Checkpoints(context.scratch), on_step)
    policy.save_whole(context.path(BASE_POLICY))
    final = {"train/loss": progress.lines[-1]["metrics"]["train/loss"]}
    cost = {f"cost/{name}": value for name, value in progress.counters.items()}
    write_report(
        context.path(f"{WARMUP}/report.json"), "warmup", final | cost, trained=True, trajectories=len(rows),
        dtype=compute_dtype(context.config.compute), layout=policy.layout,
        reading={"read": read.read, "kept": read.kept, "by_reason": read.by_reason()},
    )  # fmt: skip


def _rows(context: StageContext, renderer: ChatRenderer) -> tuple[list[list[TargetSequence]], DropReport]:
    """The rows of each trajectory, and the account of what was read; drops are written down before anything trains."""
    data, folder = context.config.data, context.path(f"{PULLED}/warmup")
    files = trajectory_files(folder)
    if not files:
        raise DataError("warmup.epochs is above 0 but no warm-up trajectories were pulled; set it to 0 or bring some")
    table = context.path(f"{WARMUP}/drops.parquet")
    read, longest = check_pulled(context, folder, files, table), data.max_state_tokens + data.max_action_tokens
    trajectories = list(iterate_pulled(context, files, DropReport()))
    rows = [trajectory_rows(list(iterate_candidates(one, Split.TRAIN)), renderer) for one in trajectories]
    lengths = [max(len(line.ids) for line in lines) for lines in rows]
    pairs = zip(trajectories, lengths, strict=True)
    name_of = source_names(context)
    read.drops += [_too_long(one, name_of, length, longest) for one, length in pairs if length > longest]
    read.kept = sum(length <= longest for length in lengths)
    write_table(table, "drops", DROP_SCHEMA, row_drops(read.drops, folder))
    if not read.kept:
        raise DataError(
            f"no warm-up trajectory is left of {read.read}: {read.by_reason()}. data.max_state_tokens + "
            f"data.max_action_tokens is {longest}, the shortest has {min(lengths, default=0)} tokens; raise one of "
            "them, mend the rows, or set warmup.epochs to 0"
        )
    return [lines for lines, length in zip(rows, lengths, strict=True) if length <= longest], read


def _too_long(trajectory: Trajectory, name_of: Callable[[Path], str], length: int, longest: int) -> Drop:
    file, _, line = trajectory.source.rpartition(":")
    return Drop(name_of(Path(file)), int(line), DropReason.TOO_LONG, "", f"{length} tokens, the limit is {longest}")

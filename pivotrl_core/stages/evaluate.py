"""Evaluate: one policy in its domain, on the out-of-domain benchmarks, and for drift from the base policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pivotrl_core.config.folders import EVALUATIONS
from pivotrl_core.config.inputs import EmbeddedSource
from pivotrl_core.engines.model import compute_dtype, prepare_torch
from pivotrl_core.stages.context import MetricsFile, StageContext, timed, write_report
from pivotrl_core.stages.engine import engine_kind
from pivotrl_core.stages.evaluation_parts import Found, measure_benchmarks, measure_domain, measure_drift
from pivotrl_core.stages.models import policy_path
from pivotrl_core.stages.subject import Subject, load_subject, sampled_elsewhere

Part = Callable[[StageContext, Subject, Path], Found]


def run_evaluate(context: StageContext, arm: str, seed: int, policy_folder: str) -> None:
    """Write reports/evaluate/ARM-SEED: report.json, metrics.jsonl, items.parquet, episodes.parquet or turns.parquet."""
    config = context.config
    prepare_torch(config.compute)
    key = f"{arm}-{seed}"
    out = context.path(f"{EVALUATIONS}/{key}")
    with timed(context, f"evaluate-{key}"):
        subject = load_subject(context, arm, seed, policy_path(context, policy_folder))
        lines = MetricsFile(out / "metrics.jsonl", [])
        metrics: dict[str, float | None] = {}
        parts: dict[str, Any] = {}

        def measure(part: Part, measured: Subject, step: int) -> None:
            found, rest = part(context, measured, out)
            metrics.update(found)
            parts.update(rest)
            lines.append(step, {name: value for name, value in found.items() if value is not None})

        with sampled_elsewhere(context, subject, policy_folder) as sampled:
            measure(measure_domain, sampled, 0)
            measure(measure_benchmarks, sampled, 1)
        # Before drift: what base samples for it counts in an engine of its own where the policy is another model.
        count = replace(subject.embedded.count)
        if sampled.engine is not subject.embedded:
            count.add(sampled.engine.count)
        measure(measure_drift, subject, 2)
        metrics |= {
            "cost/rollout_turns": count.turns, "cost/generated_tokens": count.generated,
            "cost/prefilled_tokens": count.prefilled,
        }  # fmt: skip
        embedded = isinstance(config.source, EmbeddedSource)
        write_report(
            out / "report.json", "evaluate", metrics, arm=arm, seed=seed, embedded=embedded,
            dtype=compute_dtype(config.compute), engine=engine_kind(context, "evaluate"), **parts,
        )  # fmt: skip

"""Evaluate: one policy in its domain, on the out-of-domain benchmarks, and for drift from the base policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pivotrl_core.config.inputs import EmbeddedSource
from pivotrl_core.engines.model import compute_dtype, prepare_torch
from pivotrl_core.stages.context import MetricsFile, StageContext, timed, write_report
from pivotrl_core.stages.evaluation_parts import measure_benchmarks, measure_domain, measure_drift
from pivotrl_core.stages.subject import load_subject


def run_evaluate(context: StageContext, arm: str, seed: int, policy_folder: str) -> None:
    """Write reports/evaluate/ARM-SEED: report.json, metrics.jsonl, items.parquet, episodes.parquet or turns.parquet."""
    config = context.config
    prepare_torch(config.compute)
    key = f"{arm}-{seed}"
    out = context.path(Path("reports/evaluate") / key)
    with timed(context, f"evaluate-{key}"):
        subject = load_subject(context, arm, seed, context.path(policy_folder))
        lines = MetricsFile(out / "metrics.jsonl", [])
        metrics: dict[str, float | None] = {}
        parts: dict[str, Any] = {}
        for step, part in enumerate((measure_domain, measure_benchmarks, measure_drift)):
            found, rest = part(context, subject, out)
            metrics |= found
            parts |= rest
            lines.append(step, {name: value for name, value in found.items() if value is not None})
        count = subject.engine.count
        metrics |= {
            "cost/rollout_turns": count.turns, "cost/generated_tokens": count.generated,
            "cost/prefilled_tokens": count.prefilled,
        }  # fmt: skip
        embedded = isinstance(config.source, EmbeddedSource)
        write_report(
            out / "report.json", "evaluate", metrics, arm=arm, seed=seed, embedded=embedded,
            dtype=compute_dtype(config.compute), **parts,
        )  # fmt: skip

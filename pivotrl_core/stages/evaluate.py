"""Evaluate: one policy in its domain, on the out-of-domain benchmarks, and for drift from the base policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotrl_core.config.inputs import EmbeddedSource
from pivotrl_core.config.tree import Config
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import ADAPTER, load_policy, prepare_torch
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.stages.context import BASE, MetricsFile, StageContext, timed, write_report
from pivotrl_core.stages.evaluation_parts import measure_benchmarks, measure_domain, measure_drift


@dataclass(frozen=True, slots=True)
class Subject:
    """The policy under evaluation, with everything that its parts need."""

    config: Config
    arm: str
    seed: int
    policy: Any
    base: Any
    engine: TransformersEngine
    renderer: ChatRenderer

    @contextmanager
    def policy_model(self) -> Iterator[Any]:
        """The policy's inner model."""
        yield self.engine.model

    @contextmanager
    def base_model(self) -> Iterator[Any]:
        """The base policy's inner model: the same one with its adapter off, or another."""
        with self.policy.model.disable_adapter() if self.policy.adapter else nullcontext():
            yield self.engine.model if self.base is None else self.base


def run_evaluate(context: StageContext, arm: str, seed: int, policy_folder: str) -> None:
    """Write reports/evaluate/ARM-SEED: report.json, metrics.jsonl, items.parquet, episodes.parquet or turns.parquet."""
    config = context.config
    prepare_torch(config.compute)
    key = f"{arm}-{seed}"
    out = context.path(Path("reports/evaluate") / key)
    with timed(context, f"evaluate-{key}"):
        subject = _load(context, arm, seed, context.path(policy_folder))
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
        write_report(out / "report.json", "evaluate", metrics, arm=arm, seed=seed, embedded=embedded, **parts)


def _load(context: StageContext, arm: str, seed: int, folder: Path) -> Subject:
    config = context.config
    base_folder = context.path(BASE)
    policy = load_policy(folder, base_folder, config.compute)
    same = folder == base_folder or (folder / ADAPTER).exists()
    base = None if same else load_policy(base_folder, base_folder, config.compute).model
    renderer = ChatRenderer(policy.tokenizer, config.data.tool_format)
    engine = TransformersEngine(policy.model, [renderer.eos_id])
    return Subject(config, arm, seed, policy, base, engine, renderer)

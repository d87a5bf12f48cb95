"""What evaluate left behind for each arm and seed, as per-item scores keyed by metric name.

Metric names follow the reports: `eval/<domain>/success_greedy`, `eval/<domain>/success_t1` (`eval/turns/accuracy_*`
without an environment), `eval/<benchmark>-embedded/score`. Metrics without items (drift) are read from the reports as
they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pivotrl_core.config.stages import BENCHMARKS, EMBEDDED
from pivotrl_core.evaluation.pairing import Scores, align
from pivotrl_core.files import read_json
from pivotrl_core.types import Json

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluate output: report.json of an arm and seed, with its items (by metric: {item id: score})."""

    arm: str
    seed: int
    report: Mapping[str, Json]
    items: Mapping[str, Mapping[str, float]]

    @property
    def run(self) -> str:
        """`ARM-SEED`."""
        return f"{self.arm}-{self.seed}"

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """The report's metrics; a value that was not a number is None."""
        metrics: Mapping[str, float | None] = self.report.get("metrics", {})
        return metrics


def read_evaluation(folder: Path) -> Evaluation:
    """Read one folder `reports/evaluate/ARM-SEED` (report.json; items and episodes where present)."""
    report = read_json(folder / "report.json")
    items: dict[str, dict[str, float]] = {}
    items.update(_benchmark_items(folder / "items.parquet"))
    prefix = f"eval/{_domain(report)}"
    items.update(_domain_items(folder / "episodes.parquet", "task_id", "success", f"{prefix}/success"))
    items.update(_domain_items(folder / "turns.parquet", "candidate_id", "accepted", f"{prefix}/accuracy"))
    return Evaluation(str(report["arm"]), int(report["seed"]), report, items)


def _frame(path: Path) -> pd.DataFrame | None:
    import pandas as pd

    return pd.read_parquet(path) if path.is_file() else None


def _benchmark_items(path: Path) -> dict[str, dict[str, float]]:
    frame = _frame(path)
    if frame is None or frame.empty:
        return {}
    out: dict[str, dict[str, float]] = {}
    for name, rows in frame.groupby("benchmark", sort=True):
        scores = zip(rows["item_id"].astype(str), rows["score"].astype(float), strict=True)
        out[score_of(str(name))] = dict(scores)
    return out


def _domain_items(path: Path, item: str, score: str, metric: str) -> dict[str, dict[str, float]]:
    """Scores of episodes or held-out turns, by metric (`<metric>_greedy`, `<metric>_t1`) and item."""
    frame = _frame(path)
    if frame is None or frame.empty:
        return {}
    out: dict[str, dict[str, float]] = {}
    for temperature, rows in frame.groupby("temperature", sort=True):
        kind = "greedy" if float(str(temperature)) == 0.0 else "t1"
        means = rows[score].astype(float).groupby(rows[item].astype(str)).mean()
        out[f"{metric}_{kind}"] = {str(name): float(mean) for name, mean in means.items()}
    return out


def _domain(report: Mapping[str, Json]) -> str:
    return str(report.get("domain") or "domain")


def gather(evaluations: Sequence[Evaluation]) -> dict[str, dict[str, Scores]]:
    """{arm: {metric: scores of all its seeds on the items that they share}}."""
    by_arm: dict[str, dict[str, dict[int, Mapping[str, float]]]] = {}
    for one in evaluations:
        for metric, items in one.items.items():
            by_arm.setdefault(one.arm, {}).setdefault(metric, {})[one.seed] = items
    out: dict[str, dict[str, Scores]] = {arm: {} for arm in by_arm}
    for arm, metrics in by_arm.items():
        for metric, by_seed in metrics.items():
            scores = align(by_seed)
            if scores is not None:
                out[arm][metric] = scores
    return out


def absences(evaluations: Sequence[Evaluation]) -> dict[str, dict[str, str]]:
    """{benchmark: {`ARM-SEED`: why it has no score there}} of all benchmarks; none is missing: an empty inner one."""
    listed = {one.run: {entry["name"]: entry for entry in one.report.get("benchmarks", [])} for one in evaluations}
    scored = {one.run: {name for metric in one.items if (name := benchmark_of(metric))} for one in evaluations}
    names = dict.fromkeys(name for one in evaluations for name in (*listed[one.run], *sorted(scored[one.run])))
    return {
        name: {
            run: str((listed[run].get(name) or {}).get("skipped") or "not evaluated")
            for run in listed if name not in scored[run]
        }
        for name in sorted(names, key=lambda name: order_of(score_of(name)))
    }  # fmt: skip


def score_of(benchmark: str) -> str:
    """The metric of a benchmark: `eval/ifbench-embedded/score`."""
    return f"eval/{benchmark}/score"


def benchmark_of(metric: str) -> str | None:
    """`ifbench-embedded` for `eval/ifbench-embedded/score`; None for what is no benchmark."""
    parts = metric.split("/")
    return parts[1] if len(parts) == 3 and parts[0] == "eval" and parts[1].endswith(EMBEDDED) else None


def is_in_domain(metric: str) -> bool:
    """Whether the metric is success or accuracy in the domain that was trained on."""
    parts = metric.split("/")
    return (
        len(parts) == 3
        and parts[0] == "eval"
        and not parts[1].endswith(EMBEDDED)
        and parts[2].startswith(("success_", "accuracy"))
    )


def order_of(metric: str) -> tuple[int, int, str]:
    """Sort key: in-domain first (greedy before sampled), then the benchmarks in their usual order, then the rest."""
    benchmark = benchmark_of(metric)
    if is_in_domain(metric):
        return (0, 0 if metric.endswith("greedy") else 1, metric)
    if benchmark is not None:
        name = benchmark.removesuffix(EMBEDDED)
        return (1, BENCHMARKS.index(name) if name in BENCHMARKS else len(BENCHMARKS), metric)
    return (2, 0, metric)

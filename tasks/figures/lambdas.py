"""Success, pool size and cost against lambda_diff, where several arms differ in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from pivotrl_core.evaluation.verdict import in_domain_metrics, metric_label
from pivotrl_core.types import Json
from tasks.figures.canvas import COLOURS, MARKERS, MUTED, Figure, render
from tasks.figures.profile import lambdas_of
from tasks.run_reports import RunReports

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "Each point is an arm that differs from the others in lambda_diff alone. Bars are 95 % intervals of success; a "
    "difference between two points counts only where their paired interval says so. Cost counts profiling."
)

Points = Sequence[tuple[float, str]]


def against_lambda(run: RunReports) -> Figure | None:
    """Three panels; None where fewer than two arms differ in lambda_diff alone."""
    points = _sweep(run)
    if len(points) < 2 or not run.comparison:
        return None

    def draw(axes: Sequence[Axes]) -> None:
        _draw_success(axes[0], run.comparison, points)
        _draw_line(axes[1], "pool size, candidates", [(x, _pool_size(run, arm)) for x, arm in points])
        costs = [(x, run.comparison["cost"].get(arm, {}).get("rollout_turns")) for x, arm in points]
        _draw_line(axes[2], "cost of a seed, rollout turns", costs)
        for axis in axes:
            axis.set_xlabel("lambda_diff")
            axis.set_xticks([x for x, _ in points])
            axis.margins(x=0.12)

    title = "What the cut does: success, pool size and cost"
    return render("lambda", title, CAPTION, (9.6, 3.2), 3, draw)


def _sweep(run: RunReports) -> list[tuple[float, str]]:
    """(lambda, arm) of the arms whose training settings equal those of the first pivot arm."""
    arms: Mapping[str, Json] = run.params.get("arms") or {}
    cuts = {arm: cut for arm, cut in lambdas_of(run).items() if arm in run.arms}
    reference = "pivotrl" if "pivotrl" in cuts else next(iter(cuts), "")
    same = [(cut, arm) for arm, cut in cuts.items() if arms[arm].get("train") == arms[reference].get("train")]
    return sorted(same) if len({cut for cut, _ in same}) == len(same) else []


def _draw_success(axis: Axes, report: Mapping[str, Json], points: Points) -> None:
    cells = {row["arm"]: row["cells"] for row in report["rows"]}
    for n, metric in enumerate(in_domain_metrics(report)[:2]):
        known = [(x, cells[arm][metric]) for x, arm in points if cells[arm].get(metric, {}).get("low") is not None]
        xs, means = [x + 0.008 * n for x, _ in known], [100 * cell["mean"] for _, cell in known]
        below = [100 * (cell["mean"] - cell["low"]) for _, cell in known]
        above = [100 * (cell["high"] - cell["mean"]) for _, cell in known]
        axis.errorbar(
            xs,
            means,
            yerr=[below, above],
            fmt=MARKERS[n] + "-",
            color=COLOURS[n],
            capsize=3,
            label=metric_label(metric),
        )
    axis.set_title("success, %")
    axis.legend(fontsize=8.5)
    axis.set_ylim(0, None)


def _pool_size(run: RunReports, arm: str) -> float | None:
    """Mean over the arm's pools: one for all seeds, or one a seed."""
    keys = {entry["pool"] for entry in run.graph.get("trains", {}).values() if entry["arm"] == arm}
    sizes = [float(run.pools[key]["kept"]) for key in keys or {arm} if "kept" in run.pools.get(key, {})]
    return fmean(sizes) if sizes else None


def _draw_line(axis: Axes, title: str, points: Sequence[tuple[float, float | None]]) -> None:
    known = [(x, y) for x, y in points if y is not None]
    if known:
        axis.plot(*zip(*known, strict=True), color=COLOURS[0], marker="o")
        for x, y in known:
            axis.annotate(f"{y:,.0f}", (x, y), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=9)
        axis.set_ylim(0, 1.2 * max(y for _, y in known) or 1)
    else:
        axis.text(0.5, 0.5, "not recorded", transform=axis.transAxes, ha="center", color=MUTED)
    axis.set_title(title)

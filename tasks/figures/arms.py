"""In-domain success against the mean change out of domain: one point an arm, with intervals on both axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pivotrl_core.evaluation.comparison import BASE, OOD_MEAN
from pivotrl_core.evaluation.verdict import in_domain_metrics, metric_label, paired_row
from pivotrl_core.types import Json
from tasks.figures.canvas import INK, MUTED, Figure, look_of, render
from tasks.run_reports import RunReports

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "Up: better at what it was trained for. Left of the line: other abilities lost. Bars are 95 % intervals; the "
    "change out of domain is paired with base on the same items (embedded item sets, not the official benchmarks)."
)

MARKER = 8  # points across
_PLACES = [(across, up) for step in (7, 21, 35) for across in (8, -8) for up in (step, -step)]  # of a name, in points


@dataclass(frozen=True, slots=True)
class _Point:
    """One arm in per cent: in-domain cell, and change out of domain as (value, low, high)."""

    arm: str
    success: tuple[float, float, float]
    change: tuple[float, float, float]


def in_domain_against_ood(run: RunReports) -> Figure | None:
    """The figure for the first in-domain metric; None where there is none."""
    metrics = in_domain_metrics(run.comparison) if run.comparison else []
    points = _points(run, metrics[0]) if metrics else []
    if len(points) < 2:
        return None

    def draw(axes: Sequence[Axes]) -> None:
        _draw(axes[0], points, run.arms, metric_label(metrics[0]))

    title = "Better in domain, and at what price elsewhere"
    return render("in-domain-against-ood", title, CAPTION, (7.2, 4.4), 1, draw)


def _points(run: RunReports, metric: str) -> list[_Point]:
    points = []
    for row in run.comparison["rows"]:
        cell = row["cells"].get(metric)
        change = (0.0, 0.0, 0.0) if row["arm"] == BASE else _change(run.comparison, row["arm"])
        if cell is not None and cell["mean"] is not None and change is not None:
            bounds = [cell["mean"] if cell[name] is None else cell[name] for name in ("mean", "low", "high")]
            points.append(_Point(row["arm"], (100 * bounds[0], 100 * bounds[1], 100 * bounds[2]), change))
    return points


def _change(report: Json, arm: str) -> tuple[float, float, float] | None:
    row = paired_row(report, arm, BASE, OOD_MEAN)
    return None if row is None else (100 * row["difference"], 100 * row["low"], 100 * row["high"])


def _draw(axis: Axes, points: Sequence[_Point], arms: Sequence[str], label: str) -> None:
    axis.axvline(0.0, color=MUTED, linewidth=1.2)
    for point in points:
        look = look_of(point.arm, arms)
        across, up = point.change, point.success
        axis.errorbar(
            [across[0]], [up[0]],
            xerr=[[across[0] - across[1]], [across[2] - across[0]]], yerr=[[up[0] - up[1]], [up[2] - up[0]]],
            fmt=look.marker, color=look.colour, markersize=MARKER, elinewidth=1.4, capsize=3, label=point.arm,
        )  # fmt: skip
    axis.set_xlabel("mean change over the embedded OOD benchmarks against base, points")
    axis.set_ylabel(f"{label}, %")
    axis.margins(0.12)
    bottom, top = axis.get_ylim()
    axis.set_ylim(max(bottom, -2.0), min(max(top, 10.0), 102.0))  # shares; a scale of hundredths shows what is nothing
    _label(axis, points)


def _label(axis: Axes, points: Sequence[_Point]) -> None:
    """Each arm's name beside its point: in the first place where it lies on no point or name, or else in the last."""
    from matplotlib.transforms import Bbox

    figure = axis.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # the layout, which says where the points come to lie
    reach = MARKER / 2 * figure.dpi / 72
    taken = [
        Bbox([[across - reach, up - reach], [across + reach, up + reach]])
        for across, up in axis.transData.transform([(point.change[0], point.success[0]) for point in points])
    ]
    for point in points:
        label = axis.annotate(
            point.arm, (point.change[0], point.success[0]), xytext=_PLACES[0], textcoords="offset points",
            color=INK, weight="bold",
        )  # fmt: skip
        for across, up in _PLACES:
            label.set(x=across, y=up, ha="left" if across > 0 else "right", va="bottom" if up > 0 else "top")
            box = label.get_window_extent()
            if not any(box.overlaps(other) for other in taken):
                break
        taken.append(box)

"""Training curves by arm: reward, share of groups without a signal, KL to the reference policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pivotrl_core.types import Json
from tasks.figures.canvas import Figure, look_of, render
from tasks.run_reports import RunReports

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = (
    ("train/reward_mean", "mean reward of the samples"),
    ("train/zero_variance_share", "share of groups without a signal"),
    ("train/kl", "KL to the reference policy, nats"),
    ("train/loss", "SFT loss, nats per token"),
)
CAPTION = (
    "One line an arm: the mean over its seeds, with each seed as a thin line. Arms are trained on different turns, so "
    "the height of a reward curve does not compare them; its slope shows whether an arm still learns."
)

ROUNDS = " A triangle marks a step before which an arm's policy profiled again and selected anew."

Steps = Mapping[str, Sequence[Mapping[str, Json]]]
Line = Sequence[tuple[int, float]]


def curves(run: RunReports) -> Figure | None:
    """The panels that any arm has values for; None where nothing was trained."""
    trained = {key: str(report.get("arm", key.rpartition("-")[0])) for key, report in run.trains.items()}
    for key in run.steps:
        trained.setdefault(key, key.rpartition("-")[0])
    arms = sorted(set(trained.values()), key=lambda arm: (*_place(run.arms, arm), arm))
    panels = [(metric, label, _series(run.steps, trained, metric)) for metric, label in PANELS]
    # Policy-gradient arms may log a loss too, but its height means nothing there.
    methods = {
        name: ((arm or {}).get("train") or {}).get("method") for name, arm in (run.params.get("arms") or {}).items()
    }
    panels = [
        (metric, label, {a: s for a, s in by_arm.items() if metric != "train/loss" or methods.get(a) == "sft"})
        for metric, label, by_arm in panels
    ]
    shown = [panel for panel in panels if panel[2]]
    if not shown:
        return None

    rounds = _rounds(run.steps)

    def draw(axes: Sequence[Axes]) -> None:
        for axis, (metric, label, by_arm) in zip(axes, shown, strict=False):
            marks = {arm: _marks(run.steps, trained, arm, metric, rounds) for arm in by_arm}
            _draw(axis, label, by_arm, marks, run.arms or arms)
        for axis in axes[len(shown) :]:
            axis.set_visible(False)

    rows = -(-len(shown) // 2)
    size = (8.6, 0.4 + 2.7 * rows)
    caption = CAPTION + ROUNDS if any(rounds.values()) else CAPTION
    return render("training", "Training curves by arm", caption, size, len(shown), draw, columns=min(2, len(shown)))


def _place(arms: Sequence[str], arm: str) -> tuple[int]:
    return (arms.index(arm) if arm in arms else len(arms),)


def _series(steps: Steps, trained: Mapping[str, str], metric: str) -> dict[str, list[Line]]:
    """{arm: [one list of (step, value) a seed]}."""
    out: dict[str, list[Line]] = {}
    for key in sorted(steps):
        rows = [(int(row["step"]), row["metrics"].get(metric)) for row in steps[key]]
        known = [(step, float(value)) for step, value in rows if value is not None]
        if known:
            out.setdefault(trained[key], []).append(known)
    return out


def _rounds(steps: Steps) -> dict[str, set[int]]:
    """{training: the first steps of its rounds}."""
    return {
        key: {int(row["step"]) for row in rows if row["metrics"].get("train/round_pool_size") is not None}
        for key, rows in steps.items()
    }


def _marks(
    steps: Steps, trained: Mapping[str, str], arm: str, metric: str, rounds: Mapping[str, set[int]]
) -> list[tuple[int, float]]:
    """Where rounds of an arm's trainings begin, on their own lines."""
    own = [key for key in sorted(steps) if trained[key] == arm and rounds[key]]
    return [
        (int(row["step"]), float(row["metrics"][metric]))
        for key in own for row in steps[key]
        if int(row["step"]) in rounds[key] and row["metrics"].get(metric) is not None
    ]  # fmt: skip


def _draw(
    axis: Axes, label: str, by_arm: Mapping[str, list[Line]], marks: Mapping[str, Line],
    arms: Sequence[str],
) -> None:  # fmt: skip
    for arm, seeds in by_arm.items():
        look = look_of(arm, [*arms, *(one for one in by_arm if one not in arms)])
        if len(seeds) > 1:
            for one in seeds:
                axis.plot(*zip(*one, strict=True), color=look.colour, linewidth=0.7, alpha=0.45)
        collected: dict[int, list[float]] = {}
        for one in seeds:
            for step, value in one:
                collected.setdefault(step, []).append(value)
        means = [(step, sum(values) / len(values)) for step, values in sorted(collected.items())]
        axis.plot(*zip(*means, strict=True), color=look.colour, linestyle=look.line, label=arm)
        if marks[arm]:
            axis.plot(*zip(*marks[arm], strict=True), color=look.colour, linestyle="none", marker="v", markersize=7)
    axis.set_title(label)
    axis.set_xlabel("step")
    axis.margins(x=0.02)
    axis.legend(fontsize=9, handlelength=2.4)

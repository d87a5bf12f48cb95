"""Histogram of the mean reward of all candidates under the reference policy, with the cut of the selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from pivotrl_core.types import Json
from tasks.figures.canvas import COLOURS, INK, MUTED, SOFT, Figure, render
from tasks.run_reports import RunReports

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "Each candidate turn was sampled K times from the frozen reference policy. At 0 and at 1 all rewards are equal, so "
    "nothing is learned there; from the cut on, the policy already succeeds often enough. What is coloured is the pool."
)


def lambdas_of(run: RunReports) -> dict[str, float]:
    """lambda_diff by arm, for arms that select by the paper's rule."""
    arms = run.params.get("arms") or {}
    selects = {name: (arm or {}).get("select") or {} for name, arm in arms.items()}
    return {name: float(s.get("lambda_diff", 0.6)) for name, s in selects.items() if s.get("rule") == "pivots"}


def mean_reward(run: RunReports) -> Figure | None:
    """The histogram behind the pool of the `pivotrl` arm, or of the first arm that selects pivots; None without one."""
    cuts = lambdas_of(run)
    names = sorted(cuts, key=lambda arm: arm != "pivotrl") + list(run.pools)
    key = next((name for name in names if run.pools.get(name, {}).get("mean_reward_histogram")), None)
    if key is None:
        return None
    histogram = run.pools[key]["mean_reward_histogram"]
    if not histogram["mu"]:
        return None

    def draw(axes: Sequence[Axes]) -> None:
        _draw(axes[0], histogram, cuts.get(key), key)

    title = f"Mean reward of {sum(histogram['profiled'])} candidates under the reference policy"
    return render("mean-reward", title, CAPTION, (7.2, 3.6), 1, draw)


def _draw(axis: Axes, histogram: Mapping[str, Json], cut: float | None, arm: str) -> None:
    places, profiled, kept = histogram["mu"], histogram["profiled"], histogram["kept"]
    gaps = [after - before for before, after in pairwise(places)]
    width = 0.82 * min(gaps, default=0.1)
    axis.bar(places, profiled, width=width, color=MUTED)
    axis.bar(places, kept, width=width, color=COLOURS[0])
    for place, count in zip(places, profiled, strict=True):
        axis.annotate(
            f"{count}", (place, count), xytext=(0, 3), textcoords="offset points", ha="center", fontsize=9,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
        )  # fmt: skip
    if cut is not None:
        axis.axvline(cut, color=INK, linewidth=1.4, linestyle=(0, (4, 2)))
        axis.annotate(
            f"cut of {arm}: {cut:g}", (cut, 0.98), xytext=(6, 0), xycoords=("data", "axes fraction"),
            textcoords="offset points", va="top", fontsize=9.5,
        )  # fmt: skip
    axis.set_title(_shares(places, profiled, kept), fontsize=10, weight="normal", color=SOFT)
    axis.set_xlabel("mean reward over the K samples of a candidate")
    axis.set_ylabel("candidates")
    axis.set_ylim(0, max(profiled) * 1.16 or 1)
    axis.grid(visible=False, axis="x")


def _shares(places: Sequence[float], profiled: Sequence[int], kept: Sequence[int]) -> str:
    total = max(1, sum(profiled))
    zero = sum(count for place, count in zip(places, profiled, strict=True) if place == 0.0)
    one = sum(count for place, count in zip(places, profiled, strict=True) if place == 1.0)
    mixed = total - zero - one
    return (
        f"never succeeds {zero / total:.0%} · mixed {mixed / total:.0%} · always succeeds {one / total:.0%}"
        f" · in the pool {sum(kept) / total:.0%}"
    )

"""Figures that people look at, as PNG files and as SVG that follows a page's light or dark colours.

The same reports give the same bytes. matplotlib is imported when a figure is drawn, never with this package.
"""

from __future__ import annotations

from pathlib import Path

from tasks.figures.canvas import Figure
from tasks.run_reports import RunReports, read_run

__all__ = ["Figure", "draw_figures", "write_figures"]


def draw_figures(run: RunReports) -> list[Figure]:
    """Every figure that the run has the data for, in the order in which they are read."""
    from tasks.figures import arms, lambdas, profile, training

    drawn = [
        arms.in_domain_against_ood(run),
        profile.mean_reward(run),
        training.curves(run),
        lambdas.against_lambda(run),
    ]
    return [figure for figure in drawn if figure is not None]


def write_figures(root: Path, out: Path) -> list[Path]:
    """Draw the figures of the run below `root` as PNG files in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for figure in draw_figures(read_run(root)):
        path = out / f"{figure.name}.png"
        path.write_bytes(figure.png)
        paths.append(path)
    return paths

"""Figures that people look at, as PNG files and as SVG that follows a page's light or dark colours.

The same reports give the same bytes. matplotlib is imported when a figure is drawn, never with this package.
"""

from __future__ import annotations

from tasks.figures.canvas import Figure
from tasks.run_reports import RunReports

__all__ = ["Figure", "draw_figures"]


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

"""The figures: what a reader must be able to tell apart lies apart."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from tasks.figures.arms import _draw, _Point
from tasks.figures.training import ROUNDS, _marks, _rounds, curves
from tasks.run_reports import RunReports


def test_names_of_arms_at_the_same_point_do_not_lie_on_each_other():
    names = ["base", "sft", "pivotrl", "sft-pivotrl", "random-turns", "exact-reward"]
    points = [_Point(name, (50.0, 45.0, 55.0), (-5.0, -9.0, -1.0)) for name in names]
    drawing = Figure(figsize=(7.2, 4.4), layout="constrained")
    axis = drawing.subplots()
    _draw(axis, points, names, "success")
    drawing.draw_without_rendering()
    assert [label.get_text() for label in axis.texts] == names
    boxes = [label.get_window_extent() for label in axis.texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_a_name_does_not_lie_on_another_arms_point():
    points = [
        _Point("base", (48.0, 33.0, 62.0), (0.0, 0.0, 0.0)),
        _Point("pivotrl", (50.0, 35.0, 65.0), (1.2, -1.2, 3.7)),
    ]
    drawing = Figure(figsize=(7.2, 4.4), layout="constrained")
    axis = drawing.subplots()
    _draw(axis, points, ["base", "pivotrl"], "success")
    drawing.draw_without_rendering()
    places = axis.transData.transform([(point.change[0], point.success[0]) for point in points])
    for label in axis.texts:
        assert not any(label.get_window_extent().contains(*place) for place in places)


def _run(rounds: dict[str, list[int]]) -> RunReports:
    """A run of two arms, whose trainings profiled again before the steps given."""
    steps = {
        key: [
            {"step": step, "metrics": {"train/reward_mean": 0.5 + 0.01 * step + 0.05 * (key == "pivotrl-1")}
             | ({"train/round_pool_size": 30.0} if step in rounds.get(key, []) else {})}
            for step in range(1, 21)
        ]
        for key in ("pivotrl-0", "pivotrl-1", "random-0")
    }  # fmt: skip
    empty: dict[str, Any] = {}
    trains = {key: {"arm": key.rpartition("-")[0]} for key in steps}
    return RunReports(Path(), empty, empty, empty, empty, empty, empty, trains, empty, steps, empty)


def test_rounds_are_marked_on_the_lines_of_their_own_seeds():
    run = _run({"pivotrl-0": [8], "pivotrl-1": [5, 15]})
    trained = {key: str(report["arm"]) for key, report in run.trains.items()}
    starts = _rounds(run.steps)
    assert _marks(run.steps, trained, "pivotrl", "train/reward_mean", starts) == [
        (8, pytest.approx(0.58)), (5, pytest.approx(0.60)), (15, pytest.approx(0.70)),
    ]  # fmt: skip
    assert _marks(run.steps, trained, "random", "train/reward_mean", starts) == []
    marked, plain = curves(run), curves(_run({}))
    assert marked is not None
    assert plain is not None
    assert ROUNDS in marked.caption
    assert ROUNDS not in plain.caption
    assert marked.png != plain.png

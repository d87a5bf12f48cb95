"""The figures: what a reader must be able to tell apart lies apart."""

from __future__ import annotations

import itertools

from matplotlib.figure import Figure

from tasks.figures.arms import _draw, _Point


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

"""`pivotrl compare A B`: two arms, two recorded runs or commits, or an arm and the same one of a run; what differs.

A side is an arm of the checkout at hand, or a commit that holds reports: of a run id (its ref
`refs/pivotrl/runs/<id>`), of an MLflow run id, or any revision. Items of a recorded run come from the shared DVC cache
by the hashes in its dvc.lock; where they are no longer there, the two intervals stand beside each other and nothing is
called a difference.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.config.folders import EVALUATIONS
from pivotrl_core.config.loading import load_config
from pivotrl_core.errors import ConfigError, DataError
from pivotrl_core.evaluation.comparison import OOD_MEAN, paired_differences
from pivotrl_core.evaluation.pairing import Scores
from pivotrl_core.evaluation.scorecard import benchmark_of, gather, order_of, read_evaluation
from pivotrl_core.evaluation.tables import cell_text, is_share
from pivotrl_core.evaluation.verdict import metric_label, points
from pivotrl_core.types import Json
from tasks.record_folder import materialised, resolve
from tasks.run_reports import RunReports, read_run
from tasks.tracking.parameters import flatten

LABEL_WIDTH, LINE_WIDTH = 38, 120


@dataclass(frozen=True, slots=True)
class _Side:
    """One arm of one run. `parameters` are complete, defaults and all; `named` are those that its file names."""

    name: str
    arm: str
    parameters: Mapping[str, str]
    named: frozenset[str]
    cells: Mapping[str, Mapping[str, Json]]
    cost: Mapping[str, float]
    scores: Mapping[str, Scores]


def compare_runs(a: str, b: str, root: Path) -> str:
    """What differs between `a` and `b`, as text of at most 120 columns.

    Args:
        a: an arm of the checkout, a run id, a commit, or an MLflow run id.
        b: the same; its values are subtracted from those of `a`.
        root: the checkout.

    Raises:
        DataError: a name is neither an arm here nor a revision with reports, or the two share no arm.
    """
    here = read_run(root)
    if a in here.arms and b in here.arms:
        return "\n".join(_compare(_side(here, a, a), _side(here, b, b)))
    if a in here.arms or b in here.arms:
        arm, name = (a, b) if a in here.arms else (b, a)
        with materialised(root, resolve(root, name)) as folder:
            run = read_run(folder)
            if arm not in run.arms:
                raise DataError(f"{name}: no evaluated arm {arm}; it has: {', '.join(run.arms)}")
            sides = {arm: _side(here, arm, f"{arm} here"), name: _side(run, arm, f"{name}:{arm}")}
            return "\n".join(_compare(sides[a], sides[b]))
    with materialised(root, resolve(root, a)) as folder_a, materialised(root, resolve(root, b)) as folder_b:
        run_a, run_b = read_run(folder_a), read_run(folder_b)
        shared = [arm for arm in run_a.arms if arm in run_b.arms]
        if not shared:
            raise DataError(f"{a} and {b} share no evaluated arm; name two arms of one run, or runs with a common arm")
        lines = [*_only("arms", a, set(run_a.arms) - set(shared)), *_only("arms", b, set(run_b.arms) - set(shared))]
        for arm in shared:
            lines += ["", f"== {arm} ==", *_compare(_side(run_a, arm, f"{a}:{arm}"), _side(run_b, arm, f"{b}:{arm}"))]
        return "\n".join(lines).lstrip("\n")


def _only(what: str, name: str, values: set[str]) -> list[str]:
    return [f"{what} in {name} alone: {', '.join(sorted(values))}"] if values else []


def _side(run: RunReports, arm: str, name: str) -> _Side:
    evaluations = [
        read_evaluation(run.root / EVALUATIONS / key)
        for key, report in run.evaluations.items() if report.get("arm") == arm
    ]  # fmt: skip
    cells: Mapping[str, Mapping[str, Json]] = next(
        (row["cells"] for row in run.comparison.get("rows", []) if row["arm"] == arm), {}
    )
    parameters, named = _parameters(run, arm)
    cost = run.comparison.get("cost", {}).get(arm, {})
    return _Side(
        name, arm, parameters=parameters, named=named, cells=cells, cost=cost, scores=gather(evaluations).get(arm, {})
    )


def _parameters(run: RunReports, arm: str) -> tuple[dict[str, str], frozenset[str]]:
    """An arm's parameters as the configuration means them, and which of them the file names.

    A file that this version's configuration refuses (the record of another one) is taken as it stands.
    """
    try:
        config = load_config(run.root / "params.yaml")
    except ConfigError:
        plain = _of_arm(run.params, arm)
        return plain, frozenset(plain)
    named = _of_arm(config.model_dump(mode="json", exclude_unset=True), arm)
    return _of_arm(config.model_dump(mode="json"), arm), frozenset(named)


def _of_arm(tree: Mapping[str, Json], arm: str) -> dict[str, str]:
    shared = {key: value for key, value in tree.items() if key != "arms"}
    return flatten(shared) | flatten((tree.get("arms") or {}).get(arm) or {})


def _compare(a: _Side, b: _Side) -> list[str]:
    parameters = list(_parameter_lines(a, b)) or ["  none"]
    metrics = list(_metric_lines(a, b)) or ["  no metric in common"]
    costs = list(_cost_lines(a, b)) or ["  none"]
    return ["parameters that differ", *parameters, "", f"metrics: {a.name} against {b.name}", *metrics,
            "", "cost of one seed that differs", *costs]  # fmt: skip


def _parameter_lines(a: _Side, b: _Side) -> Iterator[str]:
    for key in sorted(a.named | b.named):  # what neither file names is a default in both
        left, right = a.parameters.get(key, "-"), b.parameters.get(key, "-")
        if left != right:
            yield f"  {key:<{LABEL_WIDTH}} {_short(left)} | {_short(right)}"


def _metric_lines(a: _Side, b: _Side) -> Iterator[str]:
    paired = {row["metric"]: row for row in paired_differences(a.name, a.scores, b.name, b.scores)}
    metrics = sorted({*a.cells, *b.cells}, key=lambda name: (name == OOD_MEAN, *order_of(name)))
    same: list[str] = []
    for metric in metrics:
        left, right = cell_text(a.cells.get(metric), metric), cell_text(b.cells.get(metric), metric)
        row = paired.get(metric)
        if left == right and (row is None or not row["shown"]):
            same.append(metric_label(metric))
            continue
        label = _short(metric_label(metric), LABEL_WIDTH)
        yield f"  {label:<{LABEL_WIDTH}} {left or '-':>18} | {right or '-':>18}  {_difference(row, metric)}".rstrip()
        if metric == OOD_MEAN:
            yield from _unequal_means(a, b)
    if same:
        listed = f"{len(same)} equal as printed: {', '.join(same)}"
        yield from textwrap.wrap(listed, LINE_WIDTH, initial_indent="  ", subsequent_indent="    ")


def _unequal_means(a: _Side, b: _Side) -> Iterator[str]:
    """What the two means of OOD are means of, where that is not the same."""
    for side, other in ((a, b), (b, a)):
        alone = [name for metric in side.scores if (name := benchmark_of(metric)) and metric not in other.scores]
        if alone:
            text = f"{', '.join(alone)}: in {side.name} alone, so in no difference, though perhaps in its mean"
            yield from textwrap.wrap(text, LINE_WIDTH, initial_indent="    ", subsequent_indent="    ")


def _difference(row: Mapping[str, Json] | None, metric: str) -> str:
    if row is None:
        return "not paired" if is_share(metric) else ""
    bounds = f"{points(row['difference'])} ({points(row['low'])} to {points(row['high'])})"
    return bounds if row["shown"] else f"{bounds} no diff. shown"


def _cost_lines(a: _Side, b: _Side) -> Iterator[str]:
    for name in sorted(set(a.cost) | set(b.cost)):
        left, right = a.cost.get(name, 0.0), b.cost.get(name, 0.0)
        if left != right:
            yield f"  {name:<{LABEL_WIDTH}} {left:>18,.0f} | {right:>18,.0f}"


def _short(value: str, limit: int = 30) -> str:
    return value if len(value) <= limit else f"{value[: limit - 3]}..."

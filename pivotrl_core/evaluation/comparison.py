"""The comparison of arms: cells with intervals, paired differences, benchmarks and cost, as one plain dictionary.

Cells with items behind them carry a bootstrap interval over items and seeds (`statistics.py`); cells without (drift)
carry the range over seeds where there is more than one, and no interval otherwise. A difference is 'shown' only where
its paired interval leaves out zero. A metric that was not a number stays None and is named in the notes; it never
becomes 0.

The mean over benchmarks is that of the benchmarks which every arm has with every seed: one that was skipped anywhere is
left out everywhere, and a note names it. Arms that skipped it have a cell that says why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean

from pivotrl_core.config.graph import Graph
from pivotrl_core.evaluation.costs import cost_by_arm
from pivotrl_core.evaluation.notes import comparison_notes
from pivotrl_core.evaluation.pairing import Scores, match, stack
from pivotrl_core.evaluation.scorecard import (
    Evaluation,
    absences,
    benchmark_of,
    gather,
    is_in_domain,
    order_of,
    score_of,
)
from pivotrl_core.evaluation.statistics import Interval, bootstrap_mean, paired_difference
from pivotrl_core.types import Json

OOD_MEAN = "eval/ood-embedded/mean"
BASE = "base"


def compare(
    evaluations: Sequence[Evaluation],
    selects: Mapping[str, Mapping[str, Json]] | None = None,
    trains: Mapping[str, Mapping[str, Json]] | None = None,
    profiles: Mapping[str, Mapping[str, Json]] | None = None,
    graph: Graph | None = None,
) -> dict[str, Json]:
    """Content of reports/compare/report.json.

    Args:
        evaluations: one per arm and seed.
        selects: select reports by pool key.
        trains: train reports by `ARM-SEED`.
        profiles: profile reports by profile name.
        graph: content of graph.yaml, which says what each arm started from and which profile paid for its pool.
    """
    scores = gather(evaluations)
    arms = _arm_order(evaluations)
    absent = absences(evaluations)
    averaged = [score_of(name) for name, missing in absent.items() if not missing]
    partly = {name: missing for name, missing in absent.items() if 0 < len(missing) < len(evaluations)}
    paired = list(_paired(arms, scores, averaged))
    return {
        "schema_version": 1,
        "rows": [
            _row(arm, [e for e in evaluations if e.arm == arm], scores.get(arm, {}), averaged, partly) for arm in arms
        ],
        "paired": paired,
        "benchmarks": _benchmarks(evaluations, absent),
        "cost": cost_by_arm(arms, selects or {}, trains or {}, profiles or {}, graph or {}),
        "notes": comparison_notes(evaluations, partly, [row for row in paired if row["b"] == BASE]),
    }


def _arm_order(evaluations: Sequence[Evaluation]) -> list[str]:
    """Base first, the others as they were given."""
    seen = list(dict.fromkeys(evaluation.arm for evaluation in evaluations))
    return sorted(seen, key=lambda arm: arm != BASE)


def _row(
    arm: str,
    evaluations: Sequence[Evaluation],
    scores: Mapping[str, Scores],
    averaged: Collection[str],
    partly: Mapping[str, Mapping[str, str]],
) -> dict[str, Json]:
    """Cells of one arm; `averaged`: the metrics of its mean, `partly`: who lacks a benchmark that others have."""
    cells = {metric: _cell(arm, metric, one) for metric, one in scores.items()}
    mean = stack({metric: one for metric, one in scores.items() if metric in averaged})
    if mean is not None:
        cells[OOD_MEAN] = _cell(arm, OOD_MEAN, mean)
    for name, missing in partly.items():
        reasons = [missing[one.run] for one in evaluations if one.run in missing]
        if len(reasons) == len(evaluations):
            cells[score_of(name)] = {**_range_cell([]), "skipped": reasons[0]}
    for metric in dict.fromkeys(name for one in evaluations for name in one.metrics):
        if metric not in cells and metric.startswith("eval/"):
            cells[metric] = _range_cell([one.metrics.get(metric) for one in evaluations])
    return {"arm": arm, "seeds": sorted(one.seed for one in evaluations), "cells": cells}


def _cell(arm: str, metric: str, scores: Scores) -> dict[str, Json]:
    estimate = bootstrap_mean(scores.values_SN, arm, metric, strata=scores.strata)
    return {
        "mean": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.items,
        "interval": _interval_name(estimate),
    }


def _interval_name(estimate: Interval) -> str:
    if estimate.exact:
        return "exact over items"
    return "bootstrap over items and seeds" if estimate.seeds > 1 else "bootstrap over items"


def _range_cell(values: Sequence[float | None]) -> dict[str, Json]:
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not known:
        return {"mean": None, "low": None, "high": None, "n": len(known), "interval": None}
    many = len(known) > 1
    return {
        "mean": fmean(known),
        "low": min(known) if many else None,
        "high": max(known) if many else None,
        "n": len(known),
        "interval": "range over seeds" if many else None,
    }


def _paired(
    arms: Sequence[str], scores: Mapping[str, Mapping[str, Scores]], averaged: Collection[str]
) -> Iterator[dict[str, Json]]:
    """Every pair for the in-domain metrics and the benchmark mean; single benchmarks against base."""
    for first, second in combinations(arms, 2):
        # The later arm minus the earlier one: base comes first, so that an improvement over base is positive.
        own, others = scores.get(second, {}), scores.get(first, {})
        yield from paired_differences(second, own, first, others, first == BASE, averaged)


def paired_differences(
    a: str, scores_a: Mapping[str, Scores], b: str, scores_b: Mapping[str, Scores], single_benchmarks: bool = True,
    averaged: Collection[str] | None = None,
) -> Iterator[dict[str, Json]]:  # fmt: skip
    """Differences `a` - `b` on the items that both have, each with its interval and whether that leaves out zero.

    `averaged` are the metrics of the benchmarks in the mean; None: all that both have.
    """
    matched = {m: match(scores_a[m], scores_b[m]) for m in sorted(set(scores_a) & set(scores_b), key=order_of)}
    found = {metric: pair for metric, pair in matched.items() if pair is not None}
    for metric, pair in found.items():
        if single_benchmarks or is_in_domain(metric):
            yield _difference_row(a, b, metric, *pair)
    benchmarks = {
        metric: pair for metric, pair in found.items()
        if benchmark_of(metric) and (averaged is None or metric in averaged)
    }  # fmt: skip
    mean_a = stack({metric: pair[0] for metric, pair in benchmarks.items()})
    mean_b = stack({metric: pair[1] for metric, pair in benchmarks.items()})
    if mean_a is not None and mean_b is not None:
        yield _difference_row(a, b, OOD_MEAN, mean_a, mean_b)


def _difference_row(a: str, b: str, metric: str, scores_a: Scores, scores_b: Scores) -> dict[str, Json]:
    estimate = paired_difference(scores_a.values_SN, scores_b.values_SN, a, b, metric, strata=scores_a.strata)
    return {
        "a": a,
        "b": b,
        "metric": metric,
        "difference": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.items,
        "seeds": estimate.seeds,
        "shown": estimate.low > 0.0 or estimate.high < 0.0,
    }


def _benchmarks(evaluations: Sequence[Evaluation], absent: Mapping[str, Mapping[str, str]]) -> list[dict[str, Json]]:
    """One entry a benchmark: its size, its metric, and why it was skipped where no arm and seed has it."""
    found: dict[str, dict[str, Json]] = {}
    for name, missing in absent.items():
        listed = [e for one in evaluations for e in one.report.get("benchmarks", []) if e["name"] == name]
        found[name] = {"name": name, "metric": "score", "n": 0, **(listed[0] if listed else {}), "skipped": None}
        sizes = [len(one.items[score_of(name)]) for one in evaluations if one.run not in missing]
        if sizes:
            found[name]["n"] = sizes[-1]
        else:
            found[name]["skipped"] = next((entry["skipped"] for entry in listed if entry.get("skipped")), None)
    return list(found.values())

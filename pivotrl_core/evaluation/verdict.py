"""The verdict of a comparison: which arm stands first, whether that is beyond its interval, and what it cost.

An arm is a winner only where its paired interval against every other arm leaves out zero. Otherwise the arms that it is
not shown to differ from are named beside it, and there is no winner.
With one training run each an interval knows the choice of items only, and a winner is called one of that one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pivotrl_core.evaluation.comparison import BASE, OOD_MEAN
from pivotrl_core.evaluation.scorecard import is_in_domain, order_of
from pivotrl_core.types import Json

ONE_RUN = "one training run each"


@dataclass(frozen=True, slots=True)
class Standing:
    """Who is first on one metric. `level_with` is empty for a clear winner; `one_run`: no arm has a second seed."""

    metric: str
    leader: str
    mean: float
    level_with: tuple[str, ...]
    all_equal: bool = False
    one_run: bool = False

    @property
    def clear(self) -> bool:
        """Whether the leader is above every other arm beyond the interval."""
        return not self.level_with


def paired_row(report: Mapping[str, Json], a: str, b: str, metric: str) -> Mapping[str, Json] | None:
    """The difference a - b on a metric, turned round where the report holds b - a."""
    for row in report["paired"]:
        if row["metric"] != metric:
            continue
        if (row["a"], row["b"]) == (a, b):
            found: Mapping[str, Json] = row
            return found
        if (row["a"], row["b"]) == (b, a):
            turned = {"a": a, "b": b, "difference": -row["difference"], "low": -row["high"], "high": -row["low"]}
            return {**row, **turned}
    return None


def mean_of(report: Mapping[str, Json], arm: str, metric: str) -> float | None:
    """Mean of an arm's cell, None where it has none or it is not a number."""
    for row in report["rows"]:
        if row["arm"] == arm:
            value = row["cells"].get(metric, {}).get("mean")
            return None if value is None else float(value)
    return None


def one_run_each(report: Mapping[str, Json]) -> bool:
    """Whether no arm has more than one seed."""
    return all(len(row["seeds"]) < 2 for row in report["rows"])


def in_domain_metrics(report: Mapping[str, Json]) -> list[str]:
    """The in-domain metrics of the comparison, greedy first."""
    names = {metric for row in report["rows"] for metric in row["cells"] if is_in_domain(metric)}
    return sorted(names, key=order_of)


def standing(report: Mapping[str, Json], metric: str) -> Standing | None:
    """Who is first on a metric; None where fewer than two arms have it."""
    means = {row["arm"]: mean_of(report, row["arm"], metric) for row in report["rows"]}
    known = {arm: mean for arm, mean in means.items() if mean is not None}
    if len(known) < 2:
        return None
    leader = max(known, key=lambda arm: known[arm])
    level = []
    for arm in known:
        row = paired_row(report, leader, arm, metric) if arm != leader else None
        if arm != leader and (row is None or row["low"] <= 0.0):
            level.append(arm)
    equal = len(set(known.values())) == 1
    return Standing(
        metric, leader, known[leader], level_with=tuple(level), all_equal=equal, one_run=one_run_each(report)
    )


def verdict(report: Mapping[str, Json]) -> list[str]:
    """Plain sentences, the most important first: who won, whether other abilities were kept, what it cost."""
    metrics = in_domain_metrics(report)
    sentences = [_in_domain_sentence(report, metric) for metric in metrics[:2]]
    if arms := _foremost(report, metrics[:2]):
        sentences.append(_kept_sentence(report, [arm for arm in arms if arm != BASE]))
        sentences.append(_cost_sentence(report, [arm for arm in arms if arm != BASE]))
    else:
        sentences.append("There are not two arms with an in-domain measure, so nothing can be compared.")
    return [sentence for sentence in sentences if sentence]


def _foremost(report: Mapping[str, Json], metrics: Sequence[str]) -> list[str]:
    """The arms that stand first, or level with the first, on any of the metrics: whose price is of interest."""
    places = [place for metric in metrics if (place := standing(report, metric)) is not None]
    return list(dict.fromkeys(arm for place in places for arm in (place.leader, *place.level_with)))


def metric_label(metric: str) -> str:
    """A short name for people: `ifbench-embedded`, `helpdesk, greedy`, `KL on neutral text`."""
    parts = metric.split("/")
    known = {
        OOD_MEAN: "mean of OOD, embedded",
        "eval/drift/kl_neutral": "KL from base, neutral text",
        "eval/drift/kl_instructions": "KL from base, instructions",
        "eval/drift/kl_other_turns": "KL from base, other turns",
        "eval/drift/order_agreement": "agreement of action order",
        "eval/drift/reference_logprob_change": "log-prob. of references (style)",
    }
    if metric in known:
        return known[metric]
    if is_in_domain(metric):
        measure, _, temperature = parts[2].partition("_")
        return f"{parts[1]} {measure}, {'t = 1' if temperature == 't1' else temperature}"
    return parts[1] if metric.endswith("/score") else metric.removeprefix("eval/")


def points(value: float) -> str:
    """A difference of shares in percentage points, signed."""
    return f"{100 * value:+.1f}"


def _in_domain_sentence(report: Mapping[str, Json], metric: str) -> str:
    place = standing(report, metric)
    if place is None:
        return ""
    label, share = metric_label(metric), f"{100 * place.mean:.1f} %"
    if place.clear:
        closest = _closest(report, place)
        share += f" ({ONE_RUN})" if place.one_run else ""
        return f"{label}: {place.leader} wins with {share}, beyond the interval of every other arm; {closest}."
    if place.all_equal:
        return f"{label}: no winner. All arms stand at {share}."
    names = _listing(place.level_with)
    over_base = _against_base(report, place.leader, metric)
    quantity = "none of these is shown to differ from it" if len(place.level_with) > 1 else "no difference shown"
    tail = f" {over_base}" if over_base else ""
    return f"{label}: no winner. {place.leader} stands highest with {share}, level with {names} ({quantity}).{tail}"


def _closest(report: Mapping[str, Json], place: Standing) -> str:
    rows = [paired_row(report, place.leader, row["arm"], place.metric) for row in report["rows"]]
    nearest = min((row for row in rows if row is not None), key=lambda row: row["difference"])
    bounds = f"{points(nearest['low'])} to {points(nearest['high'])}"
    return f"closest is {nearest['b']}, {points(nearest['difference'])} points away (95 % interval {bounds})"


def _against_base(report: Mapping[str, Json], arm: str, metric: str) -> str:
    row = paired_row(report, arm, BASE, metric) if arm != BASE else None
    if row is None:
        return ""
    bounds = f"{points(row['difference'])} points, 95 % interval {points(row['low'])} to {points(row['high'])}"
    shown = row["low"] > 0.0 or row["high"] < 0.0
    return f"Against base: {'' if shown else 'no difference shown, '}{bounds}."


def _kept_sentence(report: Mapping[str, Json], arms: Sequence[str]) -> str:
    parts = []
    for arm in arms:
        row = paired_row(report, arm, BASE, OOD_MEAN)
        if row is not None:
            shown = row["low"] > 0.0 or row["high"] < 0.0
            bounds = f"{points(row['low'])} to {points(row['high'])}"
            what = f"{points(row['difference'])} points ({bounds}{'' if shown else ', no difference shown'})"
            parts.append(f"{arm} {what}")
    return f"Other abilities, mean of the embedded OOD benchmarks against base: {'; '.join(parts)}." if parts else ""


def _cost_sentence(report: Mapping[str, Json], arms: Sequence[str]) -> str:
    parts = []
    for arm in arms:
        cost = report["cost"].get(arm, {})
        turns, profiling = cost.get("rollout_turns", 0.0), cost.get("profiling_turns", 0.0)
        if not turns:
            parts.append(f"{arm} no rollouts, {cost.get('trained_tokens', 0.0):,.0f} trained tokens")
            continue
        parts.append(
            f"{arm} {turns:,.0f} rollout turns" + (f" (profiling {profiling:,.0f} of them)" if profiling else "")
        )
    return f"Cost of one seed: {'; '.join(parts)}." if parts else ""


def _listing(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

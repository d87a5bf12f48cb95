"""The top of the report: the verdict at a glance, the comparison table, and the paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pivotrl_core.evaluation.comparison import BASE, OOD_MEAN
from pivotrl_core.evaluation.costs import COST_LABELS
from pivotrl_core.evaluation.scorecard import is_in_domain
from pivotrl_core.evaluation.tables import cell_text, is_share, mark, row_label, skipped_text, table_metrics
from pivotrl_core.evaluation.verdict import (
    ONE_RUN,
    Standing,
    in_domain_metrics,
    mean_of,
    metric_label,
    paired_row,
    points,
    standing,
    verdict,
)
from pivotrl_core.types import Json
from tasks.report.markup import details, note, section, span, table, text

Report = Mapping[str, Json]
OUT_OF_DOMAIN = "Out of domain: embedded item sets, not the official ones"
MARKS = {
    "+": '<span class="mark up" title="above base beyond the interval">▲</span>',
    "-": '<span class="mark down" title="below base beyond the interval">▼</span>',
    "~": '<span class="mark level" title="no difference from base shown">≈</span>',
    "": "",
}


def verdict_section(report: Report) -> str:
    """A headline, three figures (in domain, elsewhere, cost), and the sentences behind them."""
    metrics = in_domain_metrics(report)
    places = [place for metric in metrics[:2] if (place := standing(report, metric)) is not None]
    if not places:
        return section("verdict", "Verdict", "<p>There are not two arms to compare.</p>")
    place = places[0]
    tiles = "".join([_success_tile(report, place), _kept_tile(report, place), _cost_tile(report, place)])
    sentences = "".join(f"<li>{text(sentence)}</li>" for sentence in verdict(report))
    return (
        f'<section id="verdict" class="verdict {"clear" if place.clear else "open"}">'
        f'<h2 class="headline">{text(headline(places))}</h2>'
        f'<div class="tiles">{tiles}</div><ul class="sentences">{sentences}</ul></section>'
    )


def headline(places: Sequence[Standing]) -> str:
    """What the in-domain measures say in one line; each by its name where they do not say the same.

    What rests on one training run of each arm says so.
    """
    shown = any(place.clear or _is_above_base(place) for place in places)
    return f"{_all_places(places)} ({ONE_RUN})" if shown and places[0].one_run else _all_places(places)


def _all_places(places: Sequence[Standing]) -> str:
    first = _headline(places[0])
    if len({place.leader if place.clear else None for place in places}) == 1:
        return first
    others = [
        f"{_temperature(place)}: {place.leader + ' wins' if place.clear else 'no winner'}" for place in places[1:]
    ]
    return "; ".join([f"{first} ({_temperature(places[0])})", *others])


def _temperature(place: Standing) -> str:
    return metric_label(place.metric).rpartition(", ")[2]


def _is_above_base(place: Standing) -> bool:
    return place.leader != BASE and BASE not in place.level_with


def _headline(place: Standing) -> str:
    """`pivotrl wins` only where it is above every other arm beyond the interval."""
    if place.clear:
        return f"{place.leader} wins in domain"
    if place.all_equal:
        return f"No winner: all arms stand at {100 * place.mean:.1f} %"
    if BASE in place.level_with:
        return f"No winner: {place.leader} stands highest, but is not shown to differ from base"
    if place.leader == BASE:
        return "No winner: base stands highest"
    rivals = place.level_with
    named = rivals[0] if len(rivals) == 1 else f"{len(rivals)} other arms"
    return f"No winner: {place.leader} is above base, but is not shown to differ from {named}"


def _tile(title: str, figure: str, detail: str) -> str:
    head = f'<div class="what">{text(title)}</div><div class="figure">{text(figure)}</div>'
    return f'<div class="tile">{head}<p>{text(detail)}</p></div>'


def _success_tile(report: Report, place: Standing) -> str:
    base = mean_of(report, BASE, place.metric)
    detail = f"{place.leader}, {metric_label(place.metric)}"
    row = paired_row(report, place.leader, BASE, place.metric) if place.leader != BASE else None
    if row is not None and base is not None:
        beyond = f"beyond the choice of items ({ONE_RUN})" if place.one_run else "more than chance"
        matters = beyond if row["low"] > 0.0 else "may be chance"
        bounds = f"{points(row['low'])} to {points(row['high'])}"
        detail += f"; base {100 * base:.1f} %. Gain {points(row['difference'])} points ({bounds}): {matters}."
    return _tile("In domain, highest", f"{100 * place.mean:.1f} %", detail)


def _kept_tile(report: Report, place: Standing) -> str:
    row = paired_row(report, place.leader, BASE, OOD_MEAN) if place.leader != BASE else None
    if row is None:
        return _tile("Elsewhere", "–", "No change against base to show.")
    bounds = f"{points(row['low'])} to {points(row['high'])}"
    reading = "lost" if row["high"] < 0.0 else "gained" if row["low"] > 0.0 else "no difference shown"
    reading += f" ({ONE_RUN})" if row["shown"] and place.one_run else ""
    detail = f"{place.leader}, mean change over the embedded OOD benchmarks, n = {row['n']} ({bounds}): {reading}."
    return _tile("Other abilities", f"{points(row['difference'])} points", detail)


def _cost_tile(report: Report, place: Standing) -> str:
    cost = report["cost"].get(place.leader, {})
    turns, profiling = cost.get("rollout_turns", 0.0), cost.get("profiling_turns", 0.0)
    if not turns:
        detail = f"{place.leader}: no rollouts; tokens trained on for one seed."
        return _tile("Cost", f"{cost.get('trained_tokens', 0.0):,.0f} tokens", detail)
    share = f", {profiling / turns:.0%} of them for profiling" if turns and profiling else ""
    detail = (
        f"{place.leader}: rollout turns for one seed{share}; {cost.get('generated_tokens', 0.0):,.0f} generated tokens."
    )
    return _tile("Cost", f"{turns:,.0f} turns", detail)


def comparison_section(report: Report) -> str:
    """The table of all arms; metrics run down, so that it stays readable with many arms."""
    arms = [row["arm"] for row in report["rows"]]
    cells = {row["arm"]: row["cells"] for row in report["rows"]}
    groups: dict[str, list[list[str]]] = {}
    for metric in table_metrics(report):
        texts = [_cell(report, arm, cells[arm].get(metric), metric) for arm in arms]
        groups.setdefault(_group(metric), []).append([text(row_label(report, metric)), *texts])
    skipped_rows = [
        [text(e["name"]), span("skipped", skipped_text(e))] for e in report["benchmarks"] if e.get("skipped")
    ]
    if skipped_rows:
        groups.setdefault(OUT_OF_DOMAIN, []).extend(skipped_rows)
    cost = {arm: report["cost"].get(arm, {}) for arm in arms}
    groups["Cost of one seed, profiling counted"] = [
        [text(label.removeprefix("cost: ")), *(f"{cost[arm].get(name, 0.0):,.0f}" for arm in arms)]
        for name, label in COST_LABELS.items() if any(cost[arm].get(name) for arm in arms)
    ]  # fmt: skip
    rows = [row for name, members in groups.items() if members for row in ([f"<b>{text(name)}</b>"], *members)]
    seeds = ", ".join(str(seed) for seed in report["rows"][0]["seeds"])
    legend = (
        "Mean and 95 % interval, shares in per cent; drift shows the range over seeds. ▲ above base, ▼ below base, "
        "≈ no difference shown (paired interval). No cell is marked as the best: the verdict says what is shown. "
        f"Seeds: {seeds}."
    )
    notes = "".join(note(one) for one in report["notes"])
    skipped = "".join(note(f"{e['name']}: {e['skipped']}") for e in report["benchmarks"] if e.get("skipped"))
    return section("comparison", "All arms", table(["", *arms], rows, "wide"), note(legend), notes, skipped)


def _group(metric: str) -> str:
    if is_in_domain(metric):
        return "In domain"
    return "Drift from base" if metric.startswith("eval/drift/") else OUT_OF_DOMAIN


def _cell(report: Report, arm: str, cell: Mapping[str, Json] | None, metric: str) -> str:
    if cell is not None and cell.get("skipped"):
        return span("skipped", skipped_text(cell))
    whole = cell_text(cell, metric)
    mean, _, bounds = whole.partition(" (") if whole.endswith(")") else (whole, "", "")
    interval = span("interval", bounds.removesuffix(")").replace("-", "–")) if bounds else ""
    return f'<span class="mean">{text(mean)}</span>{MARKS[mark(report, arm, metric)]}{interval}'


def differences_section(report: Report) -> str:
    """Paired differences with a small drawing of each interval; what does not touch base or the leader folded away."""
    metrics = in_domain_metrics(report)
    place = standing(report, metrics[0]) if metrics else None
    heads = {BASE, place.leader if place else BASE}
    broad = [row for row in report["paired"] if is_in_domain(row["metric"]) or row["metric"] == OOD_MEAN]
    main = [row for row in broad if {row["a"], row["b"]} & heads]
    others = [row for row in broad if row not in main]
    rest = [row for row in report["paired"] if row not in broad]
    lead = "First arm minus second, on the same items. An interval that contains 0 shows no difference."
    folded = details(f"All other pairs ({len(others)})", _difference_table(others))
    folded += details(f"Single benchmarks against base ({len(rest)})", _difference_table(rest))
    return section("differences", "Paired differences", _difference_table(main), folded, lead=lead)


def _difference_table(rows: Sequence[Mapping[str, Json]]) -> str:
    reach = max((abs(row[bound]) for row in rows for bound in ("low", "high")), default=0.0) or 1.0
    return table(
        ["first − second", "measure", "points", "95 % interval", "", "reading"],
        [
            [
                text(f"{row['a']} − {row['b']}"), text(f"{metric_label(row['metric'])}, n = {row['n']}"),
                f'<span class="mean">{text(points(row["difference"]))}</span>',
                span("interval", f"{points(row['low'])} to {points(row['high'])}"),
                _whisker(row, reach), _reading(row),
            ]
            for row in rows if is_share(row["metric"])
        ],
        "pairs",
    )  # fmt: skip


def _reading(row: Mapping[str, Json]) -> str:
    if not row["shown"]:
        return span("level", "no difference shown")
    return span("up", f"{row['a']} above") if row["low"] > 0.0 else span("down", f"{row['a']} below")


def _whisker(row: Mapping[str, Json], reach: float) -> str:
    low, middle, high = (80.0 + 76.0 * row[name] / reach for name in ("low", "difference", "high"))
    kind = "level" if not row["shown"] else "up" if row["low"] > 0.0 else "down"
    return (
        '<svg class="whisker" viewBox="0 0 160 16" aria-hidden="true">'
        '<line class="zero" x1="80" x2="80" y1="0" y2="16"/>'
        f'<line class="{kind}" x1="{low:.1f}" x2="{high:.1f}" y1="8" y2="8"/>'
        f'<circle class="{kind}" cx="{middle:.1f}" cy="8" r="4"/></svg>'
    )

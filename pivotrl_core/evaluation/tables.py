"""The comparison as a table, in Markdown.

Metrics run down and arms across. A cell is `mean (low-high)`, in per cent for shares; a mark says how the arm stands to
base by the paired interval: + above, - below, ~ no difference shown. No cell is printed as the best. The table comes
last, for it is what may be cut where room is short (MLflow's description).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pivotrl_core.evaluation.comparison import BASE, OOD_MEAN
from pivotrl_core.evaluation.costs import COST_LABELS
from pivotrl_core.evaluation.scorecard import benchmark_of, is_in_domain, order_of
from pivotrl_core.evaluation.verdict import in_domain_metrics, metric_label, paired_row, verdict
from pivotrl_core.types import Json

LEGEND = (
    "mean (95 % interval). Against base, paired: + above, - below, ~ no difference shown. Shares in %. "
    "Cost: one seed, profiling counted."
)
SEED_RANGE = "KL and order: mean (range over seeds)."

Rows = list[tuple[str, list[str]]]


def is_share(metric: str) -> bool:
    """Whether the metric is a share in [0, 1] that is shown in per cent."""
    return (
        is_in_domain(metric) or benchmark_of(metric) is not None or metric in (OOD_MEAN, "eval/drift/order_agreement")
    )


def table_metrics(report: Mapping[str, Json]) -> list[str]:
    """The metrics of the table in order: in-domain, benchmarks, their mean, drift."""
    names = {metric for row in report["rows"] for metric in row["cells"]}
    benchmarks = sorted((n for n in names if benchmark_of(n) and n.endswith("/score")), key=order_of)
    drift = [
        n for n in ("kl_neutral", "kl_instructions", "kl_other_turns", "order_agreement") if f"eval/drift/{n}" in names
    ]
    mean = [OOD_MEAN] if OOD_MEAN in names else []
    return [*in_domain_metrics(report), *benchmarks, *mean, *(f"eval/drift/{name}" for name in drift)]


def row_label(report: Mapping[str, Json], metric: str) -> str:
    """The metric's name with its size: `ifbench-embedded, n = 32` (the items are the project's own)."""
    cells = [row["cells"][metric] for row in report["rows"] if metric in row["cells"]]
    n = max((cell.get("n") or 0 for cell in cells), default=0)
    sized = is_in_domain(metric) or benchmark_of(metric) is not None or metric == OOD_MEAN
    return f"{metric_label(metric)}, n = {n}" if sized else metric_label(metric)


def cell_text(cell: Mapping[str, Json] | None, metric: str) -> str:
    """`44.0 (37-51)`; `skipped: no sandbox`, `not a number` where the mean is none; empty where there is no cell."""
    if cell is None:
        return ""
    if cell.get("skipped"):
        return skipped_text(cell)
    if cell["mean"] is None:
        return "not a number"
    share = is_share(metric)
    scale = 100.0 if share else 1.0
    text = f"{scale * cell['mean']:.1f}" if share else f"{cell['mean']:.4f}"
    if cell["low"] is None:
        return text
    digits = 0 if share else 4
    low, high = (f"{scale * cell[bound]:.{digits}f}" for bound in ("low", "high"))
    # A range over seeds that does not show at this precision says nothing.
    return text if low == high and cell["interval"] == "range over seeds" else f"{text} ({low}-{high})"


def skipped_text(entry: Mapping[str, Json]) -> str:
    """Why there is no score, as short as a cell: `skipped: no sandbox`."""
    return f"skipped: {str(entry['skipped']).split(':')[0]}"[:24]


def mark(report: Mapping[str, Json], arm: str, metric: str) -> str:
    """+, - or ~ by the paired interval against base; empty where nothing was paired."""
    row = paired_row(report, arm, BASE, metric) if arm != BASE else None
    if row is None:
        return ""
    return "+" if row["low"] > 0.0 else "-" if row["high"] < 0.0 else "~"


def table_rows(report: Mapping[str, Json], arms: Sequence[str]) -> Rows:
    """Label and one text an arm, for every line of the table."""
    cells = {row["arm"]: row["cells"] for row in report["rows"]}
    rows: Rows = []
    for metric in table_metrics(report):
        texts = [f"{cell_text(cells[arm].get(metric), metric)} {mark(report, arm, metric)}".strip() for arm in arms]
        rows.append((row_label(report, metric), texts))
    for entry in report["benchmarks"]:
        if entry.get("skipped"):
            rows.append((entry["name"], [skipped_text(entry)] * len(arms)))
    for name, label in COST_LABELS.items():
        values = [report["cost"].get(arm, {}).get(name) for arm in arms]
        if any(values):
            rows.append((label, ["" if value is None else f"{value:,.0f}" for value in values]))
    return rows


def table_markdown(report: Mapping[str, Json]) -> str:
    """Verdict, notes and table as Markdown. Text from reports is escaped, so that it cannot become markup."""
    arms = [row["arm"] for row in report["rows"]]
    lines = [f"- {_escape(sentence)}" for sentence in verdict(report)]
    lines += [*(f"\n{_escape(note)}" for note in report["notes"]), "", LEGEND, SEED_RANGE]
    lines += ["", "| | " + " | ".join(map(_escape, arms)) + " |", "|---|" + "---:|" * len(arms)]
    for label, texts in table_rows(report, arms):
        lines.append(f"| {_escape(label)} | " + " | ".join(map(_escape, texts)) + " |")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("~", "\\~")
    return " ".join(escaped.split())

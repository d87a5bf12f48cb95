"""`pivotrl compare A B`: two recorded runs, or two arms of the checkout's own comparison, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pivotrl_core.errors import ConfigError
from pivotrl_core.files import read_json
from tasks.records import find_record

REPORT = "reports/compare/report.json"


def compare(checkout: Path, one: str, two: str) -> dict[str, Any]:
    """Means by metric of two arms, or of each arm of two runs: names, rows (metric, a, b, difference), paired."""
    path = checkout / REPORT
    arms = _cells(read_json(path)) if path.is_file() else {}
    if one in arms and two in arms:
        return {"names": [one, two], "rows": _rows(arms[one], arms[two]), "paired": _paired(read_json(path), one, two)}
    left, right = (find_record(checkout, name) for name in (one, two))
    cells = [_cells(record.reports().get(REPORT) or {}) for record in (left, right)]
    rows = [
        {**row, "metric": f"{arm}: {row['metric']}"}
        for arm in dict.fromkeys([*cells[0], *cells[1]])
        for row in _rows(cells[0].get(arm, {}), cells[1].get(arm, {}))
    ]
    if not rows:
        raise ConfigError(f"{one}, {two}: neither has a comparison ({REPORT}); compare runs that finished")
    return {"names": [left.run_id, right.run_id], "rows": rows, "paired": []}


def _cells(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["arm"]: dict(row["cells"]) for row in report.get("rows", [])}


def _rows(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_row(metric, one.get(metric), two.get(metric)) for metric in dict.fromkeys([*one, *two])]


def _row(metric: str, one: Mapping[str, Any] | None, two: Mapping[str, Any] | None) -> dict[str, Any]:
    a, b = (cell.get("mean") if cell else None for cell in (one, two))
    return {"metric": metric, "a": a, "b": b, "difference": b - a if a is not None and b is not None else None}


def _paired(report: Mapping[str, Any], one: str, two: str) -> list[Any]:
    return [row for row in report.get("paired", []) if {row["a"], row["b"]} == {one, two}]


def comparison_text(result: Mapping[str, Any]) -> str:
    """The result as lines of text."""
    one, two = result["names"]
    width = max(len(row["metric"]) for row in result["rows"])
    lines = [f"{'':{width}}  {one:>24}  {two:>24}  {'difference':>12}"]
    lines += [
        f"{r['metric']:{width}}  {_number(r['a']):>24}  {_number(r['b']):>24}  {_number(r['difference']):>12}"
        for r in result["rows"]
    ]
    for row in result["paired"]:
        interval = f"{_number(row['low'])} to {_number(row['high'])}"
        lines.append(
            f"paired, {row['a']} against {row['b']}, {row['metric']}: {_number(row['difference'])} ({interval})"
        )
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"

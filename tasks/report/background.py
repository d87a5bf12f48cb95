"""The end of the report: where the numbers come from, the parameters, and what every metric means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from pivotrl_core.types import Json
from tasks.report.definitions import SECTIONS
from tasks.report.markup import details, section, table, text
from tasks.run_reports import RunReports


def provenance_section(run: RunReports, provenance: Mapping[str, Json]) -> str:
    """Commit, digests, seeds and versions, and the parameters."""
    rows = [[text(name), f"<code>{text(value)}</code>"] for name, value in _facts(provenance)]
    machines = {
        str(sorted((one.get("machine") or {}).items())): one.get("machine") or {} for one in run.timings.values()
    }
    for machine in machines.values():
        listed = ", ".join(f"{name} {value}" for name, value in sorted(machine.items()))
        rows.append(["machine", f"<code>{text(listed)}</code>"])
    rows.insert(0, ["seeds", f"<code>{text(', '.join(map(str, run.params.get('seeds', []))))}</code>"])
    parameters = yaml.safe_dump(dict(run.params), sort_keys=False, allow_unicode=True)
    folded = details("All parameters (params.yaml)", f"<pre>{text(parameters)}</pre>")
    return section("provenance", "Where the numbers come from", table(["", ""], rows, "facts"), folded)


def _facts(tree: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if key == "diff" or (not prefix and key == "seeds"):
            continue
        if isinstance(value, Mapping):
            yield from _facts(value, f"{prefix}{key} ")
        elif value not in ("", None):
            yield f"{prefix}{key}".replace("_", " "), value


def definitions_section() -> str:
    """Formula, unit and healthy range of every metric, folded by group."""
    parts = [
        details(
            f"{title} ({len(definitions)})",
            table(
                ["metric", "formula", "unit", "healthy"],
                [[f"<code>{text(d.name)}</code>", text(d.formula), text(d.unit), text(d.healthy)] for d in definitions],
                "plain",
            ),
        )
        for title, definitions in SECTIONS.items()
    ]
    lead = "Healthy is where nothing is wrong; outside is a reason to look, not a verdict."
    return section("metrics", "What every metric means", *parts, lead=lead)

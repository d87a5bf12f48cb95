"""Puts the report together: one HTML file with its style and figures inside, no script and nothing from a network.

The same reports give the same bytes; a content security policy forbids the browser to load anything at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from pivotrl_core.files import atomic_file, write_text
from pivotrl_core.types import Json
from tasks.figures import Figure, draw_figures
from tasks.report.background import definitions_section, provenance_section
from tasks.report.evidence import (
    cost_section,
    disagreements_section,
    families_section,
    figures_section,
    pools_section,
)
from tasks.report.markup import text
from tasks.report.summary import comparison_section, differences_section, verdict_section
from tasks.run_reports import RunReports, read_run

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
CONTENTS = {
    "comparison": "All arms", "differences": "Differences", "figures": "Figures", "families": "Families",
    "pools": "Pools", "cost": "Cost", "disagreements": "Disagreements", "provenance": "Provenance",
    "metrics": "Metrics",
}  # fmt: skip


def write_report(root: Path, out: Path, provenance: Mapping[str, Json] | None = None, notice: str = "") -> Path:
    """Write the report of the run whose reports lie below `root`.

    Args:
        root: checkout or worktree.
        out: file to write; a folder gets `report.html`, and the figures as PNG files in `figures/`.
        provenance: commit, digests, versions, run id; shown as given.
        notice: shown above everything, e.g. that a quick run is too short to conclude from.

    Returns:
        The file's path.
    """
    run = read_run(root)
    figures = draw_figures(run)
    path = out if out.suffix == ".html" else out / "report.html"
    write_text(path, report_html(run, figures, provenance or {}, notice))
    if path != out:
        for figure in figures:
            with atomic_file(out / "figures" / f"{figure.name}.png") as file:
                file.write(figure.png)
    return path


def report_html(run: RunReports, figures: Sequence[Figure], provenance: Mapping[str, Json], notice: str = "") -> str:
    """The whole document."""
    compared = bool(run.comparison.get("rows"))
    parts = [
        verdict_section(run.comparison) if compared else "<section><h2>No comparison yet</h2></section>",
        comparison_section(run.comparison) if compared else "",
        differences_section(run.comparison) if compared else "",
        figures_section(figures),
        families_section(run),
        pools_section(run),
        cost_section(run) if compared else "",
        disagreements_section(run) if compared else "",
        provenance_section(run, provenance),
        definitions_section(),
    ]
    body = "".join(parts)
    links = [f'<a href="#{anchor}">{text(name)}</a>' for anchor, name in CONTENTS.items() if f'id="{anchor}"' in body]
    run_id = text(provenance.get("run_id", ""))
    banner = f'<p class="notice">{text(notice)}</p>' if notice else ""
    dirty = '<p class="notice">The code had uncommitted changes.</p>' if provenance.get("dirty") is True else ""
    style = files("tasks.report").joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>PivotRL run {run_id}</title><style>{style}</style></head><body>"
        f'<header><h1>PivotRL <span class="run">{run_id}</span></h1><nav>{"".join(links)}</nav></header>'
        f"<main>{banner}{dirty}{body}</main></body></html>\n"
    )

"""Compare: all arms side by side, with paired differences and what they cost."""

from __future__ import annotations

from pivotrl_core.config.folders import COMPARISON, EVALUATIONS, POOLS, PROFILES, TRAININGS
from pivotrl_core.config.graph import derive_graph
from pivotrl_core.evaluation.comparison import compare
from pivotrl_core.evaluation.scorecard import read_evaluation
from pivotrl_core.evaluation.tables import table_markdown
from pivotrl_core.files import write_json, write_text
from pivotrl_core.stages.context import StageContext, read_report, timed


def run_compare(context: StageContext) -> None:
    """Write reports/compare: report.json and table.md."""
    with timed(context, "compare"):
        graph = derive_graph(context.config)
        report = compare(
            [read_evaluation(context.path(f"{EVALUATIONS}/{key}")) for key in graph["evaluates"]],
            {key: read_report(context.path(f"{POOLS}/{key}/report.json")) for key in graph["selects"]},
            {key: read_report(context.path(f"{TRAININGS}/{key}/report.json")) for key in graph["trains"]},
            {key: read_report(context.path(f"{PROFILES}/{key}/report.json")) for key in graph["profiles"]},
            graph,
        )
        write_json(context.path(f"{COMPARISON}/report.json"), {"stage": "compare", **report})
        write_text(context.path(f"{COMPARISON}/table.md"), table_markdown(report) + "\n")

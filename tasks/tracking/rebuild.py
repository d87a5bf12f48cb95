"""MLflow from the reports alone: the store can be lost without losing a result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from pivotrl_core.evaluation.tables import table_markdown
from pivotrl_core.files import read_json, read_jsonl
from pivotrl_core.types import Json
from tasks.tracking.recorder import Recorder
from tasks.tracking.tracker import Tracker


def rebuild(
    tracker: Tracker, root: Path, run_id: str, name: str = "", provenance: Mapping[str, Json] | None = None
) -> str:
    """Record the run whose params.yaml and reports lie below `root`. Doing it twice adds nothing.

    Returns:
        The parent's MLflow run id.
    """
    config = yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8"))
    graph = yaml.safe_load((root / "graph.yaml").read_text(encoding="utf-8"))
    parent = tracker.start_run(run_id, name or run_id, config, provenance)
    for folder in sorted((root / "reports/evaluate").glob("*/")):
        report = read_json(folder / "report.json")
        arm, seed = str(report["arm"]), int(report["seed"])
        recorder = tracker.start_child(parent, arm, seed, provenance)
        for stage in stage_folders(root, graph, arm, seed):
            record_stage(recorder, stage)
        recorder.finish()
    compared = root / "reports/compare/report.json"
    table = table_markdown(read_json(compared)) if compared.is_file() else ""
    tracker.finish_run(parent, "FINISHED", table)
    return parent


def stage_folders(root: Path, graph: Mapping[str, Json], arm: str, seed: int) -> list[Path]:
    """The report folders that belong to an arm and seed, in the order of the pipeline; those that exist."""
    key = f"{arm}-{seed}"
    pool = graph.get("trains", {}).get(key, {}).get("pool", "")
    profile = graph.get("selects", {}).get(pool, {}).get("profile", "")
    places = [
        f"data/profiles/{profile}" if profile else "",
        f"data/pools/{pool}" if pool else "",
        f"reports/train/{key}",
        f"reports/evaluate/{key}",
    ]
    return [root / place for place in places if place and (root / place / "report.json").is_file()]


def record_stage(recorder: Recorder, folder: Path) -> None:
    """Log one stage's steps, then its final metrics."""
    steps = folder / "metrics.jsonl"
    if steps.is_file():
        for row in read_jsonl(steps):
            recorder.log_metrics(int(row["step"]), row["metrics"])
    recorder.log_report(read_json(folder / "report.json"))

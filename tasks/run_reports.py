"""Everything that a finished run left for people to read, loaded once: reports, steps, parameters, timings.

Files that are not there are empty here, so that a report can be written for a run that stopped half-way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.config.folders import CANDIDATES, COMPARISON, EVALUATIONS, POOLS, PROFILES, TIMINGS, TRAININGS
from pivotrl_core.config.graph import Graph, load_graph
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import read_json, read_jsonl
from pivotrl_core.types import Json

Reports = Mapping[str, Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class RunReports:
    """Reports by key: profiles by name, pools by pool key, trains and evaluations by `ARM-SEED`, timings by stage."""

    root: Path
    params: Mapping[str, Json]
    graph: Graph
    comparison: Mapping[str, Json]
    candidates: Mapping[str, Json]
    profiles: Reports
    pools: Reports
    trains: Reports
    evaluations: Reports
    steps: Mapping[str, Sequence[Mapping[str, Json]]]
    timings: Reports

    @property
    def arms(self) -> list[str]:
        """Arms of the comparison, base first."""
        return [row["arm"] for row in self.comparison.get("rows", [])]


def read_run(root: Path) -> RunReports:
    """Load what lies below a checkout or worktree. Raises ConfigError where parameters or graph are not readable."""
    trains = root / TRAININGS
    return RunReports(
        root=root,
        params=_parameters(root / "params.yaml"),
        graph=load_graph(root / "graph.yaml") if (root / "graph.yaml").is_file() else {},
        comparison=_json(root / COMPARISON / "report.json"),
        candidates=_json(root / CANDIDATES / "report.json"),
        profiles=_reports(root / PROFILES),
        pools=_reports(root / POOLS),
        trains=_reports(trains),
        evaluations=_reports(root / EVALUATIONS),
        steps={path.parent.name: read_jsonl(path) for path in sorted(trains.glob("*/metrics.jsonl"))},
        timings={path.stem: read_json(path) for path in sorted((root / TIMINGS).glob("*.json"))},
    )


def _parameters(path: Path) -> Mapping[str, Json]:
    """What a parameter file says, also one that another version of the configuration wrote."""
    from ruamel.yaml import YAML  # YAML 1.2, as the configuration reads it: 3e-5 is a number
    from ruamel.yaml.error import YAMLError

    try:
        return (YAML(typ="safe").load(path.read_text(encoding="utf-8")) or {}) if path.is_file() else {}
    except (YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {error}") from error


def _json(path: Path) -> Mapping[str, Json]:
    content: Mapping[str, Json] = read_json(path) if path.is_file() else {}
    return content


def _reports(folder: Path) -> Reports:
    return {path.parent.name: read_json(path) for path in sorted(folder.glob("*/report.json"))}

"""MLflow from the recorded runs alone: the store can be lost without losing a result, but for registered models.

Artifacts come from the run's folder of the state, where that is still there; start times are those of the rebuild.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from pivotrl_core.config.folders import CANDIDATES, EVALUATIONS, POOLS, PROFILES, TRAININGS
from pivotrl_core.config.graph import Graph, load_graph, pool_of, profile_of
from pivotrl_core.config.loading import load_config
from pivotrl_core.config.stages import TrackingConfig
from pivotrl_core.errors import ConfigError
from pivotrl_core.evaluation.costs import pays_profile
from pivotrl_core.evaluation.tables import table_markdown
from pivotrl_core.files import read_json, read_jsonl
from pivotrl_core.types import Json
from tasks.provenance import DIFF_NAME, RUN_NAME, Provenance
from tasks.record_folder import COMPARED, materialised
from tasks.repository import RUN_REFS, Repository
from tasks.run_reports import read_run
from tasks.settings import find_state
from tasks.tracking.child_run import ChildRun, data_inputs
from tasks.tracking.database import open_client
from tasks.tracking.tracker import COMMIT_TAG, Tracker

log = logging.getLogger(__name__)


def rebuild_runs(root: Path, uri: str) -> tuple[list[str], list[str]]:
    """Record every recorded run of a checkout that MLflow does not show, or not whole.

    Returns:
        Ids of the runs recorded anew, and of those that could not be, each with its reason in the log.

    Raises:
        MlflowException: The store does not answer.
    """
    open_client(uri).search_experiments(max_results=1)  # one that does not answer is told once, not for each run
    repository, runs = Repository(root), find_state(root).runs
    listed = repository.text("for-each-ref", "--sort=creatordate", "--format=%(objectname) %(refname)", RUN_REFS)
    rebuilt, failed = list[str](), list[str]()
    for commit, ref in (line.split(" ", 1) for line in listed.splitlines()):
        run_id = ref.removeprefix(RUN_REFS)
        if repository.read(commit, COMPARED) is None:
            continue
        try:
            with materialised(root, commit) as folder:
                if _rebuild_missing(uri, folder, run_id, _facts(repository, commit), commit, runs / run_id):
                    rebuilt.append(run_id)
        except Exception as error:  # noqa: BLE001 - one record that MLflow refuses must not hide the others
            log.warning("run %s is not in MLflow: %s: %s", run_id, type(error).__name__, error)
            failed.append(run_id)
    return rebuilt, failed


def _rebuild_missing(
    uri: str, folder: Path, run_id: str, facts: Mapping[str, Json], commit: str, artifacts: Path
) -> bool:
    """Record the run whose record lies in `folder`, unless MLflow shows it whole. Returns whether it was recorded."""
    tree = _parameters(folder)
    experiment = (tree.get("tracking") or {}).get("experiment") or TrackingConfig().experiment
    tracker = Tracker(uri, experiment)
    if not tracker.is_incomplete(run_id):
        return False
    parent = _rebuild(tracker, folder, run_id, tree, facts)
    table = table_markdown(read_json(folder / COMPARED))
    tracker.finish_run(parent, "FINISHED", table, artifacts if artifacts.is_dir() else None)
    tracker.client.set_tag(parent, COMMIT_TAG, commit)  # last: what ends before it is rebuilt
    return True


def _parameters(root: Path) -> Mapping[str, Json]:
    """As the run itself told them; those that this version's configuration refuses, as the file says them."""
    try:
        return dict(load_config(root / "params.yaml").model_dump(mode="json"))
    except ConfigError:
        return read_run(root).params


def _facts(repository: Repository, commit: str) -> dict[str, Json]:
    """What `run.json` says, with the diff."""
    facts: dict[str, Json] = json.loads(repository.read(commit, RUN_NAME) or b"{}")
    return {**facts, "diff": (repository.read(commit, DIFF_NAME) or b"").decode("utf-8", "replace")}


def _rebuild(tracker: Tracker, root: Path, run_id: str, tree: Mapping[str, Json], facts: Mapping[str, Json]) -> str:
    """Record the run whose reports lie below `root`. Returns its MLflow run id; it is not ended yet."""
    graph = load_graph(root / "graph.yaml")
    provenance = {key: facts[key] for key in Provenance.__dataclass_fields__ if key in facts}
    name = f"{facts.get('flow', 'run')}-{run_id}"
    parent = tracker.start_run(run_id, name, tree, {**provenance, "diff": facts["diff"]})
    for path in sorted((root / EVALUATIONS).glob("*/report.json")):
        report = read_json(path)
        arm, seed = str(report["arm"]), int(report["seed"])
        recorder = tracker.start_child(parent, arm, seed, provenance)
        for stage in stage_folders(root, graph, arm, seed):
            record_stage(recorder, stage)
        recorder.log_inputs(data_inputs(provenance.get("inputs", {})))
        recorder.finish()
    record_data(tracker, parent, root)
    tracker.log_comparison(parent, read_json(root / COMPARED))
    return parent


def stage_folders(root: Path, graph: Graph, arm: str, seed: int) -> list[Path]:
    """The report folders that belong to an arm and seed, in the order of the pipeline; those that exist.

    The profile's only where the arm pays for it, as in the comparison.
    """
    key = f"{arm}-{seed}"
    pool = pool_of(graph, key)
    profile = profile_of(graph, pool)
    pays = pays_profile(_report(root / POOLS / pool), _report(root / TRAININGS / key))
    places = [
        f"{PROFILES}/{profile}" if profile and pays else "",
        f"{POOLS}/{pool}" if pool else "",
        f"{TRAININGS}/{key}",
        f"{EVALUATIONS}/{key}",
    ]
    return [root / place for place in places if place and (root / place / "report.json").is_file()]


def _report(folder: Path) -> Mapping[str, Json]:
    path = folder / "report.json"
    return dict(read_json(path)) if path.is_file() else {}


def record_data(tracker: Tracker, parent: str, root: Path) -> None:
    """Log what was read and kept of the data to the parent: it is no arm's."""
    folder = root / CANDIDATES
    if (folder / "report.json").is_file():
        record_stage(ChildRun(tracker.client, parent), folder)


def record_stage(recorder: ChildRun, folder: Path) -> None:
    """Log one stage's steps, then its final metrics."""
    steps = folder / "metrics.jsonl"
    if steps.is_file():
        for row in read_jsonl(steps):
            recorder.log_metrics(int(row["step"]), row["metrics"])
    recorder.log_report(read_json(folder / "report.json"))

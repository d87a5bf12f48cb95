"""Parent and child runs of one experiment: one parent a flow run, one child an arm and seed.

Starting is idempotent: a parent is found by its run id tag and a child by parent, arm and seed, and taken up again, so
that a resumed flow goes on in the runs that it began.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pivotrl_core.types import Json
from tasks.confidential import without_keys
from tasks.processes import ProcessIdentity, this_process
from tasks.tracking.child_run import ChildRun
from tasks.tracking.database import experiment_id, open_client
from tasks.tracking.lineage import register
from tasks.tracking.parameters import child_parameters, flatten, provenance_tags, split

PARENT_TAG = "mlflow.parentRunId"
RUN_TAG = "pivotrl.run_id"
ARM_TAG, SEED_TAG = "pivotrl.arm", "pivotrl.seed"
NOTE_TAG = "mlflow.note.content"
COMMIT_TAG = "pivotrl.run_commit"
PROCESS_TAG = "pivotrl.process"  # that writes a run, so that runs of dead ones can be told from those that go on
ENDED_TAG = "pivotrl.ended_by"
MAX_PARAMS = 100
MAX_METRICS = 1000
MAX_DESCRIPTION = 8000  # characters of a tag; MLflow cuts a longer one without a word
ARTIFACT_SUFFIXES = frozenset({".png", ".svg", ".html", ".json", ".jsonl", ".md", ".txt", ".log", ".yaml", ".diff"})
MAX_ARTIFACT_BYTES = 20_000_000


class Tracker:
    """Everything the flows record, in one experiment of one store."""

    def __init__(self, uri: str, experiment: str) -> None:
        self.uri = uri
        self.client: Any = open_client(uri)
        self.experiment_id = experiment_id(self.client, uri, experiment)
        self._configs: dict[str, Mapping[str, Json]] = {}

    def start_run(
        self, run_id: str, name: str, config: Mapping[str, Json], provenance: Mapping[str, Json] | None = None
    ) -> str:
        """Begin (or take up again) the parent run of a flow run. Returns its MLflow run id."""
        tags = {RUN_TAG: run_id, "mlflow.source.name": "pivotrl", "mlflow.source.type": "PROJECT"}
        parent = self._begin({RUN_TAG: run_id}, name, tags, provenance or {}, flatten(config), child=False)
        self._configs[parent] = config
        return parent

    def start_child(self, parent: str, arm: str, seed: int, provenance: Mapping[str, Json] | None = None) -> ChildRun:
        """Begin (or take up again) the child of an arm and seed, with the configuration that its parent began with."""
        key = {PARENT_TAG: parent, ARM_TAG: arm, SEED_TAG: str(seed)}
        parameters = child_parameters(self._configs.get(parent, {}), arm, seed)
        return ChildRun(self.client, self._begin(key, f"{arm}-{seed}", key, provenance or {}, parameters, child=True))

    def finish_run(self, parent: str, status: str, table_markdown: str = "", folder: Path | None = None) -> None:
        """End the parent: the comparison becomes its description and table.md, figures and report its artifacts."""
        if table_markdown:
            self.client.set_tag(parent, NOTE_TAG, _description(table_markdown))
            self.client.log_text(parent, table_markdown, "table.md")
        if folder is not None:
            self._log_folder(parent, folder)
        self.client.set_terminated(parent, status)

    def discard_run(self, parent: str) -> None:
        """Delete the parent and its children, as MLflow deletes: gone from view, and there for `mlflow gc`."""
        for run in self._search(f"tags.`{PARENT_TAG}` = '{parent}'"):
            self.client.delete_run(run.info.run_id)
        self.client.set_terminated(parent, "KILLED")
        self.client.delete_run(parent)

    def renew_provenance(self, run_id: str, provenance: Mapping[str, Json]) -> None:
        """Write the tags of a parent or child again: a run begins before there is all that they tell of."""
        from mlflow.entities import RunTag

        self.client.log_batch(run_id, tags=[RunTag(*one) for one in provenance_tags(provenance).items()])

    def end_running(self, run_id: str, status: str, reason: str) -> None:
        """End the parent of a flow run and its children where they still run, and tag them with the reason."""
        parents = self._search(f"tags.`{RUN_TAG}` = '{run_id}'")
        children = [run for one in parents for run in self._search(f"tags.`{PARENT_TAG}` = '{one.info.run_id}'")]
        for run in [*children, *parents]:
            if run.info.status == "RUNNING":
                self.client.set_tag(run.info.run_id, ENDED_TAG, reason)
                self.client.set_terminated(run.info.run_id, status)

    def log_comparison(self, parent: str, report: Mapping[str, Json]) -> None:
        """Each arm's means as metrics `compare/ARM/METRIC` of the parent: runs can be sorted and charted by them."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        means = {
            f"compare/{row['arm']}/{metric.removeprefix('eval/')}": cell.get("mean")
            for row in report["rows"]
            for metric, cell in row["cells"].items()
        }
        metrics = [Metric(name, float(mean), now, 0) for name, mean in means.items() if mean is not None]
        for start in range(0, len(metrics), MAX_METRICS):
            self.client.log_batch(parent, metrics=metrics[start : start + MAX_METRICS])

    def sweep_dead(self) -> list[str]:
        """End runs left RUNNING by processes that are gone, as KILLED. Runs that name no process are left alone."""
        ended = []
        for run in self._search("attributes.status = 'RUNNING'"):
            process = ProcessIdentity.from_text(run.data.tags.get(PROCESS_TAG, ""))
            if process is not None and process.is_dead():
                self.client.set_tag(run.info.run_id, ENDED_TAG, "sweep: its process was gone")
                self.client.set_terminated(run.info.run_id, "KILLED")
                ended.append(run.info.run_id)
        return ended

    def register_model(self, name: str, pointer: Mapping[str, Json], run_id: str, lineage: Mapping[str, Json]) -> str:
        """Register a child's model by a pointer to where its weights lie. Returns the version."""
        return register(self.client, name, pointer, run_id, lineage)

    def is_incomplete(self, run_id: str) -> bool:
        """Whether a recorded flow run is not here, or only in part: COMMIT_TAG, set last, is missing.

        What another process still writes is left to it.
        """
        parents = self._search(f"tags.`{RUN_TAG}` = '{run_id}'")
        return not any(COMMIT_TAG in run.data.tags or _is_written(run) for run in parents)

    def _begin(
        self, key: Mapping[str, str], name: str, tags: Mapping[str, str], provenance: Mapping[str, Json],
        parameters: Mapping[str, str], child: bool,
    ) -> str:  # fmt: skip
        every = {**tags, **provenance_tags(provenance), PROCESS_TAG: str(this_process())}
        condition = " and ".join(f"tags.`{tag}` = '{value}'" for tag, value in key.items())
        found = [run for run in self._search(condition) if (PARENT_TAG in run.data.tags) == child]
        if found:
            run = found[0]
            self.client.update_run(run.info.run_id, status="RUNNING")
            if ENDED_TAG in run.data.tags:  # it goes on, so why it had ended is no longer so
                self.client.delete_tag(run.info.run_id, ENDED_TAG)
            for tag, value in every.items():
                self.client.set_tag(run.info.run_id, tag, value)
        else:
            run = self.client.create_run(self.experiment_id, tags=every, run_name=name)
        self._log_parameters(run.info.run_id, parameters, run.data.params)
        if provenance.get("diff"):
            self.client.log_text(run.info.run_id, str(provenance["diff"]), "provenance/dirty.diff")
        return str(run.info.run_id)

    def _log_parameters(self, run_id: str, parameters: Mapping[str, str], known: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        new = {key: value for key, value in parameters.items() if key not in known}
        for chunk in split(new, MAX_PARAMS):
            self.client.log_batch(run_id, params=[Param(key, value) for key, value in chunk])

    def _log_folder(self, run_id: str, folder: Path) -> None:
        """Small files for people only: weights and Parquet lie in DVC."""
        for path in sorted(folder.rglob("*")):
            if path.suffix in ARTIFACT_SUFFIXES and path.is_file() and path.stat().st_size <= MAX_ARTIFACT_BYTES:
                where = path.relative_to(folder)
                if path.suffix == ".log":  # what tools wrote, whoever they are
                    text = path.read_text(encoding="utf-8", errors="replace")
                    self.client.log_text(run_id, without_keys(text), where.as_posix())
                else:
                    inner = where.parent.as_posix()
                    self.client.log_artifact(run_id, str(path), None if inner == "." else inner)

    def _search(self, condition: str) -> list[Any]:
        found: list[Any] = []
        token: str | None = None
        while True:
            page = self.client.search_runs([self.experiment_id], condition, max_results=1000, page_token=token)
            found.extend(page)
            token = page.token
            if not token:
                return found


def _description(markdown: str) -> str:
    """A comparison as long as a tag may be; one that is longer ends at a whole line that says where all of it is."""
    if len(markdown) <= MAX_DESCRIPTION:
        return markdown
    end = "\n\nCut here; all of it is in the artifact table.md."
    return markdown[: MAX_DESCRIPTION - len(end)].rpartition("\n")[0] + end


def _is_written(run: Any) -> bool:
    """Whether a living process other than this one has a run in hand."""
    process = ProcessIdentity.from_text(run.data.tags.get(PROCESS_TAG, ""))
    alive = process is not None and not process.is_dead() and process != this_process()
    return alive and str(run.info.status) == "RUNNING"

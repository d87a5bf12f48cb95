"""What a flow run tells MLflow: nothing where nothing executes; else a parent, and a child for each arm and seed.

Curves are passed on while a stage runs; at the end every arm and seed is filled from its reports. MLflow is for people
and can be rebuilt from the reports, so its failure is told and ends no run.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pivotrl_core.addresses import without_credentials
from pivotrl_core.config.folders import POOLS, PULLED
from pivotrl_core.config.graph import derive_graph
from pivotrl_core.config.tree import Config
from pivotrl_core.files import read_json
from tasks.dvc_lock import LOCK_NAME, read_lock
from tasks.following import MetricsFollower
from tasks.last_good import STARTS
from tasks.provenance import Provenance

log = logging.getLogger(__name__)

_FOLLOWED = ("train@", "evaluate@")


def model_prefix(experiment: str) -> str:
    """How names of an experiment's registered models begin: MLflow takes no `/` and no `:` there."""
    return experiment.replace("/", "-").replace(":", "-")


def _described(error: Exception) -> tuple[str, str]:
    """Its class, and where it came from: MLflow's messages hold the address of the store, which may hold a password."""
    return type(error).__name__, without_credentials("".join(traceback.format_exception(error)).rstrip())


@dataclass(slots=True)
class Recording:
    """The MLflow side of one flow run in `root`. `enabled` is False where a caller wants no MLflow at all."""

    root: Path
    config: Config
    uri: str
    run_id: str
    name: str
    provenance: Callable[[], Provenance]
    diff: bytes = b""
    enabled: bool = True
    parent: str | None = None
    _tracker: Any = None
    _children: dict[str, Any] = field(default_factory=dict)

    def follow(self, stage: str, outs: tuple[str, ...]) -> Callable[[], None] | None:
        """Begin the parent where this is the first stage to run, and follow the stage's curves where it has an arm."""
        self.begin()
        group, _, key = stage.partition("@")
        if not self.enabled or f"{group}@" not in _FOLLOWED:
            return None

        def pass_on(step: int, metrics: Mapping[str, float]) -> None:
            self._guarded("metrics", lambda: self._child(key).log_metrics(step, metrics))

        return MetricsFollower([self.root / out for out in outs], pass_on).poll

    def begin(self) -> None:
        """Begin the parent, unless that has been done."""
        self._guarded("start", self._start)

    def finish(self, status: str, table: str, folder: Path | None, commit: str) -> None:
        """Fill all children from the reports and end the parent, where one was begun.

        A run that did not finish fills none: beside what its stages wrote lie reports of earlier runs.
        """
        if self._tracker is not None:
            self._guarded("finish", lambda: self._finish(status, table, folder, commit))
            self._end_incomplete("FAILED" if status == "FINISHED" else status)

    def keep_only(self, config: Config) -> None:
        """Go on with a configuration of fewer arms: what was begun of the others has failed."""
        kept = derive_graph(config)["evaluates"]
        for key in [key for key in self._children if key not in kept]:
            self._guarded("finish", partial(self._children.pop(key).finish, "FAILED"))
        self.config = config

    def discard(self) -> None:
        """Take back what was begun: stages were restored, none executed, and an earlier run has recorded the result."""
        if self._tracker is not None:
            self._guarded("discard", lambda: self._tracker.discard_run(self.parent))
            self._end_incomplete("KILLED")

    def _start(self) -> None:
        from tasks.tracking.tracker import Tracker

        if self.parent is None:
            self._tracker = Tracker(self.uri, self.config.tracking.experiment)
            self._tracker.sweep_dead()
            tree = self.config.model_dump(mode="json")
            self.parent = self._tracker.start_run(self.run_id, self.name, tree, self._facts())

    def _facts(self) -> dict[str, Any]:
        return {**self.provenance().to_json(), "diff": self.diff.decode("utf-8", "replace")}

    def _child(self, key: str) -> Any:
        if key not in self._children:
            one = derive_graph(self.config)["evaluates"][key]
            facts = self.provenance().to_json()
            self._children[key] = self._tracker.start_child(self.parent, one["arm"], one["seed"], facts)
        return self._children[key]

    def _finish(self, status: str, table: str, folder: Path | None, commit: str) -> None:
        from tasks.tracking.child_run import data_inputs
        from tasks.tracking.rebuild import record_data, record_stage, stage_folders
        from tasks.tracking.tracker import COMMIT_TAG

        graph = derive_graph(self.config)
        # Parent and children began when dvc.lock did not yet hold what this run has made: now it does.
        provenance = self.provenance()
        facts = provenance.to_json()
        inputs = data_inputs(provenance.inputs)
        finished = status == "FINISHED"
        for key, one in graph["evaluates"].items():
            folders = stage_folders(self.root, graph, one["arm"], one["seed"]) if finished else []
            if not folders and key not in self._children:
                continue
            child = self._child(key)
            for place in folders:
                record_stage(child, place)
            child.log_inputs(inputs)
            self._tracker.renew_provenance(child.run_id, facts)
            child.finish(status)
            if finished and key in graph["trains"] and self.config.tracking.register_model:
                self._register(child, one, graph["trains"][key], commit)
        self._children.clear()  # ended: a run that fails after this takes none of them along
        self._tracker.renew_provenance(self.parent, facts)
        comparison = self.root / "reports" / "compare" / "report.json"
        if finished and self.parent is not None:
            record_data(self._tracker, self.parent, self.root)
        if finished and comparison.is_file():
            self._tracker.log_comparison(self.parent, read_json(comparison))
        self._tracker.finish_run(self.parent, status, table, folder)
        if commit:  # last: `pivotrl ui --rebuild` completes what has a record and no such tag
            self._tracker.client.set_tag(self.parent, COMMIT_TAG, commit)

    def _register(self, child: Any, arm: Mapping[str, Any], train: Mapping[str, Any], commit: str) -> None:
        lock = read_lock(self.root / LOCK_NAME)
        outs = {path: md5 for stage in lock.values() for path, md5 in stage.outs.items()}
        pointer = {
            "path": arm["policy"],
            "md5": outs.get(arm["policy"], ""),
            "run_commit": commit,
            "run_id": self.run_id,
        }
        pool, deps = f"{POOLS}/{train['pool']}", lock[f"train@{arm['arm']}-{arm['seed']}"].deps
        # A nightly's training starts from a kept model, which the configuration does not know.
        start = next((path for path in deps if path.startswith(f"{STARTS}/")), train["start"])
        lineage = {"start": start, "start_md5": deps.get(start, ""), "pool": pool, "pool_md5": outs.get(pool, ""),
                   "data_md5": outs.get(PULLED, ""), "arm": arm["arm"], "seed": arm["seed"]}  # fmt: skip
        name = f"{model_prefix(self.config.tracking.experiment)}-{arm['arm']}"
        self._tracker.register_model(name, pointer, child.run_id, lineage)

    def _end_incomplete(self, status: str) -> None:
        """One more try after a failure, or the runs would look as if they went on until a later run sweeps them."""
        if self.enabled:
            return
        try:
            self._tracker.end_running(self.run_id, status, "its tracking failed: the reports have what is missing here")
        except Exception as error:  # noqa: BLE001 - it is told, and ends no run
            log.error("MLflow (end): %s; the next run ends what still looks running\n%s", *_described(error))

    def _guarded(self, what: str, call: Callable[[], Any]) -> None:
        """MLflow may fail without ending a run: after the first failure it is left alone, and that is said."""
        if not self.enabled:
            return
        try:
            call()
        except Exception as error:  # noqa: BLE001 - it is told, and ends no run
            self.enabled = False
            name, trace = _described(error)
            log.error("MLflow (%s): %s; the run goes on, its reports have everything\n%s", what, name, trace)

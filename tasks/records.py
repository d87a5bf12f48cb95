"""Recorded runs: found by run id, commit or MLflow run id, and read without a checkout."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotrl_core.errors import ConfigError
from tasks.dvc_lock import LOCK_NAME, LockedStage, parse_lock
from tasks.last_good import STARTS
from tasks.provenance import DIFF_NAME, RUN_NAME, Snapshot
from tasks.repository import RECORDED, RUN_REFS, GitError, Repository


class RecordNotFoundError(ConfigError):
    """No recorded run goes by this name."""


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded run."""

    repository: Repository
    commit: str
    facts: Mapping[str, Any]

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.facts["run_id"])

    @property
    def snapshot(self) -> Snapshot:
        """The code that it ran: a commit, and the uncommitted changes of then."""
        return Snapshot(str(self.facts["commit"]), self.repository.read(self.commit, DIFF_NAME) or b"")

    def text(self, path: str) -> str | None:
        """A recorded file, None where the record has none of that name."""
        content = self.repository.read(self.commit, path)
        return None if content is None else content.decode("utf-8")

    def parameters(self) -> dict[str, str]:
        """Texts of params.yaml, graph.yaml and dvc.lock, and the pointers to models that training started from."""
        names = [*RECORDED, *self.repository.list_files(self.commit, [STARTS])]
        return {name: text for name in names if (text := self.text(name)) is not None}

    def lock(self) -> dict[str, LockedStage]:
        """What each stage ran with and what came out."""
        return parse_lock(self.text(LOCK_NAME) or "")

    def reports(self) -> dict[str, Any]:
        """Every recorded report.json, by path."""
        names = self.repository.list_files(self.commit, ["reports", "data"])
        return {name: json.loads(self.text(name) or "null") for name in names if name.endswith("/report.json")}


def find_record(checkout: Path, name: str) -> Record:
    """The recorded run that a name means; run refs are fetched from `origin` where they are not here yet.

    Raises:
        RecordNotFoundError: Nothing here or at `origin` goes by this name.
    """
    repository = Repository(checkout)
    record = _look(repository, name)
    if record is None:
        try:
            repository.fetch_runs()
        except GitError as error:
            raise RecordNotFoundError(f"{name}: not here, and `origin` could not be asked: {error}") from error
        record = _look(repository, name)
    if record is None:
        runs = repository.text(
            "for-each-ref", "--count=5", "--sort=-creatordate", "--format=%(refname:lstrip=3)", RUN_REFS
        )
        known = f"; the latest runs are: {', '.join(runs.split())}" if runs else "; no run has been recorded yet"
        raise RecordNotFoundError(f"{name}: no recorded run has this run id, commit or MLflow run id{known}")
    return record


def _look(repository: Repository, name: str) -> Record | None:
    for commit in commits_named(repository, name):
        facts = repository.read(commit, RUN_NAME)
        if facts:
            return Record(repository, commit, json.loads(facts))
    return None


def commits_named(repository: Repository, name: str) -> Iterator[str]:
    """The commits here that a name may mean, in this order: a run id, any revision of git's, an MLflow run id."""
    for revision in _revisions(repository, name):
        commit = repository.resolve(revision)
        if commit is not None:
            yield commit


def _revisions(repository: Repository, name: str) -> Iterator[str]:
    yield RUN_REFS + name
    yield name
    tracked = _commit_of_tracked(repository, name)  # opens MLflow's store, so it is asked last
    if tracked is not None:
        yield tracked


def _commit_of_tracked(repository: Repository, name: str) -> str | None:
    """The record that an MLflow run (32 hex digits) is tagged with, where MLflow's store is here."""
    if len(name) != 32 or not all(letter in "0123456789abcdef" for letter in name):
        return None
    from tasks.settings import find_state
    from tasks.tracking.database import open_client
    from tasks.tracking.tracker import COMMIT_TAG

    client = open_client(find_state(repository.root).tracking_uri)
    try:
        tags = client.get_run(name).data.tags
        parent = tags.get("mlflow.parentRunId")
        tags = client.get_run(parent).data.tags if parent else tags
    except Exception:  # noqa: BLE001 - MLflow's error classes differ by store; not found there is not found
        return None
    found = tags.get(COMMIT_TAG)
    return str(found) if found else None

"""Which code and data made a run's numbers, and the record of the run as a git commit.

The record is a commit under `refs/pivotrl/runs/<run id>` on top of the commit that was checked out: its tree with
params.yaml, graph.yaml, dvc.lock, every report and `run.json`; where the tree was dirty, with the changes as
`dirty.diff`. Models and data are in DVC's cache and remote, by the hashes that dvc.lock names.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pivotrl_core.config.loading import config_digest
from pivotrl_core.config.tree import Config
from pivotrl_core.files import file_digest
from pivotrl_core.types import canonical_json
from tasks.dvc_lock import LOCK_NAME, read_lock
from tasks.last_good import starts_in
from tasks.repository import RECORDED, RUN_REFS, Repository

DIFF_NAME = "dirty.diff"
RUN_NAME = "run.json"
DEPENDENCIES = "requirements"
PACKAGES = ("torch", "transformers", "peft", "numpy", "pandas", "pyarrow", "prefect", "mlflow", "dvc")
_REPORT_SUFFIXES = (".json", ".jsonl", ".md")


@dataclass(frozen=True, slots=True)
class Provenance:
    """What identifies a run's code, data and configuration. Digests are hex SHA-256, `inputs` are MD5 by path."""

    run_id: str
    commit: str
    dirty: bool
    config_digest: str
    lock_digest: str
    dependencies_digest: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    threads: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "inputs": dict(self.inputs), "versions": dict(self.versions), "seeds": list(self.seeds)}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The code that a run starts from. Taken at the start; looked at again at the end by `changed_since`.

    Attributes:
        commit: That is checked out.
        diff: Uncommitted changes as a patch.
        left_out: Files that are not in the patch, with the reason.
        tree: Git's hash of all files; empty in a record's.
    """

    commit: str
    diff: bytes
    left_out: tuple[str, ...] = field(default=(), compare=False)
    tree: str = field(default="", compare=False)


def take_snapshot(root: Path) -> Snapshot:
    """Commit and changes of a checkout as they are now."""
    repository = Repository(root)
    head, now = repository.head(), repository.working_tree()
    return Snapshot(head, now.diff, now.left_out, now.tree)


def changed_since(root: Path, snapshot: Snapshot) -> list[str]:
    """Files of a checkout that are not as they were when the snapshot was taken: a run in it may have used either."""
    repository = Repository(root)
    return repository.changed_files(snapshot.tree, repository.working_tree().tree)


def collect_provenance(root: Path, config: Config, run_id: str, snapshot: Snapshot) -> Provenance:
    """Facts about the run in `root`, where its dvc.lock lies."""
    lock = read_lock(root / LOCK_NAME)
    return Provenance(
        run_id=run_id,
        commit=snapshot.commit,
        dirty=bool(snapshot.diff),
        config_digest=config_digest(config),
        lock_digest=file_digest(root / LOCK_NAME) if lock else "",
        dependencies_digest=_dependencies_digest(root),
        inputs=dict(lock["pull"].outs) if "pull" in lock else {},
        seeds=config.seeds,
        threads=config.compute.threads,
        versions=_versions(),
    )


def _dependencies_digest(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted((root / DEPENDENCIES).glob("*.lock")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def record_run(
    root: Path, provenance: Provenance, snapshot: Snapshot, stages: Mapping[str, str], changed: Sequence[str] = (),
    flow: str = "run",
) -> str:  # fmt: skip
    """Write the record of the run in `root` as a commit and point its ref at it.

    Args:
        root: Checkout or worktree that holds parameters, dvc.lock and reports.
        provenance: Of this run.
        snapshot: Of the code it started from.
        stages: What became of each stage (`ran`, `restored`, `unchanged`).
        changed: Files that somebody changed while it ran (`changed_since`), so that the record may not be what ran.
        flow: Its name, with which that of the run in MLflow begins.

    Returns:
        The commit's hash.
    """
    repository = Repository(root)
    files = {name: (root / name).read_bytes() for name in RECORDED if (root / name).is_file()}
    kept = [*report_files(root), *(root / name for name in starts_in(root))]
    files.update({path.relative_to(root).as_posix(): path.read_bytes() for path in kept})
    facts = {"schema_version": 1, "stages": dict(stages), "left_out": list(snapshot.left_out),
             "changed_while_running": list(changed), "flow": flow}  # fmt: skip
    files[RUN_NAME] = (canonical_json({**provenance.to_json(), **facts}) + "\n").encode()
    if snapshot.diff:
        files[DIFF_NAME] = snapshot.diff
    mark = " (with uncommitted changes)" if snapshot.diff else ""
    mark += " (files changed while it ran)" if changed else ""
    commit = repository.write_commit(files, f"pivotrl run {provenance.run_id}{mark}\n", snapshot.commit)
    repository.set_ref(RUN_REFS + provenance.run_id, commit)
    return commit


def report_files(root: Path) -> list[Path]:
    """Reports as people and `reproduce` read them: JSON, JSON lines and Markdown; no tables of rows, no models."""
    found = [p for p in (root / "reports").rglob("*") if p.is_file() and p.suffix in _REPORT_SUFFIXES]
    found += [path for path in (root / "data").rglob("report.json") if path.is_file()]
    return sorted(found)

"""A recorded run's reports as a folder: from its git commit, and its item tables from DVC's cache where they still lie.

The record keeps JSON and Markdown; Parquet stays in DVC, named by the hashes in the record's dvc.lock. A table whose
bytes do not match their hash is left out.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from pivotrl_core.config.folders import COMPARISON, EVALUATIONS
from pivotrl_core.errors import DataError
from tasks.dvc_lock import LOCK_NAME, parse_lock
from tasks.records import commits_named
from tasks.repository import RECORDED, RUN_REFS, Repository
from tasks.settings import dvc_cache
from tasks.stored import place_in_cache

FOLDERS = ("reports", "data")
TABLES = ("items.parquet", "episodes.parquet", "turns.parquet")
COMPARED = f"{COMPARISON}/report.json"


def resolve(root: Path, name: str) -> str:
    """The commit of a run id, of any revision, or of an MLflow run id.

    Raises:
        DataError: it names none of them.
    """
    commit = next(commits_named(Repository(root), name), None)
    if commit is None:
        raise DataError(
            f"{name}: no arm of this checkout, no run id, no commit and no MLflow run id; "
            f"`git for-each-ref {RUN_REFS}` lists runs"
        )
    return commit


@contextmanager
def materialised(root: Path, commit: str) -> Iterator[Path]:
    """The commit's parameters and reports below a temporary folder, with the item tables that the cache still has.

    Raises:
        DataError: the commit holds no comparison.
    """
    repository = Repository(root)
    if repository.read(commit, COMPARED) is None:
        raise DataError(f"{commit}: no {COMPARED}; a finished run's record has one (see its run ref)")
    with tempfile.TemporaryDirectory(prefix="pivotrl-compare-") as name:
        folder = Path(name)
        reports = [p for p in repository.list_files(commit, FOLDERS) if PurePosixPath(p).suffix in (".json", ".jsonl")]
        for path in [*RECORDED, *reports]:
            content = repository.read(commit, path)
            if content is not None:
                _write(folder / path, content)
        lock = folder / LOCK_NAME
        if lock.is_file():
            _add_tables(folder, dvc_cache(root), lock.read_text(encoding="utf-8"))
        yield folder


def _add_tables(folder: Path, cache: Path, lock: str) -> None:
    """Only beside recorded reports: dvc.lock keeps stages that have left the graph, and their reports are not there."""
    for stage in parse_lock(lock).values():
        for out, md5 in stage.outs.items():
            if not out.startswith(f"{EVALUATIONS}/") or not (folder / out / "report.json").is_file():
                continue
            for entry in json.loads(_cached(cache, md5) or b"[]"):
                content = _cached(cache, entry["md5"]) if entry["relpath"] in TABLES else None
                if content is not None and hashlib.md5(content, usedforsecurity=False).hexdigest() == entry["md5"]:
                    _write(folder / out / entry["relpath"], content)


def _cached(cache: Path, md5: str) -> bytes | None:
    path = place_in_cache(cache, md5)
    return path.read_bytes() if md5 and path.is_file() else None


def _write(path: Path, content: bytes) -> None:
    if ".." in path.parts:  # git itself makes no such path, but a record may come from elsewhere
        raise DataError(f"{path}: the record names a file outside of its folder; do not trust it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)

"""Garbage collection that knows of recorded runs: DVC's own `gc` would delete what only run refs name.

Kept is what the checkout's, the nightly's and every recorded run's dvc.lock name. Everything else in the cache goes,
with what the run cache knows of it, scratch folders, and worktrees of dead runs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import yaml

from tasks.locked import LOCK_NAME, LockedStage, parse_lock, read_lock
from tasks.repository import RUN_REFS, Repository
from tasks.settings import State, dvc_cache
from tasks.worktree import sweep_worktrees


def collect_garbage(root: Path, state: State) -> str:
    """Remove what nothing names. To be called with the project lock held. Returns what was done."""
    worktrees = sweep_worktrees(root, state)
    cache = dvc_cache(root)
    wanted = _wanted(root, state, cache)
    removed, size = 0, 0
    files = cache / "files" / "md5"
    for path in sorted(files.glob("??/*")):
        name = path.parent.name + path.name
        if name not in wanted and path.is_file():
            size += path.stat().st_size
            removed += 1
            path.unlink()
    shutil.rmtree(state.scratch, ignore_errors=True)
    for entry in sorted((cache / "runs").glob("*/*/*")):
        if not set(_outs_of_run(entry)) <= wanted:
            entry.unlink()
    return (
        f"{removed} files ({size / 1e6:.0f} MB) removed from the cache; {len(worktrees)} worktrees of dead runs removed"
    )


def _wanted(root: Path, state: State, cache: Path) -> set[str]:
    """Cache names (MD5, `.dir` for folders) that the checkout, the nightly's seed or a recorded run needs."""
    repository = Repository(root)
    locks = [read_lock(root / LOCK_NAME), read_lock(state.root / "nightly" / LOCK_NAME)]
    for commit in repository.text("for-each-ref", "--format=%(objectname)", RUN_REFS).split():
        text = repository.read(commit, LOCK_NAME)
        locks.append(parse_lock(text.decode()) if text else {})
    wanted: set[str] = set()
    for lock in locks:
        for stage in lock.values():
            wanted |= _names(cache, stage)
    return wanted


def _outs_of_run(entry: Path) -> list[str]:
    """Hashes of the outputs that an entry of the run cache would restore."""
    value = yaml.safe_load(entry.read_text(encoding="utf-8")) or {}
    return [str(out.get("md5", "")) for out in value.get("outs", [])]


def _names(cache: Path, stage: LockedStage) -> set[str]:
    names = set(stage.outs.values())
    for folder in [name for name in names if name.endswith(".dir")]:
        names |= _members(cache, folder)
    return names


def _members(cache: Path, folder: str) -> set[str]:
    """Files of a folder, which the cache keeps as a JSON list under the folder's own name."""
    path = cache / "files" / "md5" / folder[:2] / folder[2:]
    return {str(entry["md5"]) for entry in json.loads(path.read_text(encoding="utf-8"))} if path.is_file() else set()

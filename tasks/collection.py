"""Garbage collection that knows of recorded runs: DVC's own `gc` would delete what only run refs name.

Kept is what dvc.lock and the `.dvc` files of the checkout and of every recorded run name, and the nightly's dvc.lock.
Everything else in the cache goes, with what the run cache knows of it, scratch that no process holds, worktrees of dead
runs, and profile blocks that no run has read for `UNREAD_DAYS`: they cost samples, not results. A cache that other
checkouts may share is left alone: what they name is not known here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from pivotrl_core.errors import ConfigError
from pivotrl_core.stages.context import BLOCKS
from tasks.dvc_lock import LOCK_NAME, LockedStage, parse_lock, parse_pointer, read_lock
from tasks.repository import RUN_REFS, Repository
from tasks.scratch import clear_scratch
from tasks.settings import State, dvc_cache
from tasks.stored import FILES, place_in_cache
from tasks.worktree import sweep_worktrees

UNREAD_DAYS = 90


def collect_garbage(root: Path, state: State) -> str:
    """Remove what nothing names. To be called with the project lock held. Returns what was done.

    Raises:
        ConfigError: DVC's cache lies outside of the checkout and its state folder.
        DataError: A file that names data is not readable; nothing has been removed from the cache.
    """
    cache = dvc_cache(root)
    if not any(cache.is_relative_to(place.resolve()) for place in (root, state.root)):
        raise ConfigError(
            f"DVC's cache {cache} lies outside of this checkout and its state folder, so other checkouts may share it, "
            "and what they need is not known here; nothing was removed. Share results by a DVC remote instead, and let "
            "cache.dir be a folder of the checkout"
        )
    worktrees = sweep_worktrees(root, state)
    wanted = _wanted(root, state, cache)
    removed, size = 0, 0
    for path in sorted((cache / FILES).glob("??/*")):
        name = path.parent.name + path.name
        if name not in wanted and path.is_file():
            size += path.stat().st_size
            removed += 1
            path.unlink()
    clear_scratch(state)
    for entry in sorted((cache / "runs").glob("*/*/*")):
        if not set(_outs_of_run(entry)) <= wanted:
            entry.unlink()
    blocks = _remove_unread(state.store / BLOCKS)
    return (
        f"{removed} files ({size / 1e6:.0f} MB) removed from the cache; {len(worktrees)} worktrees of dead runs and "
        f"{blocks} profile blocks removed that nothing had read for {UNREAD_DAYS} days"
    )


def _remove_unread(folder: Path) -> int:
    """Remove blocks that were last read long ago: tables, each with a file of what it cost. Returns how many."""
    before = time.time() - UNREAD_DAYS * 24 * 3600
    costs = [path for path in sorted(folder.glob("*.json")) if path.stat().st_mtime < before]
    for cost in costs:
        cost.with_suffix(".parquet").unlink(missing_ok=True)
        cost.unlink()
    return len(costs)


def _wanted(root: Path, state: State, cache: Path) -> set[str]:
    """Cache names (MD5, `.dir` for folders) that the checkout, the nightly's seed or a recorded run needs."""
    here = [*read_lock(root / LOCK_NAME).values(), *read_lock(state.nightly / LOCK_NAME).values()]
    here += [parse_pointer((root / name).read_text(encoding="utf-8"), name) for name in _pointers(root)]
    wanted: set[str] = set()
    for stage in (*here, *_recorded(Repository(root))):
        wanted |= _names(cache, stage)
    return wanted


def _pointers(root: Path) -> list[str]:
    """`.dvc` files of the checkout: data that a person gave to DVC. DVC itself refuses those that git ignores."""
    listed = Repository(root).text("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.dvc")
    return [name for name in listed.split("\0") if name and (root / name).is_file()]


def _recorded(repository: Repository) -> Iterator[LockedStage]:
    """What every recorded run names: its stages, the models that it started from, and data of the user's own."""
    for commit in repository.text("for-each-ref", "--format=%(objectname)", RUN_REFS).split():
        text = repository.read(commit, LOCK_NAME)
        yield from (parse_lock(text.decode()) if text else {}).values()
        for name in repository.list_files(commit, ["."]):
            if name.endswith(".dvc"):
                yield parse_pointer((repository.read(commit, name) or b"").decode(), f"{commit}:{name}")


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
    path = place_in_cache(cache, folder)
    return {str(entry["md5"]) for entry in json.loads(path.read_text(encoding="utf-8"))} if path.is_file() else set()

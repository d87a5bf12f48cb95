"""Outputs of stages that left the graph: removed from the checkout, because `compare` depends on their parent folders.

Only what dvc.lock names and DVC's cache has is removed: an arm that comes back is restored, not run again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from pivotrl_core.config.graph import Graph, stage_entries
from pivotrl_core.errors import ConfigError
from tasks.dvc_lock import LOCK_NAME, read_lock
from tasks.stored import is_cached


def remove_leftovers(root: Path, graph: Graph, cache: Path | None = None) -> list[str]:
    """Remove them, and folders that are empty after it. Returns the removed paths.

    Args:
        root: The checkout.
        graph: What belongs to it.
        cache: DVC's cache, which must have them; None: it is known that it has.

    Raises:
        ConfigError: the only copy of one is here.
    """
    lock = read_lock(root / LOCK_NAME)
    live = {f"{stage}@{key}" for stage, entries in stage_entries(graph).items() for key in entries}
    kept = {path for name, stage in lock.items() if "@" not in name or name in live for path in stage.outs}
    gone = {
        path: md5 for name, stage in lock.items() if "@" in name and name not in live
        for path, md5 in stage.outs.items() if path not in kept
    }  # fmt: skip
    for path, md5 in sorted(gone.items()):
        if cache is not None and (root / path).exists() and not is_cached(cache, md5):
            raise ConfigError(
                f"{path}: its arm left params.yaml, and DVC's cache ({cache}) does not have it any more; move it away "
                "to keep it, or remove it"
            )
    return remove_outputs(root, sorted(gone))


def remove_outputs(root: Path, paths: Iterable[str]) -> list[str]:
    """Remove outputs, and folders that are empty after it. Returns those that were there."""
    return [path for path in paths if _remove(root, path)]


def _remove(root: Path, path: str) -> bool:
    place = root / path
    if not place.exists():
        return False
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    if not any(place.parent.iterdir()):
        place.parent.rmdir()
    return True

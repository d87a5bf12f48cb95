"""Outputs of stages that left the graph: removed from the checkout, because `compare` depends on their parent folders.

Only what dvc.lock names is removed, so DVC's cache has it: an arm that comes back is restored, not run again. Files
that no stage made are never touched.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from pivotrl_core.config.graph import Graph, stage_entries
from tasks.dvc_lock import LOCK_NAME, read_lock


def remove_leftovers(root: Path, graph: Graph) -> list[str]:
    """Remove them, and folders that are empty after it. Returns the removed paths.

    Args:
        root: The checkout.
        graph: What belongs to it.
    """
    lock = read_lock(root / LOCK_NAME)
    live = {f"{stage}@{key}" for stage, entries in stage_entries(graph).items() for key in entries}
    kept = {path for name, stage in lock.items() if "@" not in name or name in live for path in stage.outs}
    gone = sorted(
        {path for name, stage in lock.items() if "@" in name and name not in live for path in stage.outs} - kept
    )
    return remove_outputs(root, gone)


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

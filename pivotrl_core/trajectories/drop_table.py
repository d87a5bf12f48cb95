"""Drops as a table: one schema for whole rows of files and for single turns, wherever a stage writes them down."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from pivotrl_core.trajectories.drops import Drop
from pivotrl_core.types import Json

DROP_SCHEMA = pa.schema([
    pa.field("kind", pa.string(), nullable=False),  # row: a whole trajectory; turn: one candidate
    pa.field("place", pa.string(), nullable=False),
    pa.field("field", pa.string(), nullable=False),
    pa.field("reason", pa.string(), nullable=False),
    pa.field("detail", pa.string(), nullable=False),
])  # fmt: skip


def row_drops(drops: Iterable[Drop], folder: Path) -> list[dict[str, Json]]:
    """Dropped rows under `DROP_SCHEMA`, in their order; `place` is file and line.

    Args:
        drops: with files by the names that their source has for them, or below `folder`.
        folder: what places below it are written relative to, so that a worktree gives the same bytes.
    """
    return [
        {"kind": "row", "place": f"{drop.file.removeprefix(f'{folder.as_posix()}/')}:{drop.line}", "field": drop.field,
         "reason": str(drop.reason), "detail": drop.detail}
        for drop in drops
    ]  # fmt: skip

"""What the pivot row of a candidate says beyond state and action: its harness, workspace, index or tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from pivotrl_core.errors import DataError
from pivotrl_core.types import Candidate, Json

# As trajectories/nemo_gym.py names it; verdicts must not depend on the code of a reader.
ROW = "nemo_row"


def row_field(candidate: Candidate, name: str) -> Json:
    """A field of the row that the candidate came from, else of its own metadata; None where there is none."""
    row = candidate.metadata.get(ROW)
    found = row.get(name) if isinstance(row, Mapping) else None
    return candidate.metadata.get(name) if found is None else found


def place_below(folder: Path | None, candidate: Candidate, name: str) -> Path | None:
    """The place that a field of the row names, below the folder of the rows; None where either is missing.

    Raises:
        DataError: the row names a place outside of the folder.
    """
    named = None if folder is None else row_field(candidate, name)
    if folder is None or named is None:
        return None
    path = PurePosixPath(named) if isinstance(named, str) else None
    if path is None or not path.parts or path.is_absolute() or ".." in path.parts:
        raise DataError(f"{name} {str(named)[:200]!r}: name a folder or an archive below {folder}.")
    place = (folder / path).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise DataError(f"{name} {path}: it is a link that leads out of {folder}.")
    return place

"""What the pivot row of a candidate says beyond state and action: its harness, workspace, index or tests.

A candidate's id is a hash of state, tools and expert action, and knows nothing of these. Whatever keeps verdicts keeps
them by `ground_id`, or `Grounds`, too: a row whose tests were mended is graded anew.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from pivotrl_core.errors import DataError
from pivotrl_core.files import file_digest, tree_digest
from pivotrl_core.types import Candidate, Json, content_id

# As trajectories/nemo_gym.py names it; verdicts must not depend on the code of a reader.
ROW = "nemo_row"
Field = Literal["answers", "harness", "index", "metadata", "tests", "workspace"]
Place = Literal["index", "workspace"]
ANSWER = "response"
"""Of a row that `pivotrl verify` reads: the action to be graded, which is no ground."""


def ground_id(candidate: Candidate) -> str:
    """Digest of what our graders ask of a candidate beside state, tools and expert action. Places count by name."""
    return content_id([candidate.domain, [row_field(candidate, name) for name in get_args(Field)]])


class Grounds:
    """Digests of all that verdicts of any verifier stand on; places below `folder` count by what lies there."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._digest = functools.cache(lambda path: (tree_digest if path.is_dir() else file_digest)(path))

    def of(self, candidate: Candidate) -> str:
        """The digest at a candidate; the whole row is in it, since NeMo Gym's verifiers read it."""
        row = candidate.metadata.get(ROW)
        said = {name: value for name, value in row.items() if name != ANSWER} if isinstance(row, Mapping) else None
        return content_id([ground_id(candidate), said, [self._content(candidate, name) for name in get_args(Place)]])

    def _content(self, candidate: Candidate, name: Place) -> str | None:
        try:
            place = place_below(self._folder, candidate, name)
            return None if place is None else self._digest(place)
        except (DataError, OSError):  # what a verdict says of it
            return "unreadable"


def row_field(candidate: Candidate, name: Field) -> Json:
    """A field of the row that the candidate came from, else of its own metadata; None where there is none."""
    row = candidate.metadata.get(ROW)
    found = row.get(name) if isinstance(row, Mapping) else None
    return candidate.metadata.get(name) if found is None else found


def place_below(folder: Path | None, candidate: Candidate, name: Place) -> Path | None:
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

"""What a reader is: one public format, one row in, one trajectory out. Readers do not import their siblings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pivotrl_core.trajectories.turns import ONLY_LAST_TURN
from pivotrl_core.types import Json, Trajectory

RESERVED = frozenset({"row_id", "turn_index", "nemo_row", ONLY_LAST_TURN})
"""Metadata keys that mean something here. Only readers set them: a row's own keys of these names are not carried."""


class TrajectoryReader(Protocol):
    """Reads rows of one format. Keeps an explicit id of the row, where it has one, in `metadata["row_id"]`."""

    name: str

    def recognises(self, row: Mapping[str, Json]) -> bool:
        """Whether a row looks like this format. Looks at keys, not at the whole row."""
        ...

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        """The row as a trajectory.

        Raises:
            InvalidRowError: with the reason and the field.
        """
        ...

"""What a reader is: one public format, one row in, one trajectory out. Readers do not import their siblings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from pivotrl_core.types import Json, Trajectory

ITEMS = "items"
"""A JSON list that may be one trajectory (of messages, of events) is offered to readers as an object with this key."""


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


@runtime_checkable
class DocumentReader(TrajectoryReader, Protocol):
    """Reads a format whose rows may hold several trajectories, with things that they share."""

    def split(self, row: Mapping[str, Json]) -> list[tuple[str, Mapping[str, Json]]]:
        """Each trajectory's own row, complete with what it shares with the others, and its path inside of `row`.

        Raises:
            InvalidRowError: there is nothing to take apart.
        """
        ...

"""What the pivot row of a candidate says beyond state and action: its harness, workspace or tests."""

from __future__ import annotations

from collections.abc import Mapping

from pivotrl_core.types import Candidate, Json

# As trajectories/nemo_gym.py names it; verdicts must not depend on the code of a reader.
ROW = "nemo_row"


def row_field(candidate: Candidate, name: str) -> Json:
    """A field of the row that the candidate came from, else of its own metadata; None where there is none."""
    row = candidate.metadata.get(ROW)
    found = row.get(name) if isinstance(row, Mapping) else None
    return candidate.metadata.get(name) if found is None else found

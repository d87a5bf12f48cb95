"""Candidates and the account of all turns, held in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pivotrl_core.pivots.candidates import CandidateDrop, CandidateTally, sift_candidates
from pivotrl_core.types import Candidate, Json, Trajectory


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Candidates in the order of their trajectories, and the account of all turns."""

    candidates: list[Candidate]
    tally: CandidateTally

    @property
    def drops(self) -> list[CandidateDrop]:
        """The turns that did not become candidates of their own."""
        return self.tally.drops

    def report(self) -> dict[str, Json]:
        """Counts that add up: turns = candidates + dropped."""
        return self.tally.report()


def extract_candidates(
    trajectories: Iterable[Trajectory],
    validation_share: float,
    test_share: float,
    exclude: Callable[[Candidate], str] | None = None,
) -> CandidateSet:
    """`sift_candidates`, with all candidates held in memory."""
    tally = CandidateTally()
    found = list(sift_candidates(trajectories, validation_share, test_share, tally, exclude))
    return CandidateSet(found, tally)

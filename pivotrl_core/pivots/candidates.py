"""Candidates: every assistant turn of every trajectory, as a state and the expert's action there.

Thinking of earlier turns is not part of a state. A turn that two trajectories share (same state, tools and action) is
one candidate: the first one read is kept, the others are counted. Invariant: turns = candidates + dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pivotrl_core.trajectories.marks import GROUNDS
from pivotrl_core.trajectories.nemo_gym import NEMO_ROW
from pivotrl_core.trajectories.splits import split_trajectory
from pivotrl_core.trajectories.turns import candidate_positions
from pivotrl_core.types import Candidate, Json, Role, Split, Trajectory


class CandidateDropReason(StrEnum):
    DUPLICATE = "duplicate_candidate"
    EMPTY_STATE = "empty_state"


@dataclass(frozen=True, slots=True)
class CandidateDrop:
    """One turn that did not become a candidate of its own; `reason` may come from a caller's own check."""

    candidate_id: str
    trajectory_id: str
    turn_index: int
    domain: str
    split: Split
    reason: str


@dataclass(slots=True)
class CandidateTally:
    """The account of some trajectories' turns, filled while they go by: all that is kept where they are many."""

    trajectories: int = 0
    candidates: int = 0
    by_split: Counter[str] = field(default_factory=Counter)
    by_domain: Counter[str] = field(default_factory=Counter)
    by_kind: Counter[str] = field(default_factory=Counter)
    drops: list[CandidateDrop] = field(default_factory=list)

    def add(self, candidate: Candidate) -> None:
        """Count a candidate."""
        self.candidates += 1
        self.by_split[str(candidate.split)] += 1
        self.by_domain[candidate.domain] += 1
        self.by_kind["tool_call" if candidate.expert.tool_calls else "message"] += 1

    def report(self) -> dict[str, Json]:
        """Counts that add up: turns = candidates + dropped."""
        reasons = Counter(drop.reason for drop in self.drops)
        return {
            "trajectories": self.trajectories,
            "turns": self.candidates + len(self.drops),
            "candidates": self.candidates,
            "dropped": len(self.drops),
            "dropped_by_reason": dict(sorted(reasons.items())),
            "by_split": dict(sorted(self.by_split.items())),
            "by_domain": dict(sorted(self.by_domain.items())),
            "by_kind": dict(sorted(self.by_kind.items())),
        }


def sift_candidates(
    trajectories: Iterable[Trajectory],
    validation_share: float,
    test_share: float,
    tally: CandidateTally,
    exclude: Callable[[Candidate], str] | None = None,
) -> Iterator[Candidate]:
    """The candidates of these trajectories one by one, split by trajectory group.

    Args:
        trajectories: in a fixed order; of equal candidates the first is kept.
        validation_share: share of trajectory groups for validation, in [0, 1].
        test_share: share of trajectory groups for the test, in [0, 1].
        tally: filled on the way, and adds up once the iterator has ended.
        exclude: names a reason to leave a candidate out (too many tokens, say), or returns "".
    """
    seen: set[int] = set()
    for trajectory in trajectories:
        tally.trajectories += 1
        for candidate in iterate_candidates(trajectory, split_trajectory(trajectory, validation_share, test_share)):
            identity = candidate.id
            reason = _reason_to_drop(candidate, int(identity, 16) in seen, exclude)
            if reason:
                tally.drops.append(_drop(candidate, identity, reason))
            else:
                seen.add(int(identity, 16))
                tally.add(candidate)
                yield candidate


def _reason_to_drop(candidate: Candidate, is_known: bool, exclude: Callable[[Candidate], str] | None) -> str:
    if not any(message.role in (Role.SYSTEM, Role.USER) for message in candidate.state):
        return CandidateDropReason.EMPTY_STATE
    if is_known:
        return CandidateDropReason.DUPLICATE
    return exclude(candidate) if exclude is not None else ""


def _drop(candidate: Candidate, identity: str, reason: str) -> CandidateDrop:
    trajectory_id, turn_index = candidate.trajectory_id, candidate.turn_index
    return CandidateDrop(
        identity,
        trajectory_id=trajectory_id,
        turn_index=turn_index,
        domain=candidate.domain,
        split=candidate.split,
        reason=str(reason),
    )


def iterate_candidates(trajectory: Trajectory, split: Split) -> Iterator[Candidate]:
    """Candidates of one trajectory. `turn_index` counts its assistant turns from 0 (a pivot row may give its own)."""
    state = tuple(replace(message, thinking="") for message in trajectory.messages)
    trajectory_id, metadata = trajectory.id, _carried_metadata(trajectory.metadata)
    given = metadata.get("turn_index")
    for position in candidate_positions(trajectory):
        turns_before = sum(message.role is Role.ASSISTANT for message in state[:position])
        yield Candidate(
            state=state[:position],
            tools=trajectory.tools,
            expert=trajectory.messages[position],  # its own thinking stays: a reasoning model can learn it
            trajectory_id=trajectory_id,
            turn_index=given if isinstance(given, int) else turns_before,
            domain=trajectory.domain,
            split=split,
            metadata=metadata,
        )


def _carried_metadata(metadata: Mapping[str, Json]) -> dict[str, Json]:
    """What of a trajectory's metadata goes with each turn: short values, what verdicts stand on, a turn's pivot row."""
    short = {key: value for key, value in metadata.items() if isinstance(value, str | int | float | None)}
    bounded = {key: value for key, value in short.items() if not isinstance(value, str) or len(value) <= 1000}
    return bounded | {key: metadata[key] for key in (*GROUNDS, NEMO_ROW) if key in metadata}

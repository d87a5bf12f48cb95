"""A look at a trajectory file before anything runs: what is read and dropped, candidates by kind, lengths in tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pivotrl_core.trajectories.decisions import decision_of
from pivotrl_core.trajectories.drops import DropReport
from pivotrl_core.trajectories.loading import iterate_trajectories
from pivotrl_core.trajectories.marks import LEFT_OUT, TOOLS_INFERRED
from pivotrl_core.trajectories.turns import candidate_positions
from pivotrl_core.trajectories.validation import Limits
from pivotrl_core.types import Json, Role, Trajectory

QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)


@dataclass(slots=True)
class InspectionReport:
    """Counts of some files.

    Attributes:
        candidates_by_kind: by what the expert did: message, tool_call, parallel_calls.
        candidates_by_decision: by what had to be decided (`decisions.py`).
        left_out: what readers did not read of the rows that were kept, by its name.
        tools_inferred: trajectories whose tools were made from their calls.
        turns_only_state: assistant turns that are no candidates of their own (demonstrations, states of pivot rows).
    """

    drops: DropReport
    trajectories_by_domain: Counter[str] = field(default_factory=Counter)
    candidates_by_kind: Counter[str] = field(default_factory=Counter)
    candidates_by_decision: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    tools_inferred: int = 0
    turns_only_state: int = 0
    tools: Counter[str] = field(default_factory=Counter)
    groups: int = 0
    token_quantiles: dict[str, float] = field(default_factory=dict)

    @property
    def candidates(self) -> int:
        """Number of assistant turns to learn from, before duplicates are dropped."""
        return sum(self.candidates_by_kind.values())

    def to_json(self) -> dict[str, Json]:
        """The report as plain JSON."""
        return {
            **self.drops.to_json(),
            "groups": self.groups,
            "trajectories_by_domain": dict(sorted(self.trajectories_by_domain.items())),
            "candidates": self.candidates,
            "turns_only_state": self.turns_only_state,
            "candidates_by_kind": dict(sorted(self.candidates_by_kind.items())),
            "candidates_by_decision": dict(sorted(self.candidates_by_decision.items())),
            "tools_inferred": self.tools_inferred,
            "left_out": dict(sorted(self.left_out.items())),
            "tool_calls_by_name": dict(sorted(self.tools.items())),
            "tokens_by_quantile": self.token_quantiles,
        }


def inspect_files(
    files: Iterable[Path], count_tokens: Callable[[Trajectory], list[int]] | None = None, limits: Limits | None = None
) -> InspectionReport:
    """Read files and describe what is in them.

    Args:
        files: in a fixed order: of equal rows the first is kept.
        count_tokens: gives the lengths, in tokens, of a trajectory's candidates (state and action); None: not counted.
        limits: bounds on one row.
    """
    report = InspectionReport(DropReport())
    groups: set[str] = set()
    lengths: list[int] = []
    for trajectory in iterate_trajectories(files, report.drops, limits):
        groups.add(trajectory.group or trajectory.id)
        report.trajectories_by_domain[trajectory.domain] += 1
        _count_turns(trajectory, report)
        if count_tokens is not None:
            lengths.extend(count_tokens(trajectory))
    report.groups = len(groups)
    if lengths:
        report.token_quantiles = {f"{q:g}": float(np.quantile(lengths, q, method="higher")) for q in QUANTILES}
    return report


def _count_turns(trajectory: Trajectory, report: InspectionReport) -> None:
    report.left_out.update(trajectory.metadata.get(LEFT_OUT, {}))
    report.tools_inferred += bool(trajectory.metadata.get(TOOLS_INFERRED))
    positions = candidate_positions(trajectory)
    turns = sum(message.role is Role.ASSISTANT for message in trajectory.messages)
    report.turns_only_state += turns - len(positions)
    for position in positions:
        expert = trajectory.messages[position]
        report.candidates_by_decision[str(decision_of(trajectory.messages[:position], expert))] += 1
        calls = expert.tool_calls
        kind = "message" if not calls else "tool_call" if len(calls) == 1 else "parallel_calls"
        report.candidates_by_kind[kind] += 1
        report.tools.update(call.name for call in calls)

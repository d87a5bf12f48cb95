"""Notes under a comparison: what its numbers rest on, and what they cannot say. Data in, sentences out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pivotrl_core.evaluation.scorecard import Evaluation
from pivotrl_core.types import Json

FEW_SEEDS = 3  # up to here a bootstrap over seeds is plainly too narrow (`statistics.py`)
MANY_ARMS = 3  # beside base; above it, what chance alone shows is worth a number
CHANCE = 0.05  # share of 95 % intervals that leave out 0 where there is no difference, 2.5 % on each side


def comparison_notes(
    evaluations: Sequence[Evaluation],
    partly: Mapping[str, Mapping[str, str]],
    against_base: Sequence[Mapping[str, Json]],
) -> list[str]:
    """All notes, what touches every number first.

    Args:
        evaluations: one per arm and seed.
        partly: of the benchmarks that only some have, by name: who does not and why.
        against_base: paired differences of the other arms minus base.
    """
    notes = [
        *_seed_notes(evaluations),
        *_many_arms_notes(against_base),
        *(_absence_note(name, missing) for name, missing in partly.items()),
        *_unknown_notes(evaluations),
    ]
    for evaluation in evaluations:
        notes.extend(str(note) for note in evaluation.report.get("notes", []))
    return list(dict.fromkeys(notes))


def _seed_notes(evaluations: Sequence[Evaluation]) -> list[str]:
    arms = [evaluation.arm for evaluation in evaluations]
    seeds = max((arms.count(arm) for arm in arms), default=0)
    if seeds == 1:
        return ["One seed: intervals cover the choice of items only, not what another training run would give."]
    if 1 < seeds <= FEW_SEEDS:
        return [
            f"{seeds} seeds: intervals are too narrow, for a bootstrap over so few sees only {seeds - 1}/{seeds} of "
            "the variance between training runs."
        ]
    return []


def _many_arms_notes(against_base: Sequence[Mapping[str, Json]]) -> list[str]:
    arms, measures = ({row[name] for row in against_base} for name in ("a", "metric"))
    if len(arms) <= MANY_ARMS:
        return []
    return [
        f"{len(arms)} arms in {len(measures)} measures are compared with base: about "
        f"{CHANCE * len(against_base):.1f} of {len(against_base)} marks are expected to show a difference by chance "
        f"({100 * CHANCE:.0f} %). Neither the marks nor the leader, the highest of several, are adjusted for that."
    ]


def _absence_note(name: str, missing: Mapping[str, str]) -> str:
    runs_of: dict[str, list[str]] = {}
    for run, reason in missing.items():
        runs_of.setdefault(reason, []).append(run)
    why = "; ".join(f"{reason} ({', '.join(runs)})" for reason, runs in runs_of.items())
    return f"The mean of OOD leaves out {name}, which not all arms and seeds have: {why}."


def _unknown_notes(evaluations: Sequence[Evaluation]) -> list[str]:
    missing: dict[str, list[str]] = {}
    for evaluation in evaluations:
        for name in sorted(name for name, value in evaluation.metrics.items() if value is None):
            missing.setdefault(name, []).append(evaluation.run)
    return [f"Not a number: {name} of {', '.join(runs)}." for name, runs in missing.items()]

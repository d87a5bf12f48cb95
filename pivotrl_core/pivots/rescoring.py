"""New verdicts on stored rollouts, without a new sample: decided on stored components where those still hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pivotrl_core.pivots.profiling import Rollout
from pivotrl_core.types import Action, Candidate, Tool, Verdict
from pivotrl_core.verifiers.graded import ByDomain

Parse = Callable[[Sequence[int], Sequence[Tool]], Action]


@dataclass(frozen=True, slots=True)
class Rescored:
    """The rollouts with their new verdicts, how many had to be graded again, and how many rewards changed."""

    rollouts: tuple[Rollout, ...]
    graded: int
    changed: int


def rescore(
    candidates: Mapping[str, Candidate], rollouts: Sequence[Rollout], verifier: ByDomain, reuse: bool, parse: Parse
) -> Rescored:
    """Verdicts of `verifier` on `rollouts`, in their order.

    Args:
        candidates: by id; those of all rollouts.
        rollouts: with their stored verdicts.
        verifier: whose verdicts are asked for.
        reuse: whether the stored components are those that this verifier would find.
        parse: the action that sampled ids are; asked only for what is graded again.
    """
    graded = changed = 0
    found: list[Rollout] = []
    for rollout in rollouts:
        candidate = candidates[rollout.candidate_id]
        verdict = _decided(verifier, candidate, rollout) if reuse else None
        if verdict is None:
            verdict = verifier.verify(candidate, parse(rollout.ids, candidate.tools))
            graded += 1
        changed += verdict.reward != rollout.verdict.reward
        found.append(replace(rollout, verdict=verdict))
    return Rescored(tuple(found), graded, changed)


def _decided(verifier: ByDomain, candidate: Candidate, rollout: Rollout) -> Verdict | None:
    """The verdict on stored components; None where they lack what it needs."""
    try:
        return verifier.of(candidate.domain).score(rollout.verdict.components)
    except KeyError:
        return None

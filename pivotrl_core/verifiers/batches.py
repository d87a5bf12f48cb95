"""Verdicts on several actions: one after another, or as many at once as a verifier waits for others to work.

A verifier that asks a judge or a service has `at_once`. Equal actions at one candidate are then judged once, where one
after another they would be found in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pivotrl_core.types import Action, Candidate, Verdict
from pivotrl_core.verifiers.protocol import Verifier


def verify_all(verifier: Verifier, candidate: Candidate, actions: Sequence[Action]) -> list[Verdict]:
    """A verdict for each action at a candidate, in their order. Raises what `verify` raises."""
    at_once: int = getattr(verifier, "at_once", 1)
    if at_once == 1 or len(actions) < 2:
        return [verifier.verify(candidate, action) for action in actions]
    different = list(dict.fromkeys(actions))
    with ThreadPoolExecutor(min(at_once, len(different)), "verdicts") as pool:
        verdicts = dict(zip(different, pool.map(lambda one: verifier.verify(candidate, one), different), strict=True))
    return [verdicts[action] for action in actions]

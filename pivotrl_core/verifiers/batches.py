"""Verdicts on several actions: one after another, or as many at once as a verifier waits for others to work.

A verifier that asks a judge or a service is a `ConcurrentVerifier`. Equal actions at one candidate are then judged
once, where one after another they would be found in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pivotrl_core.types import Action, Candidate, Verdict
from pivotrl_core.verifiers.protocol import ConcurrentVerifier, Verifier


def verify_all(verifier: Verifier, cases: Sequence[tuple[Candidate, Action]]) -> list[Verdict]:
    """A verdict for each action at its candidate, in their order. Raises what `verify` raises."""
    at_once = verifier.at_once if isinstance(verifier, ConcurrentVerifier) else 1
    if at_once == 1 or len(cases) < 2:
        return [verifier.verify(*case) for case in cases]
    keys = [(id(candidate), action) for candidate, action in cases]  # hashing a state would cost more than a look-up
    different = dict(zip(keys, cases, strict=True))
    with ThreadPoolExecutor(min(at_once, len(different)), "verdicts") as pool:
        verdicts = pool.map(lambda case: verifier.verify(*case), different.values())
        found = dict(zip(different, verdicts, strict=True))
    return [found[key] for key in keys]

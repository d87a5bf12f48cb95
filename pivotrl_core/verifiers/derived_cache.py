"""What is derived once from a candidate's expert side and held for all the actions that are compared with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from pivotrl_core.types import Candidate, Message, Tool

Derived = TypeVar("Derived")
MAX_CANDIDATES = 512
"""Candidates whose expert's side is held at a time: what one batch of a profile or of training looks at."""


class DerivedCache(Generic[Derived]):
    """What `derive` makes of the last few candidates. Safe among threads: entries are made whole."""

    def __init__(self, derive: Callable[[Candidate], Derived]) -> None:
        self._derive = derive
        # By identity: hashing a state would cost more than comparing. The key's objects are held, so it stays theirs.
        self._entries: dict[tuple[int, int], tuple[Message, tuple[Tool, ...], Derived]] = {}

    def of(self, candidate: Candidate) -> Derived:
        """What follows from the candidate's expert action and tools; other fields must not matter to `derive`."""
        key = (id(candidate.expert), id(candidate.tools))
        entry = self._entries.get(key)
        if entry is not None:
            return entry[2]
        derived = self._derive(candidate)
        if len(self._entries) >= MAX_CANDIDATES:
            self._entries.clear()
        self._entries[key] = (candidate.expert, candidate.tools, derived)
        return derived

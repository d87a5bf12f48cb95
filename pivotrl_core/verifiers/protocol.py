"""What a verifier is. A malformed action is a verdict with reward 0 and a reason, never an exception."""

from __future__ import annotations

from typing import Protocol

from pivotrl_core.types import Action, Candidate, Verdict


class Verifier(Protocol):
    """Scores actions at a candidate's state. `version` changes whenever a verdict could."""

    name: str
    version: str

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        """Judge `action` against the candidate's expert action. Never raises on any action."""
        ...

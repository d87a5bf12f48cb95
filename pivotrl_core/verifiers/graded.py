"""A verifier made of a grader and a rule for rewards."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Protocol

from pivotrl_core.types import Action, Candidate, Json, Verdict, content_id
from pivotrl_core.verifiers.protocol import Grader
from pivotrl_core.verifiers.rewards import RewardRule, Rewards


class ByDomain(Protocol):
    """A verifier that has a graded one for each domain, so that stored components can be scored again."""

    name: str
    version: str

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        """As any verifier does."""
        ...

    def of(self, domain: str) -> GradedVerifier:
        """The verifier of one domain."""
        ...


class GradedVerifier:
    """Grades, decides and rewards."""

    def __init__(self, grader: Grader, rule: Rewards | None = None) -> None:
        self.grader = grader
        self.rule: Rewards = rule or RewardRule()
        self.name = grader.name
        self.version = f"{grader.version}-{content_id(repr(self.rule))}"

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        started = perf_counter()
        components = self.grader.grade(candidate, action)
        return self.score(components, {"grade": perf_counter() - started})

    def of(self, domain: str) -> GradedVerifier:  # noqa: ARG002 - one for all
        """This one, whatever the domain."""
        return self

    def score(self, components: Mapping[str, Json], timings: Mapping[str, float] | None = None) -> Verdict:
        """The verdict on components that were found now or before."""
        decision = self.grader.decide(components)
        reward = self.rule.reward(decision, components)
        return Verdict(reward, str(decision.reason), components, timings or {}, self.version)

"""Which grader knows the actions of which domain, and which verifier a configuration means: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pivotrl_core.errors import ConfigError
from pivotrl_core.types import Action, Candidate, Verdict, content_id
from pivotrl_core.verifiers.code_grader import CodeGrader, CodeSettings
from pivotrl_core.verifiers.exact import ExactGrader
from pivotrl_core.verifiers.graded import ByDomain, GradedVerifier
from pivotrl_core.verifiers.judged import Judge, with_judge
from pivotrl_core.verifiers.nemo_gym.grader import NemoGymGrader
from pivotrl_core.verifiers.nemo_gym.settings import NemoGymSettings
from pivotrl_core.verifiers.protocol import Grader
from pivotrl_core.verifiers.rewards import RewardRule, Rewards
from pivotrl_core.verifiers.search.grader import SearchGrader
from pivotrl_core.verifiers.settings import FunctionalSettings, SearchSettings, SoftwareSettings, VerifierKind
from pivotrl_core.verifiers.software.grader import SoftwareGrader
from pivotrl_core.verifiers.terminal import TerminalGrader, TerminalSettings
from pivotrl_core.verifiers.tool_call import DomainRules, ToolCallGrader
from pivotrl_core.verifiers.verdict_cache import VerdictCache


@dataclass(frozen=True, slots=True)
class GraderSettings:
    """What the graders of all domains are made from: a field for each domain that has settings."""

    tool: FunctionalSettings = field(default_factory=FunctionalSettings)
    rules: DomainRules | None = None
    """Of a domain with an environment: actions which do the same beyond what schemas can say."""
    judge: Judge | None = None
    """The last resort of graders that leave something open."""
    terminal: TerminalSettings = field(default_factory=TerminalSettings)
    software: SoftwareSettings = field(default_factory=SoftwareSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    code: CodeSettings = field(default_factory=CodeSettings)
    workspaces: Path | None = None
    """The folder that workspaces and indexes of rows lie in; None: commands, edits and queries are not tried."""
    cache: VerdictCache | None = None
    """Of what was executed."""
    nemo_gym: NemoGymSettings = field(default_factory=NemoGymSettings)


DEFAULT_DOMAIN = "tool"
GRADERS: Mapping[str, Callable[[GraderSettings], Grader]] = {
    "tool": lambda settings: ToolCallGrader(settings.tool, settings.rules),
    "terminal": lambda settings: TerminalGrader(settings.terminal, settings.workspaces, settings.cache),
    "software": lambda settings: SoftwareGrader(settings.software, settings.workspaces, settings.cache),
    "search": lambda settings: SearchGrader(settings.search, settings.workspaces),
    "code": lambda settings: CodeGrader(settings.code, settings.cache),
}
"""By the candidate's domain; one that is not here is graded as `DEFAULT_DOMAIN`."""


class FunctionalVerifier:
    """Every action by its domain's grader, all under one rule of rewards."""

    name = "functional"

    def __init__(self, settings: GraderSettings, rule: Rewards) -> None:
        graders = {domain: with_judge(make(settings), settings.judge) for domain, make in GRADERS.items()}
        self._verifiers = {domain: GradedVerifier(grader, rule) for domain, grader in graders.items()}
        self.at_once = settings.judge.at_once if settings.judge else 1
        self.version = content_id({domain: verifier.version for domain, verifier in self._verifiers.items()})

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        return self.of(candidate.domain).verify(candidate, action)

    def of(self, domain: str) -> GradedVerifier:
        """The verifier of one domain."""
        return self._verifiers.get(domain) or self._verifiers[DEFAULT_DOMAIN]


def get_verifier(kind: str, settings: GraderSettings | None = None, rule: Rewards | None = None) -> ByDomain:
    """The verifier of a kind.

    Args:
        kind: `functional`, `exact` or `nemo-gym`.
        settings: of the graders.
        rule: how decisions are rewarded; not those of `nemo-gym`, whose rewards are its own.

    Raises:
        ConfigError: no such kind.
    """
    if kind == VerifierKind.FUNCTIONAL:
        return FunctionalVerifier(settings or GraderSettings(), rule or RewardRule())
    if kind == VerifierKind.EXACT:
        return GradedVerifier(ExactGrader(), rule)
    if kind == VerifierKind.NEMO_GYM:
        grader = NemoGymGrader((settings or GraderSettings()).nemo_gym)
        return GradedVerifier(grader, RewardRule(partial=True))
    raise ConfigError(f"verifier.kind: no verifier is named {kind!r}; known: {', '.join(VerifierKind)}")

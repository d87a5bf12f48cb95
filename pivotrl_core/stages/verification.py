"""Which verifier a configuration asks for: with the domain's rules where the data come from an embedded domain."""

from __future__ import annotations

from pivotrl_core.config.inputs import EmbeddedSource
from pivotrl_core.config.tree import Config
from pivotrl_core.config.verification import VerifierConfig
from pivotrl_core.verifiers.nemo_gym.settings import read_settings
from pivotrl_core.verifiers.protocol import Verifier
from pivotrl_core.verifiers.registry import GraderSettings, get_verifier
from pivotrl_core.verifiers.rewards import RewardRule
from pivotrl_core.verifiers.settings import FunctionalSettings


def configured_verifier(config: Config, kind: str | None = None) -> Verifier:
    """The verifier of `verifier.kind`, or of `kind` where an arm asks for its own."""
    rules = None
    if isinstance(config.source, EmbeddedSource):
        from pivotrl_core.environments.registry import get_domain

        rules = get_domain(config.source.domain)
    nemo_gym = read_settings(config.verifier.nemo_gym)
    settings = GraderSettings(functional_settings(config.verifier), rules, nemo_gym=nemo_gym)
    return get_verifier(kind or config.verifier.kind, settings, reward_rule(config.verifier))


def functional_settings(section: VerifierConfig) -> FunctionalSettings:
    """Settings of the grader of tool-use turns."""
    comparators = {tool: {path: str(one) for path, one in paths.items()} for tool, paths in section.comparators.items()}
    return FunctionalSettings(section.text_threshold, section.message_threshold, section.call_credit, comparators)


def reward_rule(section: VerifierConfig) -> RewardRule:
    """What decisions earn."""
    return RewardRule(**section.reward.model_dump())

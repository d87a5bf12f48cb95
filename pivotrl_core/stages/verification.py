"""Which verifier a configuration asks for: with the domain's rules where the data come from an embedded domain."""

from __future__ import annotations

from typing import Any

from pivotrl_core.config.inputs import EmbeddedSource
from pivotrl_core.config.tree import Config
from pivotrl_core.config.verification import SearchConfig, SoftwareConfig, VerifierConfig
from pivotrl_core.pivots.profiling import reading_code
from pivotrl_core.types import content_id
from pivotrl_core.verifiers.graded import ByDomain
from pivotrl_core.verifiers.nemo_gym.settings import read_settings
from pivotrl_core.verifiers.registry import GraderSettings, get_verifier
from pivotrl_core.verifiers.rewards import RewardRule
from pivotrl_core.verifiers.settings import FunctionalSettings, SearchSettings, SoftwareSettings

DECIDED = ("text_threshold", "call_credit", "reward")
"""Settings of `verifier` that are about decisions on components alone."""


def configured_verifier(config: Config, kind: str | None = None) -> ByDomain:
    """The verifier of `verifier.kind`, or of `kind` where an arm asks for its own."""
    rules = None
    if isinstance(config.source, EmbeddedSource):
        from pivotrl_core.environments.registry import get_domain

        rules = get_domain(config.source.domain)
    nemo_gym = read_settings(config.verifier.nemo_gym)
    settings = GraderSettings(
        functional_settings(config.verifier),
        rules,
        software=SoftwareSettings(**config.verifier.software.model_dump()),
        search=SearchSettings(**config.verifier.search.model_dump()),
        nemo_gym=nemo_gym,
    )
    return get_verifier(kind or config.verifier.kind, settings, reward_rule(config.verifier))


def grading_id(config: Config) -> str:
    """Identifies what components say, whatever is then decided on them: thresholds and rewards leave it as it is."""
    decided: dict[str, Any] = {
        key: field.default for key, field in VerifierConfig.model_fields.items() if key in DECIDED
    }
    compared = config.verifier.message_threshold is not None  # a similarity that nobody asks for is not computed
    neutral = config.verifier.model_copy(
        update={
            **decided,
            "message_threshold": 1.0 if compared else None,
            "software": SoftwareConfig(test_seconds=config.verifier.software.test_seconds),
            "search": SearchConfig(index=config.verifier.search.index, results=config.verifier.search.results),
        }
    )
    verifier = configured_verifier(config.model_copy(update={"verifier": neutral}))
    return content_id([verifier.name, verifier.version, reading_code()])


def functional_settings(section: VerifierConfig) -> FunctionalSettings:
    """Settings of the grader of tool-use turns."""
    comparators = {tool: {path: str(one) for path, one in paths.items()} for tool, paths in section.comparators.items()}
    return FunctionalSettings(section.text_threshold, section.message_threshold, section.call_credit, comparators)


def reward_rule(section: VerifierConfig) -> RewardRule:
    """What decisions earn."""
    return RewardRule(**section.reward.model_dump())

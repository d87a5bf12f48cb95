"""Which verifier a configuration asks for: with the domain's rules where the source names an environment.

With `verifier.service` verdicts come from another machine, which must have the verifier that this one would have.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from pivotrl_core.config.judge import JudgeConfig, ServerJudgeConfig
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.config.tree import Config
from pivotrl_core.config.verification import SearchConfig, SoftwareConfig, VerifierConfig
from pivotrl_core.pivots.profiling import reading_code
from pivotrl_core.stages.context import Places
from pivotrl_core.types import content_id
from pivotrl_core.verifiers.graded import ByDomain
from pivotrl_core.verifiers.judged import Judge
from pivotrl_core.verifiers.nemo_gym.settings import read_settings
from pivotrl_core.verifiers.protocol import Verifier
from pivotrl_core.verifiers.registry import GraderSettings, get_verifier
from pivotrl_core.verifiers.rewards import RewardRule
from pivotrl_core.verifiers.row_fields import Grounds
from pivotrl_core.verifiers.settings import FunctionalSettings, SearchSettings, SoftwareSettings
from pivotrl_core.verifiers.terminal import TerminalSettings
from pivotrl_core.verifiers.tool_call import DomainRules
from pivotrl_core.verifiers.verdict_cache import VerdictCache

PAID_FOR = "verdicts.sqlite"
DECIDED = ("call_credit", "reward")
"""Settings of `verifier` that are about decisions on components alone."""
THRESHOLDS = ("text_threshold",)
"""Such too, where no judge is: one is asked about what they refuse."""


def configured_verifier(config: Config, places: Places, kind: str | None = None) -> Verifier:
    """The verifier of `verifier.kind`, or of `kind` where an arm asks for its own.

    Raises:
        ConfigError: the judge cannot be asked as the configuration says, or the service has another verifier.
        EngineError, TemporaryError: the service cannot be reached.
    """
    verifier = verifier_here(config, places, kind)
    service = config.verifier.service
    if service is None:
        return verifier
    from pivotrl_core.service.client import ServiceVerifier

    token = os.environ.get(service.token_variable, "")
    return ServiceVerifier(service, kind or config.verifier.kind, verifier, Grounds(places.workspaces), token)


def verifier_here(config: Config, places: Places, kind: str | None = None) -> ByDomain:
    """The same in this process, whatever `verifier.service` says."""
    section = config.verifier
    rules = None
    if config.source.environment:
        from pivotrl_core.environments.registry import get_domain

        domain = get_domain(config.source.environment)
        rules = domain if isinstance(domain, DomainRules) else None
    cache = VerdictCache(places.store / PAID_FOR)
    judge = None if section.judge is None else make_judge(section.judge, config.compute, places, cache)
    settings = GraderSettings(
        tool=functional_settings(section), rules=rules, judge=judge, nemo_gym=read_settings(section.nemo_gym),
        software=SoftwareSettings(**section.software.model_dump()),
        search=search_settings(section.search, places), terminal=TerminalSettings(**section.terminal.model_dump()),
        workspaces=places.workspaces, cache=cache,
    )  # fmt: skip
    return get_verifier(kind or section.kind, settings, reward_rule(section))


def grading_id(config: Config, places: Places) -> str:
    """Identifies what components say, whatever is then decided on them: thresholds and rewards leave it as it is."""
    section = config.verifier
    decided = DECIDED if section.judge else (*DECIDED, *THRESHOLDS)
    defaults: dict[str, Any] = {
        key: field.default for key, field in VerifierConfig.model_fields.items() if key in decided
    }
    if not section.judge:  # a similarity that nobody asks for is not computed
        defaults |= {
            "message_threshold": None if section.message_threshold is None else 1.0,
            "software": SoftwareConfig(test_seconds=section.software.test_seconds),
            "search": SearchConfig(index=section.search.index, results=section.search.results),
        }
    neutral = section.model_copy(update=defaults)
    verifier = verifier_here(config.model_copy(update={"verifier": neutral}), places)
    return content_id([verifier.name, verifier.version, reading_code()])


def functional_settings(section: VerifierConfig) -> FunctionalSettings:
    """Settings of the grader of tool-use turns."""
    comparators = {tool: {path: str(one) for path, one in paths.items()} for tool, paths in section.comparators.items()}
    return FunctionalSettings(
        text_threshold=section.text_threshold,
        message_threshold=section.message_threshold,
        call_credit=section.call_credit,
        comparators=comparators,
    )


def search_settings(section: SearchConfig, places: Places) -> SearchSettings:
    """Settings of the grader of browsing turns; a relative index lies in the checkout, wherever the stage works."""
    index = str(places.checkout / Path(section.index).expanduser()) if section.index else None
    return replace(SearchSettings(**section.model_dump()), index=index)


def reward_rule(section: VerifierConfig) -> RewardRule:
    """What decisions earn."""
    return RewardRule(**section.reward.model_dump())


def make_judge(section: JudgeConfig, compute: ComputeConfig, places: Places, kept: VerdictCache) -> Judge:
    """The judge of a configuration, whose answers are kept.

    Raises:
        ConfigError: a template, an endpoint or the model is not there.
    """
    from pivotrl_core.engines.judge_models import EmbeddedModel, server_model
    from pivotrl_core.engines.protocol import SamplingConfig
    from pivotrl_core.verifiers.judge.language_model import JudgeSettings, LabelRule, LanguageModelJudge
    from pivotrl_core.verifiers.judge.models import ChatModel
    from pivotrl_core.verifiers.judge.prompts import Rubrics

    sampling = SamplingConfig(section.temperature, section.max_tokens)
    model: ChatModel
    if isinstance(section, ServerJudgeConfig):
        model = server_model(section, sampling)
    else:
        model = EmbeddedModel(places.checkout / Path(section.model).expanduser(), compute, sampling)
    rubrics = Rubrics(places.checkout / Path(section.templates).expanduser() if section.templates else None)
    settings = JudgeSettings(
        swap=section.swap,
        labels=LabelRule(section.labels),
        state_characters=section.state_characters,
        action_characters=section.action_characters,
    )
    return LanguageModelJudge(model, rubrics, settings, kept)

"""Which selection rule a configuration asks for, and which rules a profile has to decide."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from pivotrl_core.config import arms
from pivotrl_core.config.arms import PivotRuleConfig, RandomRuleConfig, SelectConfig
from pivotrl_core.config.stages import ProfileConfig
from pivotrl_core.errors import ConfigError
from pivotrl_core.pivots import selection
from pivotrl_core.pivots.curtailment import Curtailment
from pivotrl_core.pivots.staging import Staging


def selection_rule(settings: SelectConfig) -> selection.SelectionRule:
    """The rule that an arm's settings describe. Equal settings have equal keys, in whatever order."""
    match settings:
        case arms.PivotRuleConfig():
            return _pivots(settings)
        case arms.SigmaRuleConfig():
            return selection.SigmaThreshold(settings.eta)
        case arms.AdaptiveEtaRuleConfig():
            return selection.AdaptiveEta(settings.eta, settings.low_share, settings.high_share)
        case arms.BootstrapRuleConfig():
            return selection.Bootstrap(settings.lambda_diff, settings.confidence)
        case arms.RandomRuleConfig():
            return selection.RandomTurns(_pivots(settings), settings.seed)
        case arms.AllRuleConfig():
            return selection.AllTurns()


def _pivots(settings: PivotRuleConfig | RandomRuleConfig) -> selection.Pivots:
    return selection.Pivots(settings.lambda_diff, settings.lambda_by_domain, settings.inclusive, settings.keep_failed)


def check_domains(settings: SelectConfig, domains: Iterable[str], key: str) -> None:
    """Raise ConfigError where `lambda_by_domain` names what is no domain of the candidates: it would do nothing."""
    known = sorted(set(domains))
    for name in getattr(settings, "lambda_by_domain", {}):
        if name not in known:
            raise ConfigError(
                f"{key}.lambda_by_domain: no candidate has the domain {name!r}; there are: {', '.join(known)}"
            )


def curtailment(settings: ProfileConfig) -> Curtailment | Staging | None:
    """When a candidate has samples enough; None where each gets all K."""
    if not settings.is_shortened:
        return None
    complete = [_count_rule(rule) for rule in settings.complete_for]
    rules = [*(_count_rule(rule) for rule in settings.decides_for), *complete]
    named = {selection.rule_key(rule): selection.keeps(rule) for rule in rules}
    if settings.staged is not None:
        return Staging(named, settings.samples, settings.staged.waves, settings.staged.error)
    return Curtailment(named, settings.samples, frozenset(map(selection.rule_key, complete)))


def _count_rule(settings: SelectConfig) -> selection.CountRule:
    rule = selection_rule(settings)
    if isinstance(rule, selection.RandomTurns):  # its size is that of the pool that this rule keeps
        rule = rule.like
    if isinstance(rule, selection.AdaptiveEta):
        raise ConfigError("profile.decides_for: adaptive-eta looks at all candidates together")
    return cast("selection.CountRule", rule)

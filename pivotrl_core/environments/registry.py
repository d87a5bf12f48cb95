"""Domains by name. A domain is imported when it is first asked for, so that one may need packages another does not."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from pivotrl_core.environments.protocol import Domain, ExpertDomain
from pivotrl_core.errors import ConfigError

DOMAINS = {"helpdesk": "pivotrl_core.environments.helpdesk.domain:HelpdeskDomain"}


def get_domain(name: str) -> Domain:
    """A new domain object. Raises ConfigError for a name that is not registered."""
    if name not in DOMAINS:
        raise ConfigError(f"no domain is named {name!r}; choose one of: {', '.join(sorted(DOMAINS))}")
    module, _, attribute = DOMAINS[name].partition(":")
    return cast(Domain, getattr(import_module(module), attribute)())


def get_expert_domain(name: str) -> ExpertDomain:
    """The same, with a scripted expert. Raises ConfigError for one that has none."""
    domain = get_domain(name)
    if not hasattr(domain, "expert_trajectory"):
        raise ConfigError(
            f"source.domain: {name!r} has no scripted expert (expert_trajectory) to make trajectories with; give "
            "recorded ones (source.kind folder, s3 or hub) and name it there as source.environment"
        )
    return cast(ExpertDomain, domain)

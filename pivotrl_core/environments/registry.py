"""Domains by name. A domain is imported when it is first asked for, so that one may need packages another does not."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from pivotrl_core.environments.protocol import ExpertDomain
from pivotrl_core.errors import ConfigError

DOMAINS = {"helpdesk": "pivotrl_core.environments.helpdesk.domain:HelpdeskDomain"}


def get_domain(name: str) -> ExpertDomain:
    """A new domain object. Raises ConfigError for a name that is not registered."""
    if name not in DOMAINS:
        raise ConfigError(f"no domain is named {name!r}; choose one of: {', '.join(sorted(DOMAINS))}")
    module, _, attribute = DOMAINS[name].partition(":")
    return cast(ExpertDomain, getattr(import_module(module), attribute)())

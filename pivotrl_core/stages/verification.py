"""Which verifier a configuration asks for: with the domain's rules where the data come from an embedded domain."""

from __future__ import annotations

from pivotrl_core.config.inputs import EmbeddedSource
from pivotrl_core.config.tree import Config
from pivotrl_core.verifiers.protocol import Verifier
from pivotrl_core.verifiers.registry import get_verifier
from pivotrl_core.verifiers.settings import FunctionalSettings


def configured_verifier(config: Config, kind: str | None = None) -> Verifier:
    """The verifier of `verifier.kind`, or of `kind` where an arm asks for its own."""
    settings = FunctionalSettings(config.verifier.text_threshold, config.verifier.message_threshold)
    domain = None
    if isinstance(config.source, EmbeddedSource):
        from pivotrl_core.environments.registry import get_domain

        domain = get_domain(config.source.domain)
    return get_verifier(kind or config.verifier.kind, settings, domain)

"""Which verifier scores the actions of tool-use turns: one line each."""

from __future__ import annotations

from pivotrl_core.errors import ConfigError
from pivotrl_core.verifiers.exact import ExactVerifier
from pivotrl_core.verifiers.protocol import Verifier
from pivotrl_core.verifiers.settings import FunctionalSettings, VerifierKind
from pivotrl_core.verifiers.tool_call import DomainRules, ToolCallVerifier


def get_verifier(kind: str, settings: FunctionalSettings | None = None, domain: DomainRules | None = None) -> Verifier:
    """The verifier of a kind.

    Args:
        kind: `functional` or `exact`.
        settings: thresholds of the functional verifier.
        domain: that knows actions which do the same beyond what schemas can say (functional only).

    Raises:
        ConfigError: no such kind.
    """
    if kind == VerifierKind.FUNCTIONAL:
        return ToolCallVerifier(settings, domain)
    if kind == VerifierKind.EXACT:
        return ExactVerifier()
    raise ConfigError(f"verifier.kind: no verifier is named {kind!r}; known: {', '.join(VerifierKind)}")

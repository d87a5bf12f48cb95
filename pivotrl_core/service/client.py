"""A verifier that asks the service: same verdicts as in this process, computed elsewhere.

The service must have the verifier that this process would have, which its version says, and the same files where a row
names some; a reply that names another version, other grounds or another request is an error, never a verdict. Transport
errors are tried again, at the next service.
"""

from __future__ import annotations

import weakref
from itertools import count

from pivotrl_core.config.service import ServiceConfig
from pivotrl_core.engines.servers import FIRST_WAIT, RetryPolicy, Servers
from pivotrl_core.errors import ConfigError, EngineError
from pivotrl_core.service.wire import HEALTH_ROUTE, VERDICT_ROUTE, digest, question, read_verdict
from pivotrl_core.types import Action, Candidate, Verdict
from pivotrl_core.verifiers.protocol import Verifier
from pivotrl_core.verifiers.row_fields import Grounds


class ServiceVerifier:
    """Implements `Verifier`. Threads may share it; requests go to the services in turn.

    Args:
        settings: where they are, and how they are asked.
        kind: of verifier.
        here: the verifier that this process would have.
        grounds: with the folder of workspaces that it would execute in.
        token: what the services ask for; empty: nothing.
        first_wait: seconds before a failed request is tried again.

    Raises:
        ConfigError: a service has another verifier, or refuses the token.
        EngineError, TemporaryError: there is no such service, or it cannot be reached.
    """

    def __init__(
        self,
        settings: ServiceConfig,
        kind: str,
        here: Verifier,
        grounds: Grounds,
        token: str = "",
        first_wait: float = FIRST_WAIT,
    ) -> None:
        self.name, self.version, self.kind, self.grounds = here.name, here.version, kind, grounds
        retry_policy = RetryPolicy(seconds=settings.request_seconds, retries=settings.retries, first_wait=first_wait)
        self.servers = Servers(
            settings.endpoints, retry_policy, settings.connections, token, settings.token_variable,
            section="verifier.service",
        )  # fmt: skip
        self.at_once = settings.connections
        self._turn = count()
        weakref.finalize(self, self.servers.close)
        for home, address in enumerate(settings.endpoints):
            self._check(self.servers.get(HEALTH_ROUTE, home), address)

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        """The service's verdict. Raises what `post` raises, and EngineError for a reply to something else."""
        body = question(self.kind, candidate, action)
        reply = self.servers.post(VERDICT_ROUTE, body, next(self._turn) % len(self.servers.endpoints))
        try:
            verdict, version, asked = read_verdict(reply["verdict"]), reply["version"], reply["request"]
            ground = reply["ground"]
        except (KeyError, TypeError, ValueError) as error:
            raise EngineError(f"verifier.service: the reply is no verdict ({type(error).__name__}: {error})") from error
        if asked != digest(body):
            raise EngineError("verifier.service: a reply answers another request; look for what stands between")
        if version != self.version:
            raise ConfigError(f"verifier.service: it has another verifier by now ({version}); {_REMEDY}")
        if ground != self.grounds.of(candidate):
            raise ConfigError(
                "verifier.service: a workspace or an index of this row holds other files there; pull there, and start "
                "the service again"
            )
        return verdict

    def _check(self, health: object, address: str) -> None:
        versions = health.get("verifiers") if isinstance(health, dict) else None
        if not isinstance(versions, dict):
            raise EngineError(f"{address}{HEALTH_ROUTE}: no service of verdicts answers here")
        if versions.get(self.kind) != self.version:
            raise ConfigError(f"verifier.service: {address} has another verifier; {_REMEDY}")


_REMEDY = "start `pivotrl serve-verifier` from this commit with this parameter file"

"""Requests to servers that all serve the same: a failure that may pass is tried again, at the next server.

What may pass is a lost connection, a time-out, an answer 429 or 5xx; waits grow from half a second to half a minute, or
are what the server asks for (Retry-After). Any other 4xx is final: the same request would be refused again.
The key travels in a header and stands in no message.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from pivotrl_core.errors import ConfigError, EngineError, TemporaryError

FIRST_WAIT = 0.5  # seconds; doubles with each try
LONGEST_WAIT = 30.0
CONNECT_SECONDS = 10.0
SHOWN = 300  # characters of an answer that a message quotes


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long a request may take, in seconds, how often it is tried again, and the first wait before that."""

    seconds: float = 600.0
    retries: int = 5
    first_wait: float = FIRST_WAIT


@dataclass(slots=True)
class Servers:
    """An HTTP client for some endpoints (addresses up to and with /v1). Threads may share it.

    Attributes:
        connections: that are open at once.
        key: what they ask for, and `key_name`, what messages call it.
        watch: asked before a failed request is tried again; raises where there is no use in it.
        local: the servers are on this machine, so no proxy of the environment stands between.
        section: of the configuration that names them, for messages.
    """

    endpoints: Sequence[str]
    retry_policy: RetryPolicy
    connections: int
    key: str = field(default="", repr=False)
    key_name: str = ""
    watch: Callable[[], None] | None = None
    local: bool = False
    section: str = "engine"
    _client: httpx.Client = field(init=False, repr=False)
    _closed: threading.Event = field(init=False, repr=False, default_factory=threading.Event)

    def __post_init__(self) -> None:
        if not (self.key.isascii() and self.key.isprintable()):
            raise ConfigError(f"{self.key_name}: the key in it has characters that no header can carry; set it anew")
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {self.key}"} if self.key else {},
            timeout=httpx.Timeout(self.retry_policy.seconds, connect=min(CONNECT_SECONDS, self.retry_policy.seconds)),
            limits=httpx.Limits(max_connections=self.connections, max_keepalive_connections=self.connections),
            trust_env=not self.local,
        )

    def get(self, path: str, home: int = 0) -> Any:
        """The JSON at a path behind the endpoint with this index; see `post`."""
        return _json(self._ask("GET", path, None, home))

    def post(self, path: str, body: Mapping[str, Any] | bytes, home: int = 0) -> Any:
        """The answer to a JSON body (or its bytes), from the endpoint with this index where that is well.

        Raises:
            ConfigError: the key, the model or the route is not known there.
            EngineError: the request is refused for another reason, or what answers speaks another protocol.
            TemporaryError: no try got through.
        """
        return _json(self._ask("POST", path, body, home))

    def tell(self, path: str, body: Mapping[str, Any]) -> None:
        """Post what has no answer but that it was done; see `post`."""
        self._ask("POST", path, body, 0)

    def stop(self) -> None:
        """From here on no request is tried again."""
        self._closed.set()

    def close(self) -> None:
        """End: open requests fail, and none is tried again."""
        self.stop()
        self._client.close()

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | bytes | None, home: int) -> httpx.Response:
        # ASCII: a text may hold half of a surrogate pair, which UTF-8 cannot carry.
        content = json.dumps(dict(body), allow_nan=False).encode() if isinstance(body, Mapping) else body
        headers = {} if content is None else {"Content-Type": "application/json"}
        failure, address = "", ""
        for attempt in range(self.retry_policy.retries + 1):
            address = self.endpoints[(home + attempt) % len(self.endpoints)] + path
            asked = None
            try:
                response = self._client.request(method, address, content=content, headers=headers)
            except (httpx.TransportError, RuntimeError) as error:  # RuntimeError: the client was closed meanwhile
                failure = f"{type(error).__name__} {error}".strip()
            else:
                if response.is_success:
                    return response
                if response.status_code != 429 and response.status_code < 500:
                    raise self._refused(response, address)
                failure, asked = f"answered {response.status_code}", response.headers.get("retry-after")
            if self._closed.is_set():
                raise TemporaryError(f"{address}: given up, because what asked was ended")
            if self.watch is not None:
                self.watch()
            if attempt < self.retry_policy.retries:
                self._closed.wait(self._wait(attempt, asked))
        raise TemporaryError(
            f"{address}: {failure}, at the last of {self.retry_policy.retries + 1} tries; look at the server, or raise "
            f"{self.section}.retries or {self.section}.request_seconds"
        )

    def _wait(self, attempt: int, asked: str | None) -> float:
        if asked is not None and asked.isdecimal():
            return min(float(asked), LONGEST_WAIT)
        return float(min(self.retry_policy.first_wait * 2.0**attempt, LONGEST_WAIT))

    def _refused(self, response: httpx.Response, address: str) -> ConfigError | EngineError:
        said = " ".join(response.text.split())[:SHOWN]
        said = said.replace(self.key, "***") if self.key else said
        status = response.status_code
        if status in (401, 403):
            state = "refuses the key in" if self.key else "asks for a key; put one into"
            return ConfigError(f"{address}: {state} the variable {self.key_name} ({status})")
        if status == 404:
            return ConfigError(
                f"{address}: not found ({said}); check {self.section}.endpoints, and {self.section}.model if it has one"
            )
        return EngineError(f"{address}: refused the request ({status}): {said}")


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise EngineError(f"{response.url}: the answer is no JSON; is this the right server?") from error

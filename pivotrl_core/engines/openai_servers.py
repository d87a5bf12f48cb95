"""Servers that are there already: which they are, whether they serve what is asked, and what their answers carry."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pivotrl_core.config.engine import OpenAIEngineConfig, check_endpoint
from pivotrl_core.engines import completions, openai_engine, servers
from pivotrl_core.engines.completions import Completions, TextReading
from pivotrl_core.engines.openai_engine import OpenAIEngine
from pivotrl_core.engines.servers import FIRST_WAIT, RetryPolicy, Servers
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import code_digest
from pivotrl_core.types import content_id

ENDPOINTS_VARIABLE = "PIVOTRL_ENDPOINTS"
CODE = tuple(Path(str(one.__file__)) for one in (completions, openai_engine, servers))


@contextmanager
def openai_engine_of(
    settings: OpenAIEngineConfig,
    stop_id: int,
    context_tokens: int,
    texts: TextReading | None = None,
    first_wait: float = FIRST_WAIT,
) -> Iterator[OpenAIEngine]:
    """An engine on servers, for the time of the block.

    Args:
        settings: which servers, and how they are asked.
        stop_id: the id that ends a turn.
        context_tokens: what the model was made for; a server may have room for less.
        texts: how answers are read that carry no token ids; None: such servers are refused.
        first_wait: seconds before a failed request is tried again.

    Raises:
        ConfigError: no endpoint is named, the model is not served there, the key is wrong, or token ids are missing.
        TemporaryError: a server cannot be reached.
    """
    key = os.environ.get(settings.key_variable, "")
    retry_policy = RetryPolicy(seconds=settings.request_seconds, retries=settings.retries, first_wait=first_wait)
    endpoints = named_endpoints(settings.endpoints, ENDPOINTS_VARIABLE, "engine")
    asked = Servers(endpoints, retry_policy, settings.concurrency, key, settings.key_variable)
    try:
        room = min([context_tokens, *(_room(asked, home, settings.model) for home in range(len(asked.endpoints)))])
        exact = Completions(asked, stop_id)
        lacking = [e for home, e in enumerate(asked.endpoints) if not exact.gives_ids(settings.model, (stop_id,), home)]
        if lacking and texts is None:
            raise ConfigError(
                f"engine: {lacking[0]} returns no token ids with log-probabilities (return_token_ids), which profiling "
                "and training need; take a current vLLM or SGLang, or use it for engine.stages: [evaluate] alone"
            )
        reading = Completions(asked, stop_id, texts=texts) if lacking else exact
        version = content_id([code_digest(*CODE), settings.model, "texts" if lacking else "ids"])
        engine = OpenAIEngine(reading, settings.model, room, version, settings.concurrency)
    except BaseException:
        asked.close()
        raise
    try:
        yield engine
    finally:
        engine.close()


def named_endpoints(given: tuple[str, ...], variable: str, section: str) -> tuple[str, ...]:
    """Endpoints of a section's settings, or the variable's. Raises ConfigError where neither has one."""
    if given:
        return given
    named = [one for one in os.environ.get(variable, "").split(",") if one.strip()]
    if not named:
        raise ConfigError(
            f"{section}.endpoints: none is named; give addresses there or in the variable {variable}, such as "
            "http://127.0.0.1:8000/v1"
        )
    try:
        return tuple(map(check_endpoint, named))
    except ValueError as error:
        raise ConfigError(f"{variable}: {error}") from error


def _room(asked: Servers, home: int, model: str) -> int:
    """Longest context of a model at a server (without bound where it does not say); it must be served there."""
    answer = asked.get("/models", home)
    served: list[dict[str, Any]] = answer.get("data", []) if isinstance(answer, dict) else []
    found = next((one for one in served if one.get("id") == model), None)
    if found is None:
        names = ", ".join(str(one.get("id")) for one in served) or "nothing"
        raise ConfigError(f"engine.model: {asked.endpoints[home]} does not serve {model!r}; it serves {names}")
    return int(found.get("max_model_len") or 2**31)

"""Through what a judge is asked: a server's chat completions, or a model in this process. One question, one answer.

A transport error is never an answer: it is tried again, and raised when all tries are used up.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any

from pivotrl_core.config.judge import ServerJudgeConfig
from pivotrl_core.engines.openai_servers import named_endpoints
from pivotrl_core.engines.protocol import FinishReason, Request, SamplingConfig
from pivotrl_core.engines.servers import FIRST_WAIT, RetryPolicy, Servers
from pivotrl_core.errors import ConfigError, EngineError
from pivotrl_core.files import code_digest, tree_digest
from pivotrl_core.types import Json, Message, Role
from pivotrl_core.verifiers.judge.models import Answer
from pivotrl_core.verifiers.judge.prompts import Prompt

ENDPOINTS_VARIABLE = "PIVOTRL_JUDGE_ENDPOINTS"
ROUTE = "/chat/completions"


class ServerModel:
    """Any OpenAI-compatible server.

    Args:
        servers: that all serve the model.
        model: its name there.
        sampling: temperature and length of an answer.
        extra: further fields of each request.
        concurrency: questions in flight at once, of all threads.
    """

    def __init__(
        self, servers: Servers, model: str, sampling: SamplingConfig, extra: Mapping[str, Json], concurrency: int
    ) -> None:
        self.servers = servers
        self.body = {
            "model": model, "temperature": sampling.temperature, "max_tokens": sampling.max_tokens, **extra,
        }  # fmt: skip
        self.version: Json = [code_digest(Path(__file__)), self.body]
        self.at_once = concurrency
        self._room = BoundedSemaphore(concurrency)
        weakref.finalize(self, servers.close)

    def answer(self, prompt: Prompt) -> Answer:
        messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
        with self._room:
            reply = self.servers.post(ROUTE, {**self.body, "messages": messages})
        try:
            choice = reply["choices"][0]
            text, whole = str(choice["message"].get("content") or ""), choice.get("finish_reason") != "length"
            return Answer(text, whole, int((reply.get("usage") or {}).get("total_tokens") or 0))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise EngineError(f"{ROUTE}: the answer is no chat completion ({type(error).__name__}: {error})") from error


def server_model(settings: ServerJudgeConfig, sampling: SamplingConfig, first_wait: float = FIRST_WAIT) -> ServerModel:
    """The model that settings name; its key comes from the environment and goes nowhere but into the request.

    Raises:
        ConfigError: no endpoint is named, or the key is none.
    """
    endpoints = named_endpoints(settings.endpoints, ENDPOINTS_VARIABLE, "verifier.judge")
    retry_policy = RetryPolicy(seconds=settings.request_seconds, retries=settings.retries, first_wait=first_wait)
    key = os.environ.get(settings.key_variable, "")
    servers = Servers(
        endpoints, retry_policy, settings.concurrency, key, settings.key_variable, section="verifier.judge"
    )
    return ServerModel(servers, settings.model, sampling, settings.extra, settings.concurrency)


class EmbeddedModel:
    """A model in this process, loaded when it is first asked. One question at a time.

    Args:
        folder: of the model.
        compute: how it computes (`config.stages.ComputeConfig`).
        sampling: temperature and length of an answer.
    """

    def __init__(self, folder: Path, compute: Any, sampling: SamplingConfig) -> None:
        from pivotrl_core.engines.model import compute_dtype, resolve_folder

        self.folder, self.compute, self.sampling = resolve_folder(folder), compute, sampling
        if not (self.folder / "config.json").is_file():
            raise ConfigError(f"verifier.judge.model: no Hugging Face model in {folder}; name a model folder")
        digest = tree_digest(self.folder)
        self.version: Json = [
            code_digest(Path(__file__)),
            digest,
            compute_dtype(compute),
            sampling.temperature,
            sampling.max_tokens,
        ]
        self.at_once = 1
        self._lock = Lock()
        self._loaded: tuple[Any, Any] | None = None

    def answer(self, prompt: Prompt) -> Answer:
        messages = [Message(Role.SYSTEM, prompt.system), Message(Role.USER, prompt.user)]
        with self._lock:
            engine, renderer = self._loaded = self._loaded or self._load()
            ids = renderer.state_ids(messages, ())
            if len(ids) + self.sampling.max_tokens > engine.context_tokens:
                raise ConfigError(
                    f"verifier.judge.model: its context of {engine.context_tokens} tokens cannot hold a question of "
                    f"{len(ids)} and an answer; lower verifier.judge.state_characters or verifier.judge.max_tokens"
                )
            ((sample,),) = engine.sample([Request("judge", ids, (0,))], self.sampling)
            stopped = sample.finish is FinishReason.STOP
            text = renderer.written(sample.ids)
            return Answer(text, stopped, len(ids) + len(sample.ids))

    def _load(self) -> tuple[Any, Any]:
        from pivotrl_core.engines.chat import ChatRenderer
        from pivotrl_core.engines.model import load_model
        from pivotrl_core.engines.plain_engine import embedded_engine

        policy = load_model(self.folder, self.compute)
        renderer = ChatRenderer(policy.tokenizer, "hermes")
        return embedded_engine(policy.model, [renderer.eos_id]), renderer

"""One sample by OpenAI's completions route: a prompt in token ids, the sampled ids and their log-probabilities back.

`return_token_ids` is an extension that vLLM and SGLang know. A server that does not can only give texts: those are
turned into ids of our tokenizer's, which need not be the ids that were sampled, so they may be scored and never trained
on, and they have no log-probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pivotrl_core.engines.protocol import FinishReason, Sample, SamplingConfig, TokenCount
from pivotrl_core.engines.servers import Servers
from pivotrl_core.errors import ConfigError, EngineError

ROUTE = "/completions"
# Nothing but the temperature shapes the distribution, whatever defaults a model brings.
UNSHAPED = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}


@dataclass(frozen=True, slots=True)
class TextReading:
    """How an answer without ids is read: `end` is the text that ends a turn, `encode` gives the ids of a text."""

    end: str
    encode: Callable[[str], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Completions:
    """How samples are asked for.

    Attributes:
        stop_id: ends a turn, and is part of the sample.
        extra: further fields of each request.
        texts: how answers are read where they are texts; None: answers carry ids.
    """

    servers: Servers
    stop_id: int
    extra: Mapping[str, Any] = field(default_factory=dict)
    texts: TextReading | None = None

    def sample(
        self, model: str, prompt_ids: tuple[int, ...], seed: int, sampling: SamplingConfig, home: int
    ) -> tuple[Sample, TokenCount]:
        """One continuation, and the tokens that it cost.

        Raises:
            ConfigError, EngineError, TemporaryError: as `Servers.post`; also where the answer lacks what it must hold.
        """
        body = {
            "model": model, "prompt": list(prompt_ids), "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature, "seed": seed,
        }  # fmt: skip
        if self.texts is None:
            exact = {"logprobs": 1, "return_token_ids": True, "stop_token_ids": [self.stop_id]}
            answer = self.servers.post(ROUTE, body | UNSHAPED | exact | dict(self.extra), home)
        else:
            answer = self.servers.post(ROUTE, body | {"top_p": 1.0, "stop": [self.texts.end]}, home)
        try:
            choice = answer["choices"][0]
            sample = self._exact(choice) if self.texts is None else self._read(choice, self.texts)
            return sample, _count(answer.get("usage") or {}, len(prompt_ids), len(sample.ids))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise EngineError(f"{ROUTE}: the answer is no completion ({type(error).__name__}: {error})") from error

    def likeliest(self, model: str, prompt_ids: tuple[int, ...], temperature: float, home: int) -> float:
        """Log-probability, as the server gives it, of the likeliest next token."""
        body = {"model": model, "prompt": list(prompt_ids), "max_tokens": 1, "temperature": temperature, "seed": 0}
        answer = self.servers.post(ROUTE, body | UNSHAPED | {"logprobs": 1}, home)
        try:
            return float(max(answer["choices"][0]["logprobs"]["top_logprobs"][0].values()))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise EngineError(f"{ROUTE}: the answer has no top_logprobs ({type(error).__name__}: {error})") from error

    def gives_ids(self, model: str, prompt_ids: tuple[int, ...], home: int) -> bool:
        """Whether this server's answers carry token ids and log-probabilities."""
        body = {"model": model, "prompt": list(prompt_ids), "max_tokens": 1, "temperature": 0.0, "logprobs": 1}
        try:
            answer = self.servers.post(ROUTE, body | UNSHAPED | {"return_token_ids": True} | dict(self.extra), home)
            choice = answer["choices"][0]
        except (EngineError, KeyError, IndexError, TypeError):  # it refuses fields that it does not know
            return False
        return bool(choice.get("token_ids")) and bool((choice.get("logprobs") or {}).get("token_logprobs"))

    def _exact(self, choice: Mapping[str, Any]) -> Sample:
        ids = choice.get("token_ids")
        logprobs = (choice.get("logprobs") or {}).get("token_logprobs")
        if not ids or not logprobs:
            raise ConfigError(
                "engine: the server returns no token ids and log-probabilities (return_token_ids), which profiling and "
                "training need; take vLLM or SGLang, or leave it to engine.stages: [evaluate]"
            )
        if len(ids) != len(logprobs):
            raise EngineError(f"{ROUTE}: {len(ids)} token ids came with {len(logprobs)} log-probabilities")
        ended = choice["finish_reason"] == "stop"
        reason = choice.get("stop_reason", choice.get("matched_stop"))
        if ended and reason == self.stop_id and ids[-1] != self.stop_id:
            raise EngineError(f"{ROUTE}: the id {self.stop_id} that ended the turn is not among the token ids")
        finish = FinishReason.STOP if ended else FinishReason.LENGTH
        return Sample(tuple(int(i) for i in ids), tuple(float(value) for value in logprobs), finish)

    def _read(self, choice: Mapping[str, Any], texts: TextReading) -> Sample:
        ids = texts.encode(choice["text"])
        if choice["finish_reason"] == "stop":
            return Sample((*ids, self.stop_id), (), FinishReason.STOP)
        return Sample(ids, (), FinishReason.LENGTH)


def _count(usage: Mapping[str, Any], prompt: int, generated: int) -> TokenCount:
    """What was computed; of the prompt, what the server's cache did not hold, where it says so."""
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return TokenCount(int(usage.get("prompt_tokens", prompt)) - int(cached), generated, 1)

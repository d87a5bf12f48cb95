"""What an engine is: token ids in, token ids out, with the log-probability of every sampled token.

Text is never re-tokenised between sampling and training: the ids in `Sample.ids` are the ids that are trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self

from pivotrl_core.errors import ConfigError
from pivotrl_core.lanes import Lanes


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Request:
    """Sample `len(seeds)` continuations of `prompt_ids`, one per seed."""

    id: str
    prompt_ids: tuple[int, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """Temperature 0 is greedy. Log-probabilities are those of the distribution sampled from, after temperature."""

    temperature: float = 1.0
    max_tokens: int = 64


@dataclass(frozen=True, slots=True)
class Sample:
    """One continuation: the ids with the end-of-turn id where it was reached, and each id's log-probability."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: FinishReason


More = Callable[[int, Sequence[Sample]], int]  # of a request, by its place, and its samples so far: how many more


@dataclass(slots=True)
class TokenCount:
    """Tokens that an engine really computed, for the cost account.

    Attributes:
        prefilled: of prompts.
        generated: sampled.
        turns: sampled continuations.
        judge: what a judge read and wrote about them, where verdicts ask one.
    """

    prefilled: int = 0
    generated: int = 0
    turns: int = 0
    judge: int = 0

    def add(self, other: TokenCount) -> None:
        """Add another count to this one."""
        self.prefilled += other.prefilled
        self.generated += other.generated
        self.turns += other.turns
        self.judge += other.judge

    def since(self, before: TokenCount) -> TokenCount:
        """What was added to this count after it was `before`."""
        return TokenCount(
            self.prefilled - before.prefilled, self.generated - before.generated,
            self.turns - before.turns, self.judge - before.judge,
        )  # fmt: skip


class Engine(Protocol):
    """Samples continuations. `count` accumulates what was computed since the engine was made.

    `version` names the code that samples: it changes whenever equal requests to equal weights might give other samples.
    """

    count: TokenCount
    version: str

    def sample(
        self, requests: Sequence[Request], sampling: SamplingConfig, more: More | None = None
    ) -> list[list[Sample]]:
        """One list per request, in order, with one sample per seed, in order.

        With `more`, a request's seeds are taken as it asks for them. It is asked at first, and after each wave that
        leaves some; 0 ends the request. It is called in any thread, once at a time for a request.
        """
        ...


class ChatSession(Protocol):
    """Conversations that grow turn by turn; what was computed for earlier turns is kept, and none waits for another."""

    def say(self, name: int, ids: Sequence[int], sampling: SamplingConfig, seed: int) -> None:
        """Put ids (at least one) behind conversation `name`, new or known, and let its next turn be sampled."""
        ...

    def end(self, name: int) -> None:
        """Conversation `name` is over."""
        ...

    def advance(self) -> list[tuple[int, Sample]]:
        """Names and turns that are finished, at least one; empty where nothing was said that has no turn yet."""
        ...


class ChatEngine(Engine, Protocol):
    """An engine that also plays episodes and is shared by the parts of an evaluation.

    `lanes` says how such work is cut and run; `context_tokens` is the longest prompt with its continuation.
    """

    lanes: Lanes
    context_tokens: int

    def session(self, opening: Sequence[int]) -> ChatSession:
        """A session whose conversations all begin with the ids of `opening`."""
        ...

    def beside(self) -> Self:
        """This engine for one lane, inside this one's `sampling()`: a count of its own, and nothing else."""
        ...

    def sampling(self) -> AbstractContextManager[None]:
        """What holds while this engine samples; may be entered again inside of itself."""
        ...


def check_room(context_tokens: int, prompt_tokens: int, max_tokens: int) -> None:
    """Raise ConfigError where a prompt and its continuation are longer than what the model was made for."""
    if prompt_tokens + max_tokens > context_tokens:
        raise ConfigError(
            f"model: its context of {context_tokens} tokens cannot hold a prompt of {prompt_tokens} and {max_tokens} "
            "more; lower data.max_state_tokens or max_tokens"
        )

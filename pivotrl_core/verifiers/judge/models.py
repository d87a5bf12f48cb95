"""What a judge needs of a language model: an answer to one question (`engines/judge_models.py` has such models)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pivotrl_core.types import Json
from pivotrl_core.verifiers.judge.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Answer:
    """What a judge wrote. `whole`: it came to its end by itself. `tokens`: read and written, 0 where nobody tells."""

    text: str
    whole: bool
    tokens: int = 0


class ChatModel(Protocol):
    """Answers questions. `version` names what decides the answers. Threads may share it, and `at_once` are of use."""

    version: Json
    at_once: int

    def answer(self, prompt: Prompt) -> Answer:
        """The answer to one question.

        Raises:
            ConfigError, EngineError, TemporaryError: there is none. That says nothing about the actions.
        """
        ...

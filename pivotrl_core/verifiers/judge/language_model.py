"""A judge that asks a language model, twice with the sides exchanged, and keeps what was paid for.

A model that prefers what stands first says so when sides change: the actions are the same only if it says so both ways.
Each answer is stored as soon as it is there, so that an error on the way costs no answer a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from pivotrl_core.files import code_digest
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Action, Candidate, Json, content_id
from pivotrl_core.verifiers.judge.labels import TAIL, last_line_label, nemo_gym_label
from pivotrl_core.verifiers.judge.models import ChatModel
from pivotrl_core.verifiers.judge.prompts import Rubrics, action_text, state_text
from pivotrl_core.verifiers.judged import Judgement, Opinion
from pivotrl_core.verifiers.protocol import printable


class LabelRule(StrEnum):
    LAST_LINE = "last-line"
    NEMO_GYM = "nemo-gym"


READ = {LabelRule.LAST_LINE: last_line_label, LabelRule.NEMO_GYM: nemo_gym_label}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """How a judge is asked.

    Attributes:
        swap: ask again with the sides exchanged.
        labels: how an answer is read.
        state_characters: of the state's end that it is shown.
        action_characters: an action that is longer is not judged: what is cut off could be the difference.
    """

    swap: bool = True
    labels: LabelRule = LabelRule.LAST_LINE
    state_characters: int = 4000
    action_characters: int = 8000


class KeptAnswers(Protocol):
    """Where answers are kept (`verdict_cache.py`)."""

    def key(self, candidate: Candidate, action: Action | None, *versions: str) -> bytes: ...
    def get(self, key: bytes) -> Json | None: ...
    def put(self, key: bytes, value: Json) -> None: ...


class LanguageModelJudge:
    """Implements `Judge`."""

    def __init__(
        self, model: ChatModel, rubrics: Rubrics, settings: JudgeSettings, kept: KeptAnswers | None = None
    ) -> None:
        self.model, self.rubrics, self.settings, self.kept = model, rubrics, settings, kept
        self.at_once = model.at_once
        asked = [settings.swap, settings.labels, settings.state_characters, settings.action_characters]
        code = code_digest(Path(__file__).parent)
        self.version = content_id([code, model.version, dict(rubrics.texts), asked])

    def compare(self, candidate: Candidate, action: Action) -> Opinion:
        expected, actual = action_text(candidate.expert), action_text(action)
        if max(len(expected), len(actual)) > self.settings.action_characters:
            return Opinion(Judgement.TOO_LONG)
        state = state_text(candidate, self.settings.state_characters)
        ways = [("", expected, actual), ("swapped", actual, expected)]
        answer, tokens = "", 0
        for way, first, second in ways if self.settings.swap else ways[:1]:
            same, answer, paid = self._ask(candidate, action, way, (state, first, second))
            tokens += paid
            if not same:
                unread, differs = _REFUSALS[way]
                return Opinion(unread if same is None else differs, answer, tokens)
        return Opinion(Judgement.SAME, answer, tokens)

    def _ask(
        self, candidate: Candidate, action: Action, way: str, shown: tuple[str, str, str]
    ) -> tuple[bool | None, str, int]:
        """What the label of an answer says, how the answer ends, and its tokens, also where it was kept."""
        key = self.kept.key(candidate, action, "judge", self.version, way) if self.kept else b""
        found = self.kept.get(key) if self.kept else None
        if found is None:
            answer = self.model.answer(self.rubrics.ask(candidate.domain, *shown))
            said = split_thinking(answer.text)[1]
            same = READ[self.settings.labels](said) if answer.whole else None
            found = [same, printable(said[-TAIL:]), answer.tokens]
            if self.kept:
                self.kept.put(key, found)
        return found[0], found[1], found[2]


_REFUSALS = {
    "": (Judgement.UNREADABLE, Judgement.DIFFERENT),
    "swapped": (Judgement.SWAPPED_UNREADABLE, Judgement.SWAPPED_DIFFERENT),
}

"""The scripted user: tells one detail when asked, moves to the next wish when told that one is done, then ends.

A user who has something left to tell does not take a statement for the end, contests a refusal that the rules do not
ask for, and asks again where a question was not answered; but cannot see whether what is said to be done was done.

Deterministic, needs no language model, and answers any text. What the agent's text does is read off by `intent_of`:
questions win over statements, so that a closing question ("Anything else?") is looked for first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from pivotrl_core.environments.helpdesk.scenario import Detail, Scenario, Topic, UserRequest
from pivotrl_core.environments.helpdesk.wording import EMPTY, INSIST, UNANSWERED, WAIT

MAX_IDLE = 3
MAX_CHARACTERS = 1000

TOPIC_WORDS: dict[Topic, tuple[str, ...]] = {
    Topic.ORDER: ("order number", "order id", "number of", "which order", "what order", "e-mail", "email", "phone"),
    Topic.WHICH: ("which", "order", "one"),
    Topic.ITEMS: ("item", "return", "send back", "which"),
    Topic.ADDRESS: ("address", "street", "where", "city"),
    Topic.DAY: ("date", "day", "when", "time"),
    Topic.QUANTITY: ("many", "quantity", "item", "much"),
}

_CLOSING_QUESTION = re.compile(r"(any|some)thing (else|more)|else (can )?i (can )?(do|help)|more i can")
_REQUEST = re.compile(r"\bplease (give|tell|send|share|provide|check)|\blet me know\b|\bi need (your|the|to know)\b")
_NOT_FOUND = re.compile(
    r"(\bno\b|\bnot\b|cannot|n't|\bunable\b)[^.!?]*\b(find|found|exist|match)|\b(no such|wrong number)\b"
)
_REFUSAL = re.compile(
    r"\b(cannot|can't|can not|couldn't)\b(?! be (undone|reversed|charged))"
    r"|\b(unable|not able|not possible|isn't possible|impossible|not allowed|too late|against)\b"
)
_FIGURE = re.compile(r"(?<!\w)\d")  # not that of an order number
_WAITING = re.compile(r"\b(let me|one moment|moment please|i will|i'll|checking|hold on|looking)\b")
_DONE = re.compile(r"\b(done|cancel+ed|changed|updated|booked|moved|set|arrives|returned|cannot|can't)\b")
_YES_NO = re.compile(r"(^|[.!,] )(do|would|shall|should|is|are|can|may|did)\b[^.!,]*\?")


class Intent(StrEnum):
    """What a message of the agent's asks of the user."""

    EMPTY = "empty"
    ASK = "ask"
    WAIT = "wait"
    CLOSE = "close"


class Ending(StrEnum):
    """How an episode ended. Only `closed` is a good end: by a message after which the user had no wish left."""

    OPEN = ""
    CLOSED = "closed"
    USER_LEFT = "user_left"
    TURN_LIMIT = "turn_limit"


@dataclass(frozen=True, slots=True)
class UserState:
    """Where the user stands: the wish, the details of it already told, and answers in a row that told nothing new."""

    request: int = 0
    told: tuple[int, ...] = ()
    idle: int = 0
    ending: Ending = Ending.OPEN


def intent_of(text: str) -> Intent:
    """Read the agent's message. A plain statement offers to close the wish: it was done, answered or refused."""
    words = _normal(text)
    if not words:
        return Intent.EMPTY
    if _CLOSING_QUESTION.search(words):
        return Intent.CLOSE
    if "?" in words or _REQUEST.search(words):
        return Intent.ASK
    if _WAITING.search(words) and not _DONE.search(words):
        return Intent.WAIT
    return Intent.CLOSE


def understand(text: str, missing: bool) -> Intent:
    """What the agent's message does to a user: one who has something left to tell takes 'not found' for a question."""
    text = text[:MAX_CHARACTERS]
    intent = intent_of(text)
    if intent is Intent.CLOSE and missing and not_found(text):
        return Intent.ASK
    return intent


def not_found(text: str) -> bool:
    """Whether the agent's message says that no such order was found."""
    return _NOT_FOUND.search(_normal(text)) is not None


def refuses(text: str) -> bool:
    """Whether the agent's message says that something cannot be done."""
    return _REFUSAL.search(_normal(text)) is not None


def _normal(text: str) -> str:
    return " ".join(text.lower().replace("\u2019", "'").split())


def respond(scenario: Scenario, state: UserState, text: str) -> tuple[UserState, str]:
    """The user's reply to a message of the agent's, empty where the episode ends. Only its start is read."""
    missing = _missing(scenario, state)
    intent, words = understand(text, bool(missing)), text[:MAX_CHARACTERS].lower()
    if intent is Intent.CLOSE and _accepts(scenario.requests[state.request], bool(missing), words):
        return _next_request(scenario, state)
    if intent in (Intent.ASK, Intent.CLOSE) and missing:
        index = next((i for i in missing if _is_about(_details(scenario, state)[i], words)), missing[0])
        return replace(state, told=(*state.told, index), idle=0), _details(scenario, state)[index].text
    return _idle(scenario, state, intent, words)


def _accepts(request: UserRequest, missing: bool, words: str) -> bool:
    """Whether the user takes a plain statement for the end of this wish."""
    if refuses(words):
        return request.refused
    return not missing and (not request.answers or _FIGURE.search(words) is not None)


def _details(scenario: Scenario, state: UserState) -> tuple[Detail, ...]:
    return scenario.requests[state.request].details


def _missing(scenario: Scenario, state: UserState) -> list[int]:
    return [index for index in range(len(_details(scenario, state))) if index not in state.told]


def _is_about(detail: Detail, words: str) -> bool:
    return any(word in words for word in TOPIC_WORDS[detail.topic])


def _next_request(scenario: Scenario, state: UserState) -> tuple[UserState, str]:
    if state.request + 1 < len(scenario.requests):
        return UserState(state.request + 1), scenario.requests[state.request + 1].opening
    return replace(state, ending=Ending.CLOSED), ""


def _idle(scenario: Scenario, state: UserState, intent: Intent, words: str) -> tuple[UserState, str]:
    if state.idle + 1 >= MAX_IDLE:
        return replace(state, idle=state.idle + 1, ending=Ending.USER_LEFT), ""
    state = replace(state, idle=state.idle + 1)
    if intent is Intent.EMPTY:
        return state, EMPTY
    if intent is Intent.WAIT:
        return state, WAIT
    if intent is Intent.CLOSE:
        return state, INSIST if refuses(words) else UNANSWERED
    if _YES_NO.search(words):
        return state, scenario.agree
    told = [_details(scenario, state)[index] for index in reversed(state.told)]
    return state, next((detail.text for detail in told if _is_about(detail, words)), scenario.idle)

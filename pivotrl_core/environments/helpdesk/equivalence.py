"""Actions that do the same at a state though their schemas or words differ.

Calls: look-ups by keys that the user gave in one breath.

A user who says 'order K2041, under nina42@post.example' has named one order twice, and either key finds it. Keys of
different messages are not taken for the same: the user may have corrected the first.

Messages: what they say to the user. Where the expert asks, a question, of whatever words. A statement may make this
user tell the next detail too, but rewarded for that, 'it is cancelled' is soon said where a call was due. Where the
expert closes, a statement that refuses where the expert refuses, and only there, and states the days and numbers that
the expert states, without guessing: 'on 11 May or 12 May or 13 May' names no day.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pivotrl_core.environments.helpdesk.arguments import TOOLS_BY_NAME, ArgumentError, parse_arguments
from pivotrl_core.environments.helpdesk.spellings import find_days, mentions
from pivotrl_core.environments.helpdesk.user import MAX_CHARACTERS, Intent, not_found, refuses, understand
from pivotrl_core.types import Candidate, Role, ToolCall

MAX_FURTHER = 1
"""So many days (or figures) that nobody has named may stand beside the expert's; with more of them it is a guess."""
_NUMBER = re.compile(r"(?<![\w-])\d+(?![\w-])")


def same_lookup(candidate: Candidate, expected: ToolCall, actual: ToolCall) -> bool:
    """Whether both calls look up what the user named in the last message that holds the expected key. Never raises."""
    if expected.name != "find_order" or actual.name != "find_order":
        return False
    try:
        wanted, given = (parse_arguments(TOOLS_BY_NAME[call.name], call.arguments) for call in (expected, actual))
    except ArgumentError:
        return False
    keys = [str(value) for value in wanted.values()]
    texts = [message.content for message in reversed(candidate.state) if message.role is Role.USER]
    source = next((text for text in texts if all(mentions(text, key) for key in keys)), "")
    return all(mentions(source, str(value)) for value in given.values())


def same_meaning(expected: str, actual: str, shown: str = "") -> bool:
    """Whether both messages ask, or both close with the same result. They may repeat what was `shown`. Never raises."""
    expected, actual = expected[:MAX_CHARACTERS], actual[:MAX_CHARACTERS]  # what the user reads
    wanted = understand(expected, missing=True)
    # 'I cannot find it' makes a user with something left to tell go on telling: it is no end, and it is the expert's
    # question only where the expert says so too.
    given = understand(actual, missing=wanted is not Intent.ASK or not_found(expected))
    if given is not wanted or wanted is not Intent.CLOSE:
        return given is wanted
    if refuses(expected) or refuses(actual):
        return refuses(expected) and refuses(actual)
    return _states_facts_of(expected, actual, shown)


def guesses(text: str, answers: Sequence[str], shown: str) -> bool:
    """Whether a text names more days (or figures) beside an answer that it names than can be meant."""
    groups = zip(_facts(" ; ".join(answers)), _facts(text), _facts(shown), strict=True)
    return any(wanted and len(given - wanted - known) > MAX_FURTHER for wanted, given, known in groups)


def _states_facts_of(expected: str, actual: str, shown: str) -> bool:
    """Whether a message states the days and figures that the expert states, and few others that nobody has named."""
    groups = zip(_facts(expected), _facts(actual), _facts(shown), strict=True)
    return all(
        wanted <= given and (not wanted or len(given - wanted - known) <= MAX_FURTHER)
        for wanted, given, known in groups
    )


def _facts(text: str) -> tuple[set[str], set[str]]:
    """Days (in ISO form), and other numbers, that a message states; an order number is neither."""
    days, rest = find_days(text)
    return days, set(_NUMBER.findall(rest))

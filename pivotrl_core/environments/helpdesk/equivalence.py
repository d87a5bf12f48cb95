"""Actions that do the same at a state though their schemas or words differ.

Calls: look-ups by keys that the user gave in one breath.

A user who says 'order K2041, under nina42@post.example' has named one order twice, and either key finds it. Keys of
different messages are not taken for the same: the user may have corrected the first.

Messages: what they do to the user. A question gets the next detail whatever its words; a plain statement ends the wish,
so it has to refuse where the expert refuses, and only there, and to state the days and numbers that the expert states.
"""

from __future__ import annotations

import re

from pivotrl_core.environments.helpdesk.arguments import TOOLS_BY_NAME, ArgumentError, parse_arguments
from pivotrl_core.environments.helpdesk.spellings import find_days, mentions
from pivotrl_core.environments.helpdesk.user import Intent, refuses, understand
from pivotrl_core.types import Candidate, Role, ToolCall

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


def same_effect(expected: str, actual: str) -> bool:
    """Whether the user takes both messages for the same. Never raises."""
    # Where the expert closes, the user may still have something to tell that 'not found' would be a question for.
    intent = understand(expected, missing=True)
    if understand(actual, missing=True) is not intent:
        return False
    if intent is not Intent.CLOSE:
        return True
    if refuses(expected) or refuses(actual):
        return refuses(expected) and refuses(actual)
    return _facts(expected) <= _facts(actual)


def _facts(text: str) -> set[str]:
    """Days (in ISO form) and other numbers that a message states; an order number is neither."""
    days, rest = find_days(text)
    return {*days, *_NUMBER.findall(rest)}

"""Actions that do the same at a state though their schemas or words differ.

Calls: look-ups by keys that the user gave in one breath.

A user who says 'order K2041, under nina42@post.example' has named one order twice, and either key finds it. Keys of
different messages are not taken for the same: the user may have corrected the first.

Messages: what they do to the user. One who has something left to tell tells it, whatever the words, unless they refuse
what the rules forbid, which is the end. At the end a statement has to refuse where the expert refuses, and only there,
and to state the days and numbers that the expert states.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date

from pivotrl_core.environments.helpdesk.arguments import TOOLS_BY_NAME, ArgumentError, parse_arguments
from pivotrl_core.environments.helpdesk.database import Status
from pivotrl_core.environments.helpdesk.policy import RETURN_DAYS, TODAY
from pivotrl_core.environments.helpdesk.spellings import canonical_date, find_days, mentions
from pivotrl_core.environments.helpdesk.user import MAX_CHARACTERS, Intent, refuses, understand
from pivotrl_core.types import Candidate, Json, Message, Role, ToolCall

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


def same_effect(candidate: Candidate, expected: str, actual: str) -> bool:
    """Whether the user takes both messages for the same at this state. Never raises."""
    expected, actual = expected[:MAX_CHARACTERS], actual[:MAX_CHARACTERS]  # what the user reads
    # Where the expert closes, the user may still have something to tell that 'not found' would be a question for.
    wanted, given = (understand(text, missing=True) for text in (expected, actual))
    if wanted is Intent.ASK:
        return given is Intent.ASK or (given is Intent.CLOSE and not (refuses(actual) and _may_refuse(candidate)))
    if given is not wanted or wanted is not Intent.CLOSE:
        return given is wanted
    if refuses(expected) or refuses(actual):
        return refuses(expected) and refuses(actual)
    return _facts(expected) <= _facts(actual)


def _may_refuse(candidate: Candidate) -> bool:
    """Whether the user might accept a refusal: no single order was found yet, or a rule forbids something about it."""
    found = next((order for message in reversed(candidate.state) if (order := _order(message))), {})
    if found.get("status") == Status.DELIVERED:
        delivered = canonical_date(str(found.get("delivered")))
        return delivered is None or (date.fromisoformat(TODAY) - date.fromisoformat(delivered)).days > RETURN_DAYS
    return found.get("status") != Status.PENDING


def _order(message: Message) -> Mapping[str, Json]:
    """The order that a look-up's result shows, empty where the message is none."""
    if message.role is not Role.TOOL:
        return {}
    try:
        value = json.loads(message.content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) and "status" in value else {}


def _facts(text: str) -> set[str]:
    """Days (in ISO form) and other numbers that a message states; an order number is neither."""
    days, rest = find_days(text)
    return {*days, *_NUMBER.findall(rest)}

"""Calls that do the same at a state though their schemas differ: look-ups by keys that the user gave in one breath.

A user who says 'order K2041, under nina42@post.example' has named one order twice, and either key finds it. Keys of
different messages are not taken for the same: the user may have corrected the first.
"""

from __future__ import annotations

from pivotrl_core.environments.helpdesk.arguments import TOOLS_BY_NAME, ArgumentError, parse_arguments
from pivotrl_core.environments.helpdesk.spellings import mentions
from pivotrl_core.types import Candidate, Role, ToolCall


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

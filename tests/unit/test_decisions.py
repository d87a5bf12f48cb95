"""Turns are told apart by what the expert did and what stands before it; failures are read off results."""

from __future__ import annotations

import pytest

from pivotrl_core.trajectories.decisions import Decision, decision_of, is_failure
from pivotrl_core.types import Message, Role, ToolCall

ASKED = Message(Role.USER, "Where is A1?")
FIND, AGAIN, CANCEL = (ToolCall(name, text) for name, text in (("find", "{}"), ("find", '{"a": 1}'), ("cancel", "{}")))
CALLED = Message(Role.ASSISTANT, "", (FIND,))
FOUND, FAILED = Message(Role.TOOL, '{"status": "shipped"}'), Message(Role.TOOL, "Error: no such order")
SAID = Message(Role.ASSISTANT, "It is on its way.")


@pytest.mark.parametrize(
    ("state", "expert", "kind"),
    [
        ((ASKED,), CALLED, Decision.TOOL),
        ((ASKED, CALLED, FOUND), Message(Role.ASSISTANT, "", (CANCEL,)), Decision.TOOL),
        ((ASKED, CALLED, FOUND), Message(Role.ASSISTANT, "", (AGAIN,)), Decision.ARGUMENT),
        ((ASKED, CALLED, FOUND), Message(Role.ASSISTANT, "", (FIND, CANCEL)), Decision.PARALLEL_CALLS),
        ((ASKED, CALLED, FAILED), Message(Role.ASSISTANT, "", (AGAIN,)), Decision.ERROR_HANDLING),
        ((ASKED, CALLED, FAILED, FOUND), SAID, Decision.ERROR_HANDLING),  # of two results one failed
        ((ASKED, CALLED, FAILED, SAID, ASKED), SAID, Decision.REPLY),  # the failure lies further back
        ((ASKED, CALLED, FOUND), SAID, Decision.ANSWER),
        ((ASKED,), SAID, Decision.REPLY),
        ((), SAID, Decision.REPLY),
    ],
)
def test_the_kind_of_a_turn(state: tuple[Message, ...], expert: Message, kind: Decision) -> None:
    assert decision_of(state, expert) is kind


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ("Error: no such order", True),
        ('{"error": "no such order"}', True),
        ('{"auth_status": "failed", "tier": 1}', True),
        ('{"success": false}', True),
        ("<returncode>1</returncode>\n<output>\n</output>", True),
        ("<returncode>0</returncode>\n<output>\nan error of 0.1\n</output>", False),
        ("x" * 5000 + "\nTraceback (most recent call last)\n  File", True),
        ("[The command completed with exit code 2.]", True),
        ("[The command completed with exit code 0.]", False),
        ("bash: nope: command not found", True),
        ('{"error": null, "status": "delivered"}', False),
        ('{"note": "no error at all"}', False),
        ("Found 3 matches for error.py", False),
        ("", False),
        ("{" * 5000, False),
    ],
)
def test_whether_a_result_tells_of_a_failure(result: str, failed: bool) -> None:
    assert is_failure(result) is failed

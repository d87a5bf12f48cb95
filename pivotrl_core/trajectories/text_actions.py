"""Actions of agents that write a command into their text: they become calls of the tool `bash`, outputs its results.

So that a verifier can tell the command from the discussion around it. A turn from which no single command can be read
stays the message that it is, and what the agent's program answered stays a user's message.
"""

from __future__ import annotations

import json
import re

from pivotrl_core.types import Message, Role, ToolCall

SHELL = "bash"
_FENCE = re.compile(
    r"^```(?:bash|sh|shell|mswea_bash_command)?[ \t]*\r?\n(.*?)\r?\n?^```[ \t]*$", re.DOTALL | re.MULTILINE
)


def shell_call(command: str, call_id: str) -> ToolCall:
    """A call of the shell."""
    return ToolCall(SHELL, json.dumps({"command": command}, ensure_ascii=False), call_id)


def fenced_commands(text: str) -> list[str]:
    """The commands of all fenced code blocks of a text."""
    return [match[1] for match in _FENCE.finditer(text)]


def with_fenced_command(message: Message, call_id: str) -> Message:
    """An assistant's message as a shell call, where it has exactly one fenced block; else as it is."""
    if message.role is not Role.ASSISTANT or message.tool_calls or len(fenced_commands(message.content)) != 1:
        return message
    command = fenced_commands(message.content)[0]
    discussion = _FENCE.sub("", message.content, count=1).strip()
    return Message(Role.ASSISTANT, discussion, (shell_call(command, call_id),), thinking=message.thinking)


def as_result(message: Message, previous: Message | None) -> Message:
    """A user's message right behind a shell call is its output."""
    called = previous is not None and previous.role is Role.ASSISTANT and previous.tool_calls
    if message.role is not Role.USER or not called or previous is None:
        return message
    return Message(Role.TOOL, message.content, tool_call_id=previous.tool_calls[0].call_id)

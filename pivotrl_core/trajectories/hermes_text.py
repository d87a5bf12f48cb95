"""Calls, results and tools that Hermes and Qwen write into the text of messages, whatever format holds the messages.

`<tool_call>` blocks of an assistant are calls, `<tool_response>` blocks of a tool or at the start of a user's message
are results, and a `<tools>` block of the system prompt, which stays there, holds the tools.
Format: https://github.com/NousResearch/Hermes-Function-Calling
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pivotrl_core.trajectories.decoding import decode_json
from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.fields import (
    read_decoded,
    read_function,
    read_json_text,
    read_tools,
    reject,
)
from pivotrl_core.types import Message, Role, Tool, ToolCall

# A block that never ends is one where JSON begins: else the mark is only mentioned.
_CALL = re.compile(r"<tool_call>(?:(?=\s*[\[{])(.*?)(?:</tool_call>|\Z)|(.*?)</tool_call>)", re.DOTALL)
_RESULT = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)
_TOOLS = re.compile(r"<tools>(.*?)</tools>", re.DOTALL)


def split_calls(text: str, field: str) -> tuple[str, tuple[ToolCall, ...]]:
    """What an assistant's text says outside of its `<tool_call>` blocks, and the calls in them.

    Raises:
        InvalidRowError: a block holds no call.
    """
    blocks = [json or other for json, other in _CALL.findall(text)]
    calls = tuple(call for block in blocks for call in read_text_calls(block, field))
    return (without_calls(text), calls) if calls else (text, ())


def without_calls(text: str) -> str:
    """A text without its `<tool_call>` blocks; unchanged where there is none."""
    return _CALL.sub("", text).strip() if "<tool_call>" in text else text


def read_text_calls(text: str, field: str) -> tuple[ToolCall, ...]:
    """The call, or the list of calls, that a text holds.

    Raises:
        InvalidRowError: it holds none.
    """
    value = read_json_text(text, field)
    calls = value if isinstance(value, list) else [value]
    if not calls:
        reject(DropReason.UNNAMED_TOOL_CALL, field)
    return tuple(read_function(call, field) for call in calls)


def split_results(message: Message) -> list[Message]:
    """A tool's or a user's message as the results in its `<tool_response>` blocks, and what a user says beside them.

    A user's message holds results where it begins with one: a question about the marks is a question. A tool's holds
    them where it holds nothing else: a page about the marks is a result itself.
    """
    results = [result.strip() for result in _RESULT.findall(message.content)]
    if not results or not message.content.lstrip().startswith("<tool_response>"):
        return [message]
    said = _RESULT.sub("", message.content).strip()
    if message.role is Role.TOOL and not said:
        if len(results) == 1:
            return [Message(Role.TOOL, results[0], tool_call_id=message.tool_call_id)]
        return [Message(Role.TOOL, result) for result in results]
    if message.role is not Role.USER:
        return [message]
    return [*(Message(Role.TOOL, result) for result in results), *([Message(Role.USER, said)] if said else [])]


def prompt_tools(messages: Sequence[Message]) -> tuple[Tool, ...]:
    """Tools of a `<tools>` block in the system prompt: a JSON list, or an object a line; none where it is not JSON."""
    prompt = messages[0].content if messages and messages[0].role is Role.SYSTEM else ""
    # The usual prompt names the empty pair of tags before it uses them.
    text = next((text for block in _TOOLS.findall(prompt) if (text := block.strip()).startswith(("[", "{"))), "")
    lines = [text] if text.startswith("[") else [line for line in text.splitlines() if line.strip()]
    try:
        values = [read_decoded(decode_json(line), "tools") for line in lines]
    except (ValueError, RecursionError):
        return ()
    return read_tools(values[0] if len(values) == 1 and isinstance(values[0], list) else values, "tools")

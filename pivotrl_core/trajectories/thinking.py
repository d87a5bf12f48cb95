"""Thinking text: what a model wrote for itself before it acted, kept apart from what it said."""

from __future__ import annotations

import re

OPEN = "<think>"
CLOSE = "</think>"
# Between quotes, or between the words of a sentence, the mark is only mentioned.
_MENTIONED = re.compile(r"(?<=[`'\"])</think>(?=[`'\"])|(?<=[^.!?:\s] )</think>(?= \S)")


def split_thinking(text: str) -> tuple[str, str]:
    """Split a completion into its thinking and the rest.

    Blocks at the start are taken out. Text that closes a block which it never opened comes from a template that had
    opened it: everything up to the mark is thinking, unless it stands inside a call, or between quotes or the words of
    a sentence, as where it is spoken of. A block that never closes leaves nothing outside of it.

    Returns:
        (thinking, rest); the rest is unchanged, and the thinking empty, where there is no block.
    """
    if text.lstrip().startswith(OPEN):
        blocks, rest = [], text
        while rest.lstrip().startswith(OPEN):
            block, closed, rest = rest.lstrip()[len(OPEN) :].partition(CLOSE)
            blocks.append(block.strip())
            rest = rest.lstrip("\r\n") if closed else ""
        return "\n".join(block for block in blocks if block), rest
    mentions = {mention.start() for mention in _MENTIONED.finditer(text)}
    place = next((one.start() for one in re.finditer(CLOSE, text) if one.start() not in mentions), -1)
    thinking, rest = text[:place], text[place + len(CLOSE) :]
    if place < 0 or OPEN in thinking or thinking.count("<tool_call>") > thinking.count("</tool_call>"):
        return "", text
    return thinking.strip(), rest.lstrip("\r\n")

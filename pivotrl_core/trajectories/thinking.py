"""Thinking text: what a model wrote for itself before it acted, kept apart from what it said."""

from __future__ import annotations

import re

OPEN = "<think>"
CLOSE = "</think>"
_CLOSING = re.compile(r"(?<![`'\" ])</think>|</think>(?![`'\" ])")  # between blanks or quotes the mark is mentioned


def split_thinking(text: str) -> tuple[str, str]:
    """Split a completion into its thinking and the rest.

    Blocks at the start are taken out. Text that closes a block which it never opened comes from a template that had
    opened it: everything up to the mark is thinking, unless a call begins before, or the mark stands between blanks or
    quotes, as where it is spoken of. A block that never closes leaves nothing outside of it.

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
    closing = _CLOSING.search(text)
    if closing is None:
        return "", text
    thinking, rest = text[: closing.start()], text[closing.end() :]
    if OPEN in thinking or "<tool_call>" in thinking:
        return "", text
    return thinking.strip(), rest.lstrip("\r\n")

"""Thinking text: what a model wrote for itself before it acted, kept apart from what it said."""

from __future__ import annotations

OPEN = "<think>"
CLOSE = "</think>"


def split_thinking(text: str) -> tuple[str, str]:
    """Split a completion into its thinking and the rest.

    Blocks at the start are taken out. Text that closes a block which it never opened comes from a template that had
    opened it: everything up to the mark is thinking. A block that never closes leaves nothing outside of it.

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
    if CLOSE in text and OPEN not in text.partition(CLOSE)[0]:
        thinking, _, rest = text.partition(CLOSE)
        return thinking.strip(), rest.lstrip("\r\n")
    return "", text

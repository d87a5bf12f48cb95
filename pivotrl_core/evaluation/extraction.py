r"""Taking an answer out of text: the last `\boxed{}`, a fenced code block, a choice letter. Plain string work.

Each function returns None where there is nothing to take; none raises on any text. Patterns are linear in the length
of the text (no nested repetition), so a hostile answer cannot stall the scoring.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FENCE = re.compile(r"^[ \t]*```([^\n`]*)$", re.MULTILINE)
# Alone among letters of the alphabet (Chinese sets no space beside it), not elided, and no article or pronoun.
_LONE_LETTER = re.compile(r"(?<![A-Za-z0-9_'\u2019])([A-J])(?![A-Za-z0-9_'\u2019]|(?<=[AI])\s+[a-zà-ÿ])")


def last_boxed(text: str) -> str | None:
    r"""Content of the last `\boxed{...}` (or `\fbox{...}`) whose braces balance; None where the last one is cut off."""
    start = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if start < 0:
        return None
    depth = 0
    opening = text.index("{", start)
    for position in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[opening + 1 : position].strip()
    return None


def code_blocks(text: str) -> list[str]:
    """Contents of all complete fenced blocks, in order; a block that is never closed is left out."""
    blocks: list[str] = []
    opened: int | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence.end() + 1
        elif not fence.group(1).strip():
            blocks.append(text[opened : fence.start()])
            opened = None
        else:
            # A fence with a language inside an open block: the earlier one was never closed.
            opened = fence.end() + 1
    return blocks


def choice_letter(text: str, patterns: Sequence[re.Pattern[str]]) -> str | None:
    """First group of the first pattern found in the text, else the last capital letter A to J standing alone.

    "A" and "I" before a word in small letters are no choice.
    """
    for pattern in patterns:
        found = pattern.search(text)
        if found:
            return found.group(1)
    letters = _LONE_LETTER.findall(text)
    return letters[-1] if letters else None


def first_line(text: str) -> str | None:
    """First line that is not blank, without surrounding space."""
    return next((line.strip() for line in text.splitlines() if line.strip()), None)

r"""Signs that are part of what a text says: `C++` is not `C#`, `A+` not `A-`, `>30` not `<30`, a thumb up none down.

Classes of characters for regular expressions: Python's `\w` knows no combining marks, in which many scripts write their
vowels, and its `re` no Unicode categories.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Container

_UNSAID = "\u00a9\u00ae\u00b0\u2044\u2212\u00d7"  # (c), (R), degrees; and those that have another spelling
_PICTURE_SELECTORS = range(0xFE00, 0xFE10)
_SPELT = str.maketrans({"\u2044": "/", "\u00d7": "*"})
_POWER = re.compile("(?<!m)(?<!ft)[\u207a\u207b]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+")  # m2 is a unit, no power
_INDEX = re.compile("(?<=[0-9])[\u2080-\u2089]+")
_VULGAR = re.compile("(?<=[0-9])(?=[\u00bc-\u00be\u2150-\u215e])")
_FRACTION = re.compile(r"(?<![\w/.-])(\d{1,3})/(\d{1,3})(?![\w/-])")


def _class(category: str, left_out: Container[int]) -> str:
    """Ranges of the characters beyond ASCII that are of a general category."""
    ranges: list[list[int]] = []
    for code in range(0x80, min(sys.maxunicode, 0x1FFFF) + 1):
        if unicodedata.category(chr(code))[0] == category and code not in left_out:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


MARKS = _class("M", _PICTURE_SELECTORS)
"""Combining marks, but for those that choose between pictures of one sign."""
SYMBOLS = _class("S", frozenset(map(ord, _UNSAID)))
"""Symbols and emoji, but for those that change nothing of what is said."""
AFTER = r"[+#]+(?!\w)"
"""Behind a word or number: `C++`, `C#`, `A+`, `18+`."""
LETTER_MINUS = r"(?<![\w-])[^\W\d_]{1,2}-(?![\w-])"
"""A letter or two with a minus that nothing follows: `A-`, `AB-`."""


def nfkc(text: str) -> str:
    """NFKC in which raised and lowered digits do not become part of a number: `10\u00b2` is `10^2`, not `102`."""
    if text.isascii():
        return text
    text = _INDEX.sub(lambda match: f"_{match[0]}", _POWER.sub(lambda match: f"^{match[0]}", text))
    return unicodedata.normalize("NFKC", _VULGAR.sub(" ", text))


def spell_signs(text: str) -> str:
    """Signs of one meaning as one, fractions with a sign of their own: `1/2` is not `1-2`, `2026/05/12` no fraction."""
    return _FRACTION.sub("\\1 \u00f7 \\2", text.translate(_SPELT))

"""Names of tools without case and punctuation: agents of different makers spell one tool in many ways."""

from __future__ import annotations

import re
from functools import lru_cache

MAX_CHARACTERS = 64
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def plain_name(name: str) -> str:
    """`str_replace_editor` of `StrReplaceEditor` and `str-replace-editor`; of longer names than any tool's, nothing."""
    return _plain(name) if len(name) <= MAX_CHARACTERS else ""


@lru_cache(maxsize=1024)
def _plain(name: str) -> str:
    return _SEPARATORS.sub("", name.lower())

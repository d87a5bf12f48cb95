"""Addresses as they may be shown: without user, password and query, which may hold keys."""

from __future__ import annotations

import re

# The second form has a slash in its password, which people write and programs refuse; a port is none.
# All parts are bounded: a line of many addresses takes time by its length, and not by the square of it.
_USER = re.compile(r"(?<=://)(?:[^/\s]{0,500}|[^/\s:]{0,500}:(?!\d{1,5}/)[^\s]{0,500})@")
_QUERY = re.compile(r"(://[^\s'\"<>?]{0,500}\?)[^\s'\"<>]+")


def without_credentials(text: str) -> str:
    """A text with addresses in it, without the user, the password and the query of any.

    >>> without_credentials("no answer from http://me:secret@example.org/v1?key=secret to us")
    'no answer from http://example.org/v1?... to us'
    """
    return _QUERY.sub(r"\1...", _USER.sub("", text))

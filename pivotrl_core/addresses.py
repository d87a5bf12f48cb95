"""Addresses as they may be shown: without user, password and query, which may hold keys."""

from __future__ import annotations

import re

# The second form has a slash in its password, which people write and programs refuse; a port is none.
_USER = re.compile(r"(?<=://)(?:[^/\s]*|[^/\s:]*:(?!\d{1,5}/)[^\s]*)@")
_QUERY = re.compile(r"(://[^\s'\"<>?]*\?)[^\s'\"<>]+")


def without_credentials(text: str) -> str:
    """A text with addresses in it, without the user, the password and the query of any.

    >>> without_credentials("no answer from http://me:secret@example.org/v1?key=secret to us")
    'no answer from http://example.org/v1?... to us'
    """
    return _QUERY.sub(r"\1...", _USER.sub("", text))

"""ETags of S3 objects as checksums.

An object stored in one request has the MD5 of its bytes as ETag; one stored in N parts has the MD5 of the N parts' MD5s
and the suffix `-N`. Objects encrypted with keys of a key service have an ETag that says nothing about the bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

_ETAG = re.compile(r"(?P<md5>[0-9a-f]{32})(-(?P<parts>[0-9]+))?")


def matches_etag(path: Path, etag: str, first_part_bytes: Callable[[], int | None]) -> bool:
    """Whether a file's bytes agree with an ETag.

    Args:
        path: The downloaded file.
        etag: Without quotes.
        first_part_bytes: Asks the server for the size of the first part in bytes, or None where the ETag is no checksum
            of the bytes. Asked only when the plain MD5 does not settle the matter.

    Returns:
        False for a disagreement. True also where the ETag cannot be checked: size and transport checks stand then.
    """
    match = _ETAG.fullmatch(etag)
    if match is None:
        return True
    if match["parts"] is None and _md5(path) == etag:
        return True
    part_bytes = first_part_bytes()
    if part_bytes is None:
        return True
    if match["parts"] is None:
        return False
    size, parts = path.stat().st_size, int(match["parts"])
    if not 0 < part_bytes <= size or -(-size // part_bytes) != parts:
        return True  # parts of unequal sizes, or a server that answers a part request with the whole object
    return multipart_etag(path, part_bytes) == etag


def multipart_etag(path: Path, part_bytes: int) -> str:
    """The ETag of a file uploaded in parts of `part_bytes` bytes (the last one shorter)."""
    digests = []
    with path.open("rb") as file:
        while chunk := file.read(part_bytes):
            digests.append(hashlib.md5(chunk, usedforsecurity=False).digest())
    return f"{hashlib.md5(b''.join(digests), usedforsecurity=False).hexdigest()}-{len(digests)}"


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()

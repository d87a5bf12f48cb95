"""How much a service takes on before it tells clients to come again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """How much a service takes on.

    Attributes:
        requests: that are there at once, waiting or worked on.
        bytes: of all their bodies together; body_bytes: of one.
        batch: most requests that a process gets at a time.
    """

    requests: int = 512
    bytes: int = 512 << 20
    body_bytes: int = 16 << 20
    batch: int = 16

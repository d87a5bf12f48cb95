"""Seeds derived from names, never from the order of execution: a resumed or re-batched run draws the same numbers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def derive_seed(*parts: str | int) -> int:
    """A 63-bit seed from the parts' text, e.g. `derive_seed(run_seed, "profile", candidate_id, sample_index)`."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(*parts: str | int) -> np.random.Generator:
    """A NumPy generator (Philox, counter based) seeded by `derive_seed(*parts)`."""
    import numpy as np

    return np.random.Generator(np.random.Philox(derive_seed(*parts)))

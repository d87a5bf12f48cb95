"""Retries by error class: a temporary failure is worth another try, a wrong configuration never is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from pivotrl_core.errors import TemporaryError
from tasks.pull.origin import SourceChangedError

log = logging.getLogger(__name__)
T = TypeVar("T")

DELAYS = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds before the second, third, ... try


def retry(call: Callable[[], T], delays: tuple[float, ...] = DELAYS, sleep: Callable[[float], None] = time.sleep) -> T:
    """Call until it succeeds, fails for good, or the delays are used up.

    Raises:
        PivotRLError: The last failure, unchanged.
    """
    for delay in delays:
        try:
            return call()
        except SourceChangedError:
            raise
        except TemporaryError as error:
            log.warning("%s; trying again in %.1f s", error, delay)
            sleep(delay)
    return call()

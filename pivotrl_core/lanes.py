"""Lanes: parts of a batch that are computed side by side, one a thread, each on its own share of the machine's threads.

On a CPU two threads that work on one small operation after another mostly wait for each other; two that each have half
of the batch do not (lab log, 2026-11-30). How a batch is cut depends on `parts` alone, which is a parameter; how many
of the parts run at once depends on the machine, and on what else runs on it (`limit_workers`). So the result is the
same bits whether one thread computed it or two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_limits: list[Callable[[], int]] = []


def limit_workers(limit: Callable[[], int]) -> None:
    """Let `limit` say, before each part is begun in this process, how many may be computed at once."""
    _limits[:] = [limit]


@dataclass(frozen=True, slots=True)
class Lanes:
    """How a batch is cut, and how it is run.

    Attributes:
        parts: that a batch is cut into where it can be; belongs to a result's identity.
        workers: parts that are computed at once.
    """

    parts: int = 1
    workers: int = 1

    def map(self, compute: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """`compute(item)` of each item, in order; up to `workers` of them at once, and no further ahead.

        An error in one ends the iteration there, once those that are being computed have ended.
        """
        if self.workers == 1 or len(items) == 1:
            yield from map(compute, items)
            return
        waiting: list[Future[Result]] = []
        with ThreadPoolExecutor(self.workers, thread_name_prefix="lane") as pool:
            try:
                for item in items:
                    at_once = self._at_once()
                    while len(waiting) > at_once:
                        yield waiting.pop(0).result()
                    if len(waiting) < at_once:
                        waiting.append(pool.submit(compute, item))
                        continue
                    result = waiting.pop(0).result()
                    waiting.append(pool.submit(compute, item))
                    yield result
                    del result  # it may be large, and the next one takes a while
                while waiting:
                    yield waiting.pop(0).result()
            finally:
                for future in waiting:
                    future.cancel()

    def _at_once(self) -> int:
        return max(1, min([self.workers, *(limit() for limit in _limits)]))


ONE_LANE = Lanes()


def even_batches(count: int, limit: int, parts: int) -> list[range]:
    """Cut `count` things into batches of up to `limit`, about equal, in a multiple of `parts` where there are enough.

    >>> even_batches(10, 4, 2)
    [range(0, 2), range(2, 5), range(5, 7), range(7, 10)]
    """
    number = min(parts * -(-count // (parts * limit)), count)
    bounds = [count * index // number for index in range(number + 1)] if number else []
    return [range(start, stop) for start, stop in pairwise(bounds)]

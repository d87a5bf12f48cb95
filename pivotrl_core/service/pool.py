"""Processes that grade, and the queue in front of them: what waits goes to a free process in batches.

A queue that is full says so at once, so that clients wait at their side. A process that dies takes down the pool
(Python's executor works so): a new one is made, and the requests that it had go there once more, one by one; one that
dies there too is answered as 'try again'. Replies are paired with requests by their place in a batch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from pivotrl_core.service.queue_limits import QueueLimits
from pivotrl_core.service.work import BUSY, Job, Reply, WorkerSettings, error_reply, reply_all, start_worker

log = logging.getLogger(__name__)


class QueueFullError(Exception):
    """The queue takes no further request."""


class _NoProcessError(Exception):
    """No process gave replies: the one that was at work died, or none could be started."""


class Graders:
    """Processes with a queue, inside one event loop (`async with`)."""

    def __init__(self, settings: WorkerSettings, processes: int, limits: QueueLimits) -> None:
        self.settings, self.processes, self.limits = settings, processes, limits
        self.open = self.open_bytes = self.answered = self.refused = self.deaths = 0
        self._queue: deque[tuple[Job, asyncio.Future[Reply]]] = deque()

    async def __aenter__(self) -> Graders:
        self._some = asyncio.Condition()
        self._pool = self._new_pool()
        # Whoever finds the service finds it ready: a process takes a second or more to start.
        await asyncio.gather(*(self._ask([]) for _ in range(self.processes)))
        self._loops = [asyncio.create_task(self._work()) for _ in range(self.processes)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def reserve(self, size: int) -> None:
        """Reserve a place for a request with a body of so many bytes. Raises QueueFullError where none is free."""
        if self.open >= self.limits.requests or (self.open and self.open_bytes + size > self.limits.bytes):
            self.refused += 1
            raise QueueFullError
        self.open += 1
        self.open_bytes += size

    def release(self, size: int) -> None:
        """Free the place of a request with a body of so many bytes."""
        self.open -= 1
        self.open_bytes -= size

    async def reply(self, job: Job) -> Reply:
        """The reply to a request for which a place is reserved."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._queue.append((job, future))
        async with self._some:
            self._some.notify()
        reply = await future
        self.answered += 1
        return reply

    async def _work(self) -> None:
        """Keep one process busy."""
        while True:
            async with self._some:
                await self._some.wait_for(lambda: self._queue)
            # No more than this process's share: the others have time for the rest.
            share = min(self.limits.batch, -(-len(self._queue) // self.processes))
            taken = [self._queue.popleft() for _ in range(share)]
            batch = [(job, future) for job, future in taken if not future.cancelled()]
            for (_, future), reply in zip(batch, await self._replies([job for job, _ in batch]), strict=True):
                if not future.done():  # its client may have gone
                    future.set_result(reply)

    async def _replies(self, jobs: Sequence[Job]) -> list[Reply]:
        try:
            return await self._ask(jobs)
        except _NoProcessError:
            return [await self._once_more(job) for job in jobs]

    async def _once_more(self, job: Job) -> Reply:
        try:
            return (await self._ask([job]))[0]
        except _NoProcessError as error:
            log.warning("a request is sent back: %s", error)
            return error_reply(BUSY, f"{error}; try again")

    async def _ask(self, jobs: Sequence[Job]) -> list[Reply]:
        """Replies of one process. Raises _NoProcessError where it died or none could be started."""
        pool = self._pool
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, reply_all, list(jobs))
        except Exception as error:  # whatever it is, it must not end the loop that others wait for
            if self._pool is pool:  # the first of those that were there to notice
                self.deaths += 1
                pool.shutdown(wait=False)
                self._pool = self._new_pool()
            died = isinstance(error, BrokenProcessPool)
            said = "the process that graded this request died" if died else f"no process started ({error!r:.200})"
            raise _NoProcessError(said) from error

    def _new_pool(self) -> ProcessPoolExecutor:
        # Fresh interpreters: a fork would take along the threads and connections of a server at work.
        context = get_context("spawn")
        return ProcessPoolExecutor(self.processes, context, initializer=start_worker, initargs=(self.settings,))

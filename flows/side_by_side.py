"""Stages side by side: which one is next, and those at work, each watched by a task of Prefect's in a thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from pivotrl_core.config.tree import Config
from pivotrl_core.errors import PivotRLError
from tasks.graph import StageStatus, Workplace
from tasks.shares import SHARE, Shares, stages_at_once
from tasks.stages import StageJob, bring_up_to_date

_LOOK_SECONDS = 0.1


class StoppedError(PivotRLError):
    """A stage was ended because the run ends."""


class Waiting:
    """Stages of a graph that have not begun. A stage is next when all that it needs have come to an end.

    Args:
        statuses: Of the whole graph, each after those that it needs; frozen ones are left out.
    """

    def __init__(self, statuses: Iterable[StageStatus]) -> None:
        self._order = [status for status in statuses if not status.frozen]
        self._unsettled = {status.name for status in self._order}
        self._needed_by = dict.fromkeys(self._unsettled, 0)
        for status in self._order:
            for name in self._all_needed(status):
                self._needed_by[name] += 1

    def _all_needed(self, status: StageStatus) -> set[str]:
        """Names of the stages before it, at any distance."""
        by_name = {one.name: one for one in self._order}
        found: set[str] = set()
        ahead = [status]
        while ahead:
            new = {dep for one in ahead for dep in one.deps if dep in by_name} - found
            found |= new
            ahead = [by_name[name] for name in new]
        return found

    def take(self) -> StageStatus | None:
        """The stage to begin now; of several the one that most others need, then the first. None: none can begin."""
        ready = [one for one in self._order if not self._unsettled.intersection(one.deps)]
        if not ready:
            return None
        chosen = max(ready, key=lambda one: self._needed_by[one.name])  # the first of equals
        self._order.remove(chosen)
        return chosen

    def settle(self, name: str) -> None:
        """A stage has come to an end, whichever it is: those that need it may be next."""
        self._unsettled.discard(name)

    def drop(self) -> None:
        """Begin no more of them."""
        self._order.clear()


@dataclass(frozen=True, slots=True)
class _AtWork:
    """A stage at work. `future` is Prefect's."""

    status: StageStatus
    future: Any
    poll: Callable[[], None]
    started: float


@dataclass(frozen=True, slots=True)
class Ended:
    """A stage that has come to an end: the state of its task, and the seconds that it took."""

    status: StageStatus
    state: Any
    seconds: float


class SideBySide:
    """Stages at work, as many as may be at once. Leaving the block ends those that still are.

    Args:
        place: Where they work.
        config: Says how many may be at work at once, and how many lanes they divide among them.
    """

    def __init__(self, place: Workplace, config: Config) -> None:
        self._place, self._at_once = place, stages_at_once(config)
        self._shares = Shares(place.logs, config.compute.lane_plan.workers)
        self._at_work: dict[str, _AtWork] = {}
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _t: TracebackType | None
    ) -> None:
        self._stop.set()
        while self._at_work:
            self.next_ended()

    def __iter__(self) -> Iterator[str]:
        """Names of the stages at work."""
        return iter(self._at_work)

    @property
    def is_idle(self) -> bool:
        """Whether no stage is at work."""
        return not self._at_work

    @property
    def has_room(self) -> bool:
        """Whether another one may begin."""
        return len(self._at_work) < self._at_once

    def begin(self, status: StageStatus, poll: Callable[[], None], *, force: bool = False) -> None:
        """Bring a stage up to date beside the others.

        Args:
            status: Of the stage, which DVC finds changed or which is forced.
            poll: Called a few times a second while it is at work, in the thread that asks for `next_ended`.
            force: Execute it whatever DVC and its run cache know.
        """
        share = self._shares.join(status.name)
        place = replace(self._place, environment={**self._place.environment, SHARE: str(share)})
        job = StageJob(place, changed=True, force=force, poll=self._keep_going)
        future = bring_up_to_date.submit(status.name, job)
        self._at_work[status.name] = _AtWork(status, future, poll, time.monotonic())
        future.add_done_callback(lambda _future: self._ended.put(status.name))

    def next_ended(self) -> Ended:
        """Wait until one of the stages at work has ended, whichever way; its task's state says which."""
        while True:
            for one in self._at_work.values():
                one.poll()
            try:
                name = self._ended.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            one = self._at_work.pop(name)
            one.poll()
            one.future.wait()
            self._shares.leave(name)
            return Ended(one.status, one.future.state, time.monotonic() - one.started)

    def _keep_going(self) -> None:
        """In a stage's thread, a few times a second."""
        if self._stop.is_set():
            raise StoppedError("ended with the run that it was part of; the next run goes on where it was")

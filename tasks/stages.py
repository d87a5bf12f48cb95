"""The Prefect task that brings one stage up to date.

Prefect decides when, in what order and how often again; whether a stage runs at all is DVC's answer. What DVC finds
unchanged becomes the state `Cached` without a process of its own, what its run cache knows becomes `Restored`.
Prefect's own cache is off: two caches that can disagree are worse than none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from tasks.graph import Outcome, Workplace, run_stage
from tasks.supervision import StageFailedError

_STATE_NAMES = {Outcome.RAN: "Completed", Outcome.RESTORED: "Restored", Outcome.UNCHANGED: "Cached"}
_MESSAGES = {
    Outcome.RAN: "executed",
    Outcome.RESTORED: "restored from the run cache",
    Outcome.UNCHANGED: "DVC finds it unchanged",
}


@dataclass(frozen=True, slots=True)
class StageJob:
    """One stage to bring up to date. `changed` is DVC's answer; `poll` is called while the stage runs."""

    place: Workplace
    changed: bool
    force: bool = False
    poll: Callable[[], None] | None = None


def is_worth_a_retry(_task: Any, _run: Any, state: Any) -> bool:
    """Only what may pass is tried again: a temporary failure, or a process that something killed."""
    error = state.data if isinstance(state.data, BaseException) else state.result(raise_on_failure=False)
    return isinstance(error, StageFailedError) and error.retryable


@task(
    name="stage",
    task_run_name="{name}",
    retries=2,
    retry_delay_seconds=[1, 30],
    retry_condition_fn=is_worth_a_retry,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def bring_up_to_date(name: str, job: StageJob) -> Any:
    """Run a stage where it has to, and say what became of it by the state's name."""
    outcome = Outcome.UNCHANGED
    if job.changed or job.force:
        outcome = run_stage(job.place, name, job.force, job.poll)
    return Completed(name=_STATE_NAMES[outcome], message=_MESSAGES[outcome], data=str(outcome))


def outcome_of(state: Any) -> Outcome:
    """What a finished task says; raises what it failed with."""
    return Outcome(state.result())

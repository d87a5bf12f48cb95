"""The chain that run, sweep and nightly share: pull, ask DVC once, bring stages up to date in order."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from flows.session import Session
from flows.terminal import LogEcho, say, together
from pivotrl_core.addresses import without_credentials
from pivotrl_core.errors import PivotRLError
from pivotrl_core.processes import last_lines
from tasks.graph import Outcome, StageStatus, commit_pull, is_changed, query_graph
from tasks.settings import child_environment, main_checkout
from tasks.skipped import lacked_sandbox
from tasks.stages import StageJob, bring_up_to_date, outcome_of
from tasks.supervision import StageFailedError, run_supervised
from tasks.tracking.flow_run import Recording

Pull = Callable[[Session], None]


class ChainFailedError(PivotRLError):
    """Stages failed. Carries the exit code of the first one, what became of the others, and what failed.

    `compared` is what the run said of the arms that no failure touched, as JSON; empty where there is nothing.
    """

    outcomes: Mapping[str, Outcome] = {}
    failed: Mapping[str, str] = {}
    compared: Mapping[str, Any] = {}

    def __init__(self, errors: dict[str, BaseException], skipped: list[str]) -> None:
        self.failed = {**dict.fromkeys(errors, "failed"), **dict.fromkeys(skipped, "not run")}
        first = next(iter(errors.values()))
        self.exit_code = first.exit_code if isinstance(first, PivotRLError) else PivotRLError.exit_code
        lines = [str(error) for error in errors.values()]
        if skipped:
            lines.append(f"not run, because they need what failed: {', '.join(skipped)}")
        super().__init__("\n".join(lines))

    def to_json(self) -> dict[str, Any]:
        """Plain values: what was compared all the same, what became of the other stages, and the message."""
        return {"compared": dict(self.compared), "failed": dict(self.failed), "error": without_credentials(str(self))}

    def add(self, text: str) -> None:
        """Let the message end with a text."""
        if text:
            self.args = (f"{self}\n{text}",)


def _as_it_is(_session: Session) -> None:
    """The graph as it stands."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a chain is run.

    Attributes:
        keep_going: Whether stages that do not need a failed one still run.
        prepare: Called when the data are there and before DVC is asked for the graph.
    """

    keep_going: bool = False
    prepare: Callable[[Session], None] = _as_it_is


DEFAULT_PLAN = Plan()


def pull_from_source(session: Session, prune: bool = False) -> None:
    """Bring data/pulled up to date with the source of the configuration, within the time that a stage may take.

    Args:
        session: Where, and with which configuration.
        prune: Drop files that the source no longer has.

    Raises:
        StageFailedError: The program failed, with its exit code, or passed the deadline. The last pull stays valid.
    """
    from tasks.sources import source_name

    log = session.place.logs / "pull.log"
    # Stages may be cut off from the hub; a pull is what goes outside.
    environment = child_environment(session.root, session.state, offline=False)
    command = [sys.executable, "-m", "tasks.pull_program", str(main_checkout(session.checkout))]
    command += ["--prune"] if prune else []
    code = run_supervised(command, session.root, environment, log, poll=LogEcho(log).poll)
    if code != 0:
        raise StageFailedError(f"pull from {source_name(session.config.source)}", code, log, last_lines(log))


@task(name="pull", task_run_name="pull", cache_policy=NO_CACHE, persist_result=False)
def pull_data(session: Session, pull: Pull) -> Any:
    """Pull what is new and make it the result of DVC's stage `pull`."""
    pull(session)
    new = commit_pull(session.place)
    outcome = Outcome.RAN if new else Outcome.UNCHANGED
    return Completed(
        name="Completed" if new else "Cached", message="new data" if new else "nothing new", data=str(outcome)
    )


def run_chain(
    session: Session, recording: Recording, plan: Plan = DEFAULT_PLAN, pull: Pull = pull_from_source
) -> dict[str, Outcome]:
    """Pull, then bring every stage up to date. Returns what became of each.

    Raises:
        ChainFailedError: A stage failed; with `plan.keep_going` only after all that do not need it.
    """
    outcomes = {"pull": outcome_of(pull_data(session, pull, return_state=True))}
    if outcomes["pull"] is not Outcome.UNCHANGED:
        say("pull: new data")
    plan.prepare(session)
    return bring_all(session, recording, outcomes, plan.keep_going)


def bring_all(
    session: Session, recording: Recording, outcomes: dict[str, Outcome], keep_going: bool = False
) -> dict[str, Outcome]:
    """Bring every stage of the graph up to date. Returns what became of each, after `outcomes` of those before it.

    Raises:
        ChainFailedError: A stage failed; with `keep_going` only after all that do not need it.
    """
    errors: dict[str, BaseException] = {}
    skipped: list[str] = []
    for status in query_graph(session.root):
        if status.frozen:
            continue
        if any(dep in errors or dep in skipped for dep in status.deps):
            skipped.append(status.name)
            continue
        try:
            outcomes[status.name] = _run_one(session, recording, status, outcomes)
        except PivotRLError as error:
            errors[status.name] = error
            say(f"{status.name}: failed")
            if not keep_going:
                break
    if errors:
        failure = ChainFailedError(errors, skipped)
        failure.outcomes = outcomes
        raise failure
    return outcomes


def _run_one(session: Session, recording: Recording, status: StageStatus, outcomes: dict[str, Outcome]) -> Outcome:
    """One stage. DVC is asked again where a stage before it has just been run or restored."""
    moved = any(outcomes.get(dep, Outcome.UNCHANGED) is not Outcome.UNCHANGED for dep in status.deps)
    changed = is_changed(session.root, status.name) if moved else status.changed
    outcome = _bring(session, recording, status, changed)
    if outcome is not Outcome.RAN and lacked_sandbox(session.root, status.outs):
        say(f"{status.name}: benchmarks were skipped for want of a sandbox, which is there now")
        outcome = _bring(session, recording, status, changed=True, force=True)
    return outcome


def _bring(session: Session, recording: Recording, status: StageStatus, changed: bool, force: bool = False) -> Outcome:
    """Bring a stage up to date, and show what it does."""
    poll = None
    started = time.monotonic()
    if changed:
        say(f"{status.name}: started")
        echo = LogEcho(session.place.logs / f"{status.name}.log")
        poll = together(recording.follow(status.name, status.outs), echo.poll)
    job = StageJob(session.place, changed, force, poll=poll)
    outcome = outcome_of(bring_up_to_date(status.name, job, return_state=True))
    seconds = f" in {time.monotonic() - started:.0f} s" if outcome is Outcome.RAN else ""
    say(f"{status.name}: {outcome}{seconds}")
    return outcome

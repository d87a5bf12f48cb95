"""The chain that run, sweep and nightly share: pull, ask DVC once, bring every stage up to date."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from flows.session import Session
from flows.side_by_side import Ended, SideBySide, Waiting
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
    """Bring every stage of the graph up to date, side by side where none of them needs the other.

    Returns what became of each, after `outcomes` of those before it.

    Raises:
        ChainFailedError: A stage failed. With `keep_going` only after all that do not need it, else after those that
            were at work beside it.
    """
    order = query_graph(session.root)
    with SideBySide(session.place, session.config) as at_work:
        chain = _Chain(session, recording, outcomes, Waiting(order), at_work, keep_going)
        chain.run()
    if chain.errors:
        skipped = [status.name for status in order if status.name in chain.skipped]
        failure = ChainFailedError(chain.errors, skipped)
        failure.outcomes = outcomes
        raise failure
    return outcomes


@dataclass(slots=True)
class _Chain:
    """A chain at work: `outcomes` of what is up to date, `errors` of what failed, `skipped` what needs that."""

    session: Session
    recording: Recording
    outcomes: dict[str, Outcome]
    waiting: Waiting
    at_work: SideBySide
    keep_going: bool
    errors: dict[str, BaseException] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Begin what can begin and wait for what is at work, until nothing is left of either."""
        while True:
            while self.at_work.has_room and (status := self.waiting.take()) is not None:
                self._begin(status)
            if self.at_work.is_idle:
                return
            self._end(self.at_work.next_ended())

    def _begin(self, status: StageStatus) -> None:
        if any(dep in self.errors or dep in self.skipped for dep in status.deps):
            self.skipped.add(status.name)
            self.waiting.settle(status.name)
        elif self._is_changed(status):
            self._start(status)
        else:
            state = bring_up_to_date(status.name, StageJob(self.session.place, changed=False), return_state=True)
            self._end(Ended(status, state, 0.0))

    def _is_changed(self, status: StageStatus) -> bool:
        """DVC is asked again where a stage before it has just been run or restored."""
        moved = any(self.outcomes.get(dep, Outcome.UNCHANGED) is not Outcome.UNCHANGED for dep in status.deps)
        return is_changed(self.session.root, status.name) if moved else status.changed

    def _start(self, status: StageStatus, force: bool = False) -> None:
        """Let it work, and show what it does."""
        say(f"{status.name}: started")
        echo = LogEcho(self.session.place.logs / f"{status.name}.log")
        poll = together(self.recording.follow(status.name, status.outs), echo.poll)
        self.at_work.begin(status, poll, force=force)

    def _end(self, ended: Ended) -> None:
        status = ended.status
        try:
            outcome = outcome_of(ended.state)
        except PivotRLError as error:
            self._fail(status, error)
            return
        seconds = f" in {ended.seconds:.0f} s" if outcome is Outcome.RAN else ""
        say(f"{status.name}: {outcome}{seconds}")
        if outcome is not Outcome.RAN and lacked_sandbox(self.session.root, status.outs):
            say(f"{status.name}: benchmarks were skipped for want of a sandbox, which is there now")
            self._start(status, force=True)
            return
        self.outcomes[status.name] = outcome
        self.waiting.settle(status.name)

    def _fail(self, status: StageStatus, error: PivotRLError) -> None:
        self.errors[status.name] = error
        self.waiting.settle(status.name)
        say(f"{status.name}: failed")
        if not self.keep_going:
            self.waiting.drop()
            if not self.at_work.is_idle:
                say(f"waiting for {', '.join(self.at_work)}, so that what it has done is kept")

"""Flow `run`: the main job, once. And what the other flows share of it: a session, the chain, the conclusion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow, runtime

from flows import quick
from flows.chain import DEFAULT_PLAN, ChainFailedError, Plan, Pull, bring_all, pull_from_source, run_chain
from flows.conclusion import Summary, conclude
from flows.partial import without_failed
from flows.request import Request
from flows.session import Session, open_session
from flows.terminal import say
from pivotrl_core.errors import ConfigError, PivotRLError
from tasks.graph import Outcome, query_graph
from tasks.leftovers import remove_outputs
from tasks.notify import tell_failure
from tasks.provenance import collect_provenance
from tasks.repository import RUN_REFS, Repository
from tasks.run_ids import check_run_id, is_run_id, made_run_id, new_run_id
from tasks.settings import apply_environment, find_checkout, find_state
from tasks.sweepers import mark_flow_run
from tasks.tracking.flow_run import Recording

Finish = Callable[[Session], None]


def name_flow_run() -> str:
    """The run id, or a new one where the caller gave none."""
    return str((runtime.flow_run.parameters or {}).get("run_id") or new_run_id())


def _own_run_id() -> str:
    """The run id that the flow run is named by, so that a scheduled run has one name everywhere; else a new one."""
    return made_run_id(str(runtime.flow_run.name or "")) or new_run_id()


@flow(name="run", flow_run_name=name_flow_run, persist_result=False, validate_parameters=False)
def run(request: Mapping[str, Any] | None = None, run_id: str = "", checkout: str = "") -> dict[str, Any]:
    """Pull, candidates, profile, select, train, evaluate, compare: whatever of it is not up to date.

    Args:
        request: See `flows.request.Request`.
        run_id: Made from the time where empty.
        checkout: Folder of the checkout (default: the one around the working folder).
    """
    return carry_out("run", read_request("run", request, run_id, checkout), run_id, checkout).to_json()


def read_request(flow: str, request: Mapping[str, Any] | None, run_id: str, checkout: str) -> Request:
    """The request of a flow run, which a deployment may have wrong every night: so that is told, too."""
    with failure_told(flow, Path(checkout) if checkout else find_checkout(), run_id or _own_run_id()):
        return Request.from_json(request or {})


def carry_out(
    name: str,
    request: Request,
    run_id: str,
    checkout: str,
    plan: Plan = DEFAULT_PLAN,
    pull: Pull = pull_from_source,
    tracked: bool = True,
    seed: Path | None = None,
    private: bool | None = None,
    finish: Finish | None = None,
) -> Summary:
    """One run of the chain inside the flow `name`, told of where it fails.

    Args:
        name: Of the flow.
        request: What to override.
        run_id: The one in the flow run's name where empty.
        checkout: Folder of the checkout; the one around the working folder where empty.
        plan: What happens before the graph is asked, and after a failure.
        pull: Brings data/pulled up to date.
        tracked: Tell MLflow.
        seed: What a worktree starts from (default: the checkout).
        private: Work in a worktree (default: where the request overrides anything).
        finish: Called with the place of work, when all is recorded; after a failure with what it left whole.

    Raises:
        ConfigError: The run id or the request is wrong; nothing has been started.
    """
    root = Path(checkout) if checkout else find_checkout()
    run_id = run_id or _own_run_id()
    with failure_told(name, root, run_id):
        refuse_known(root, check_run_id(run_id))
        apply_environment(find_state(root))  # a worker starts flows without our command line
        if runtime.flow_run.id:
            mark_flow_run(runtime.flow_run.id)
        with open_session(name, root, request, run_id, seed, private) as session:
            summary = _work(session, plan, pull, tracked, finish or _nothing)
    if request.quick:
        say(quick.WARNING)
    return summary


@contextmanager
def failure_told(flow: str, root: Path, run_id: str) -> Iterator[None]:
    """Tell of what fails inside, once: where it is told further in, the id's mark is there.

    An id that is none, or that a recorded run has, gets no mark: it would keep the next such failure quiet.
    """
    told_as = run_id if is_run_id(run_id) and not _is_recorded(root, run_id) else new_run_id()
    try:
        yield
    except Exception as error:
        tell_failure(told_as, flow, str(error), find_state(root).runs / told_as)
        raise


def refuse_known(root: Path, run_id: str) -> None:
    """Raise ConfigError for the id of a recorded run: its record would be lost, and MLflow would mix the two."""
    if _is_recorded(root, run_id):
        raise ConfigError(f"run_id {run_id}: a recorded run has it; give another one, or none")


def _is_recorded(root: Path, run_id: str) -> bool:
    return Repository(root).resolve(RUN_REFS + run_id) is not None


def _nothing(_session: Session) -> None:
    """What most flows do in the end."""


def _work(session: Session, plan: Plan, pull: Pull, tracked: bool, finish: Finish) -> Summary:
    def provenance() -> Any:
        return collect_provenance(session.root, session.config, session.run_id, session.snapshot)

    recording = Recording(
        session.root,
        config=session.config,
        uri=session.state.tracking_uri,
        run_id=session.run_id,
        name=f"{session.flow}-{session.run_id}",
        provenance=provenance,
        diff=session.snapshot.diff,
        enabled=tracked,
    )
    try:
        try:
            outcomes = run_chain(session, recording, plan, pull)
        except ChainFailedError as failure:
            if plan.keep_going and session.root != session.checkout:  # else the others have not been run
                failure.add(_compare_the_others(session, recording, failure, finish))
            raise
        summary = conclude(session, recording, outcomes)
    except BaseException as error:
        recording.finish("FAILED" if isinstance(error, Exception) else "KILLED", "", None, "")
        raise
    finish(session)
    return summary


def _compare_the_others(session: Session, recording: Recording, failure: ChainFailedError, finish: Finish) -> str:
    """Compare and record the arms that a failure left whole. Returns what that says, empty where there are none."""
    outs = {status.name: status.outs for status in query_graph(session.root)}
    rest = without_failed(session, failure.failed)
    if rest is None:
        return ""
    gone = outs.keys() - {status.name for status in query_graph(rest.root)}
    remove_outputs(rest.root, [out for name in gone for out in outs[name]])  # also what is there by half
    failed = ", ".join(name for name in session.config.arms if name not in rest.config.arms)
    rest = replace(rest, notice="; ".join(filter(None, [rest.notice, f"failed, and not compared: {failed}"])))
    say(f"compared without what failed: {', '.join(rest.config.arms)}")
    recording.keep_only(rest.config)
    try:
        outcomes = bring_all(rest, recording, {"pull": failure.outcomes["pull"]})
        before = {name: one for name, one in failure.outcomes.items() if one is not Outcome.UNCHANGED}
        summary = conclude(rest, recording, {**outcomes, **before}, failure.failed)
    except (PivotRLError, OSError) as error:  # what failed first is what is told first
        return f"the other arms could not be compared: {error}"
    failure.compared = summary.to_json()
    told = f"the other arms were compared and recorded:\n\n{summary.text()}"
    try:
        finish(rest)
    except (PivotRLError, OSError) as error:
        return f"{told}\n\nwhat the next run starts from could not be kept: {error}"
    return told

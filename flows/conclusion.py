"""The end of a run: report, record, MLflow, data to the remote, and the lines that a person reads last."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flows.session import Session
from flows.terminal import say
from pivotrl_core.config.folders import COMPARISON
from pivotrl_core.errors import PivotRLError
from pivotrl_core.files import read_json, write_json
from tasks.dvc_lock import LOCK_NAME, read_lock, results_digest
from tasks.graph import Outcome, default_remote, push
from tasks.last_good import starts_in
from tasks.provenance import Provenance, changed_since, collect_provenance, record_run
from tasks.repository import RUN_REFS, Repository
from tasks.scratch import prune_scratch
from tasks.settings import State
from tasks.spending import spending_text
from tasks.tracking.flow_run import Recording

log = logging.getLogger(__name__)

NOTHING: Mapping[str, str] = {}
TABLE = f"{COMPARISON}/table.md"


@dataclass(frozen=True, slots=True)
class Summary:
    """What a finished run says. `recorded` is False where the run named here had recorded this result before."""

    run_id: str
    recorded: bool
    executed: int
    unchanged: int
    restored: int
    commit: str
    report: str
    table: str
    spent: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def text(self) -> str:
        """The last lines of a command."""
        counts = f"{self.executed} stages executed, {self.restored} restored, {self.unchanged} unchanged"
        what = "finished" if self.recorded else "has this result already"
        lines = [self.table.rstrip(), "", f"{counts}; run {self.run_id} {what}"]
        lines += [f"spent:   {self.spent}"] if self.spent else []
        lines += [f"record:  {self.commit}  (pivotrl reproduce {self.run_id})"] if self.commit else []
        lines += [f"report:  {self.report}"] if self.report else []
        return "\n".join([*lines, "runs:    make ui    (MLflow on the finished runs; also: pivotrl ui)"]).lstrip("\n")


def conclude(
    session: Session, recording: Recording, outcomes: Mapping[str, Outcome], failed: Mapping[str, str] = NOTHING
) -> Summary:
    """Record a finished run, unless it executed nothing and its result is recorded already: then MLflow has it too.

    Args:
        session: Of the run.
        recording: Its side of MLflow.
        outcomes: What became of each stage.
        failed: What became of stages of arms that are no longer in the session.
    """
    lock = read_lock(session.root / LOCK_NAME)
    digest = results_digest(lock, outcomes)
    known = _find_recorded(session, digest)
    spent = spending_text(session.root, outcomes)
    counts = {one: sum(outcome is one for name, outcome in outcomes.items() if name != "pull") for one in Outcome}
    if known is not None and not counts[Outcome.RAN]:
        recording.discard()
        return Summary(**{**known, "recorded": False, "executed": 0, "unchanged": counts[Outcome.UNCHANGED],
                          "restored": counts[Outcome.RESTORED], "spent": spent})  # fmt: skip
    table = _table(session.root)
    provenance = collect_provenance(session.root, session.config, session.run_id, session.snapshot)
    report = _write_report(session, provenance)
    stages = {**failed, **{name: str(one) for name, one in outcomes.items()}}
    changed = _changed_files(session)
    commit = record_run(session.root, provenance, session.snapshot, stages, changed, session.flow)
    recording.begin()
    recording.finish("FINISHED", table, session.folder, commit)
    _publish(session, table)
    _push(session)
    prune_scratch(session.root, session.state)
    summary = Summary(
        session.run_id,
        recorded=True,
        executed=counts[Outcome.RAN],
        unchanged=counts[Outcome.UNCHANGED],
        restored=counts[Outcome.RESTORED],
        commit=commit,
        report=report,
        table=table,
        spent=spent,
    )
    write_json(_recorded_file(session.state, digest), summary.to_json())
    return summary


def _changed_files(session: Session) -> list[str]:
    """What somebody changed in the checkout while the run worked in it. A worktree is nobody else's."""
    changed = changed_since(session.root, session.snapshot) if session.root == session.checkout else []
    if changed:
        say(f"changed while the run worked on them, and recorded as so changed: {', '.join(changed)}; stages may have "
            "used either state, so run again to be sure of the result")  # fmt: skip
    return changed


def _recorded_file(state: State, digest: str) -> Path:
    return state.runs / "recorded" / f"{digest}.json"


def _find_recorded(session: Session, digest: str) -> dict[str, Any] | None:
    """What the run that recorded this result said; None where there is none, or where its record has been let go."""
    path = _recorded_file(session.state, digest)
    known = dict(read_json(path)) if path.is_file() else None
    return known if known and Repository(session.root).resolve(RUN_REFS + known["run_id"]) else None


def _table(root: Path) -> str:
    return (root / TABLE).read_text(encoding="utf-8") if (root / TABLE).is_file() else ""


def _write_report(session: Session, provenance: Provenance) -> str:
    """The HTML report. A finished run is not lost for want of a picture: a failure is told and ends nothing."""
    try:
        from tasks.report import write_report

        return str(write_report(session.root, session.folder, provenance.to_json(), session.notice))
    except Exception as error:
        log.exception("the HTML report could not be written: %s", type(error).__name__)
        return ""


def _publish(session: Session, table: str) -> None:
    """Prefect's artifacts, which only show what is recorded already: a failure is told and ends nothing."""
    try:
        _publish_artifacts(session, table)
    except Exception as error:
        log.exception("the table could not be shown in Prefect: %s", type(error).__name__)


def _publish_artifacts(session: Session, table: str) -> None:
    """The table as Markdown, and its rows."""
    from prefect.artifacts import create_markdown_artifact, create_table_artifact

    if table:
        create_markdown_artifact(table, key="comparison-table", description=f"run {session.run_id}")
    path = session.root / "reports" / "compare" / "report.json"
    if path.is_file():
        rows = [_artifact_row(row) for row in read_json(path).get("rows", [])]
        create_table_artifact(rows, key="comparison", description=f"run {session.run_id}")


def _artifact_row(row: Mapping[str, Any]) -> dict[str, Any]:
    cells = {metric: cell.get("mean") for metric, cell in row.get("cells", {}).items()}
    return {"arm": row.get("arm"), "seeds": str(row.get("seeds")), **cells}


def _push(session: Session) -> None:
    """Give the remote what `reproduce` needs, and one that is not this checkout's own all results.

    The run stands where that fails.
    """
    remote = default_remote(session.root)
    if remote is None:
        return
    own = Path(remote).is_relative_to(session.checkout.resolve())  # beside the cache, which has all results already
    try:
        push(session.place, ["pull", *starts_in(session.root)] if own else [])
    except PivotRLError as error:
        record = f"{RUN_REFS}{session.run_id}"
        say(f"the results did not reach the remote: {error}; later, `dvc push` in a worktree of {record} brings them")

"""The end of a run: report, record, MLflow, data to the remote, and the lines that a person reads last."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from flows.session import Session
from flows.terminal import say
from pivotrl_core.errors import PivotRLError
from pivotrl_core.files import read_json, write_json
from tasks.differences import TIMINGS
from tasks.dvc_lock import LOCK_NAME, read_lock, results_digest
from tasks.graph import Outcome, default_remote, push
from tasks.last_good import starts_in
from tasks.provenance import Provenance, collect_provenance, record_run
from tasks.repository import RUN_REFS, Repository
from tasks.scratch import prune_scratch
from tasks.settings import State
from tasks.tracking.flow_run import Recording

log = logging.getLogger(__name__)

TABLE = Path("reports") / "compare" / "table.md"


@dataclass(frozen=True, slots=True)
class Summary:
    """What a finished run says. `recorded` is False where the run named here had recorded this result before.

    `spent` are the seconds of the stages that it executed, `reused` those that the others had taken in earlier runs.
    """

    run_id: str
    recorded: bool
    executed: int
    unchanged: int
    restored: int
    commit: str
    report: str
    table: str
    spent: float = 0.0
    reused: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def text(self) -> str:
        """The last lines of a command."""
        counts = f"{self.executed} stages executed, {self.restored} restored, {self.unchanged} unchanged"
        what = "finished" if self.recorded else "has this result already"
        lines = [self.table.rstrip(), "", f"{counts}; run {self.run_id} {what}"]
        reused = f"those reused had taken {self.reused / 60:,.1f}"
        lines += [f"time:    {self.spent / 60:,.1f} minutes in the stages executed; {reused}"]
        lines += [f"record:  {self.commit}  (pivotrl reproduce {self.run_id})"] if self.commit else []
        lines += [f"report:  {self.report}"] if self.report else []
        return "\n".join([*lines, "runs:    make ui    (MLflow on the finished runs; also: pivotrl ui)"]).lstrip("\n")


def conclude(
    session: Session, recording: Recording, outcomes: Mapping[str, Outcome], failed: Mapping[str, str] | None = None
) -> Summary:
    """Record a finished run, unless it executed nothing and its result is recorded already: then MLflow has it too.

    Args:
        session: The run.
        recording: Its side of MLflow.
        outcomes: What became of each stage of its graph.
        failed: Stages of arms that were left out of it, each with why; the record names them.
    """
    lock = read_lock(session.root / LOCK_NAME)
    digest = results_digest(lock, outcomes)
    known = _find_recorded(session, digest)
    counts = {one: sum(outcome is one for name, outcome in outcomes.items() if name != "pull") for one in Outcome}
    spent, reused = stage_seconds(session.root, outcomes)
    if known is not None and not counts[Outcome.RAN]:
        recording.discard()
        return Summary(**{**known, "recorded": False, "executed": 0, "unchanged": counts[Outcome.UNCHANGED],
                          "restored": counts[Outcome.RESTORED], "spent": spent, "reused": reused})  # fmt: skip
    if kept := _kept_notice(session.root):
        say(kept)
        session = replace(session, notice="; ".join(filter(None, [session.notice, kept])))
    stages = {**(failed or {}), **{name: str(one) for name, one in outcomes.items()}}
    table = _table(session.root)
    provenance = collect_provenance(session.root, session.config, session.run_id, session.snapshot)
    report = _write_report(session, provenance)
    commit = record_run(session.root, provenance, session.snapshot, stages)
    recording.begin()
    shown = f"{session.notice}\n\n{table}" if session.notice and table else table
    recording.finish("FINISHED", shown, session.folder, commit)
    _publish(session, shown)
    _push(session)
    prune_scratch(session.root, session.state)
    summary = Summary(session.run_id, True, counts[Outcome.RAN], counts[Outcome.UNCHANGED], counts[Outcome.RESTORED],
                      commit, report, table, spent, reused)  # fmt: skip
    write_json(_recorded_file(session.state, digest), summary.to_json())
    return summary


def stage_seconds(root: Path, outcomes: Mapping[str, Outcome]) -> tuple[float, float]:
    """Wall-clock seconds of the stages that this run executed, and those that the others took when they were."""
    spent = reused = 0.0
    for name, outcome in outcomes.items():
        timing = root / TIMINGS / f"{name.replace('@', '-')}.json"
        seconds = float(read_json(timing)["seconds"]) if timing.is_file() else 0.0
        spent, reused = (spent + seconds, reused) if outcome is Outcome.RAN else (spent, reused + seconds)
    return spent, reused


def _kept_notice(root: Path) -> str:
    """What the cost of a night leaves out, where it trains on from models of earlier ones."""
    kept = ", ".join(name.removesuffix(".dvc") for name in starts_in(root))
    left_out = f"what earlier nights spent on {kept}, where training starts from, is not in the cost"
    return left_out if kept else ""


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
        say(f"the results did not reach the remote: {error}")

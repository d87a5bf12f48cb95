"""Flow `reproduce`: execute every stage of a recorded run again, and say 'equal' or exactly what differs.

It works in a private worktree of the code of then, with the parameters of then, a DVC cache and a state of its own, so
that nothing is compared with itself. Only the pulled data come from outside: by hash, from the remote.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow, runtime

from flows.side_by_side import SideBySide, Waiting
from flows.terminal import LogEcho, say
from pivotrl_core.config.inputs import HubModel
from pivotrl_core.config.loading import load_config
from pivotrl_core.errors import PivotRLError
from pivotrl_core.files import read_json, write_text
from tasks.differences import Difference, compare_locks, compare_reports
from tasks.dvc_lock import LOCK_NAME, read_lock
from tasks.graph import Workplace, fetch_outputs, query_graph
from tasks.last_good import starts_in
from tasks.notify import tell_failure
from tasks.provenance import collect_provenance, report_files
from tasks.records import Record, find_record
from tasks.repository import GitError, Repository
from tasks.run_ids import new_run_id
from tasks.settings import State, apply_environment, child_environment, find_checkout, find_state
from tasks.stages import outcome_of
from tasks.sweepers import mark_flow_run
from tasks.worktree import own_state_folder, private_worktree, set_remote

_SAME_MACHINE = ("python", "machine", "torch", "transformers", "numpy")


class NotReproducedError(PivotRLError):
    """A reproduction differs from its record. The message lists every difference."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a reproduction."""

    run_id: str
    commit: str
    executed: int
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]

    def text(self) -> str:
        """'equal', or every difference on a line of its own."""
        head = f"run {self.run_id} ({self.commit[:12]}): {self.executed} stages executed again"
        notes = [f"note: {note}" for note in self.notes]
        if not self.differences:
            return "\n".join([*notes, f"{head}: equal"])
        lines = [f"  {difference}" for difference in self.differences]
        return "\n".join([*notes, f"{head}: {len(lines)} differences", *lines])


@flow(name="reproduce", flow_run_name="reproduce-{name}", persist_result=False, validate_parameters=False)
def reproduce(name: str, checkout: str = "", remote: str = "") -> dict[str, Any]:
    """Reproduce a recorded run. Raises NotReproducedError where it differs. Whatever fails is told once.

    Args:
        name: Run id, commit, or MLflow run id.
        checkout: Any checkout of the repository (default: the one around the working folder).
        remote: Folder or URL of the DVC remote to take the data from (default: the repository's own).
    """
    root = Path(checkout) if checkout else find_checkout()
    apply_environment(find_state(root))
    run_id = f"reproduce-{new_run_id()}"
    if runtime.flow_run.id:
        mark_flow_run(runtime.flow_run.id)
    try:
        verdict = reproduce_record(find_record(root, name), root, run_id, remote)
        if verdict.differences:
            raise NotReproducedError(verdict.text())
    except Exception as error:
        tell_failure(run_id, "reproduce", str(error), find_state(root).runs / run_id)
        raise
    return {"run_id": verdict.run_id, "commit": verdict.commit, "executed": verdict.executed, "text": verdict.text()}


def reproduce_record(record: Record, checkout: Path, run_id: str, remote: str = "") -> Verdict:
    """Execute every stage of a record again and compare.

    Without the project lock: worktree, cache and state are its own, so no other run's DVC calls meet these, and a long
    reproduction keeps nobody waiting.
    """
    state = find_state(checkout)
    with (
        _own_state(state, run_id) as own,
        private_worktree(checkout, state, run_id, record.snapshot, record.parameters(), own.cache) as root,
    ):
        place = _place(root, own, state.runs / run_id / "logs")
        _restore_data(place, checkout, remote)
        executed = _execute_all(place)
        differences = _differences(record, root, {"pull", *executed})
        return Verdict(record.run_id, record.commit, len(executed), differences, tuple(_notes(record, root, run_id)))


def _differences(record: Record, root: Path, stages: set[str]) -> tuple[Difference, ...]:
    """Of the stages of the graph. A record may hold more: outputs of arms that were removed before it was made."""
    recorded = {name: stage for name, stage in record.lock().items() if name in stages}
    found = {name: stage for name, stage in read_lock(root / LOCK_NAME).items() if name in stages}
    outs = tuple(f"{out}/" for stage in recorded.values() for out in stage.outs)
    reports = {path: value for path, value in record.reports().items() if path.startswith(outs)}
    paths = [path for path in report_files(root) if path.name == "report.json"]
    now = {path.relative_to(root).as_posix(): read_json(path) for path in paths}
    return (*compare_locks(recorded, found), *compare_reports(reports, now))


@contextmanager
def _own_state(state: State, run_id: str) -> Iterator[State]:
    """A state folder for the reproduction: no scratch and no cache of earlier work; converted models are an input."""
    folder = own_state_folder(state.worktrees / run_id)
    try:
        folder.mkdir(parents=True)
        state.models.mkdir(parents=True, exist_ok=True)
        (folder / "models").symlink_to(state.models)
        yield State(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _place(root: Path, own: State, logs: Path) -> Workplace:
    logs.mkdir(parents=True, exist_ok=True)
    offline = not isinstance(load_config(root / "params.yaml").model, HubModel)
    return Workplace(root, child_environment(root, own, offline=offline), logs)


def _restore_data(place: Workplace, checkout: Path, remote: str) -> None:
    """Bring data/pulled by the hash that dvc.lock names: from `remote`, from the default remote, or from origin's."""
    origin, targets = _origin_remote(checkout), ["pull", *starts_in(place.root)]
    if remote:
        set_remote(place.root, remote)
    try:
        fetch_outputs(place, targets)
    except PivotRLError:
        if remote or origin is None:
            raise
        say(f"the default remote has not the data; trying that of origin: {origin}")
        set_remote(place.root, str(origin))
        fetch_outputs(place, targets)


def _origin_remote(checkout: Path) -> Path | None:
    """The folder remote of the checkout that this one was cloned from, where that is on this machine."""
    try:
        url = Repository(checkout).text("config", "--get", "remote.origin.url").removeprefix("file://")
    except GitError:
        return None
    remote = Path(url) / ".state" / "dvc-remote"
    return remote if remote.is_dir() else None


def _execute_all(place: Workplace) -> list[str]:
    """Execute every stage but the frozen one, whatever DVC knows, side by side where none needs the other."""
    write_text(place.root / LOCK_NAME, _only_pull(place.root))
    executed: list[str] = []
    waiting = Waiting(query_graph(place.root))
    with SideBySide(place, load_config(place.root / "params.yaml")) as at_work:
        while True:
            while at_work.has_room and (status := waiting.take()) is not None:
                say(f"{status.name}: started")
                at_work.begin(status, LogEcho(place.logs / f"{status.name}.log").poll, force=True)
            if at_work.is_idle:
                return executed
            ended = at_work.next_ended()
            say(f"{ended.status.name}: {outcome_of(ended.state)}")
            executed.append(ended.status.name)
            waiting.settle(ended.status.name)


def _only_pull(root: Path) -> str:
    """dvc.lock with nothing but the restored data: what is in it at the end, the reproduction has put there."""
    from ruamel.yaml import YAML

    reader = YAML(typ="safe", pure=True)
    value = reader.load((root / LOCK_NAME).read_text(encoding="utf-8"))
    value["stages"] = {"pull": value["stages"]["pull"]}
    out = io.StringIO()
    reader.dump(value, out)
    return out.getvalue()


def _notes(record: Record, root: Path, run_id: str) -> list[str]:
    """What of the surroundings is not as it was; equality is promised on the same kind of machine only."""
    now = collect_provenance(root, load_config(root / "params.yaml"), run_id, record.snapshot)
    recorded = record.facts.get("versions", {})
    notes = [
        f"{key} was {recorded.get(key)} and is {now.versions.get(key)}"
        for key in _SAME_MACHINE
        if recorded.get(key) != now.versions.get(key)
    ]
    if record.facts.get("config_digest") != now.config_digest:
        notes.append("the parameters are not those of the record")
    if changed := record.facts.get("changed_while_running"):
        notes.append(
            f"files were changed while the recorded run worked, and it may have used both: {', '.join(changed)}"
        )
    return notes

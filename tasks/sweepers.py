"""What a run that was killed left behind is put right when the next one starts.

SIGKILL runs no hooks: Prefect would show such a flow run as RUNNING for good, and nobody would be told. Every flow run
of ours carries the identity of its process as a tag, so that a dead one is known for certain.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks.notify import tell_again, tell_failure
from tasks.processes import ProcessIdentity, this_process
from tasks.run_ids import is_run_id, made_run_id
from tasks.settings import State
from tasks.worktree import sweep_worktrees

_TAG = "pivotrl-process:"


def process_tag() -> str:
    """Tag that says which process a flow run lives in."""
    return f"{_TAG}{this_process()}"


def mark_flow_run(flow_run_id: Any) -> None:
    """Give the running flow run its process tag, keeping the tags it has."""
    from prefect import get_client

    with get_client(sync_client=True) as client:
        known = client.read_flow_run(flow_run_id).tags
        client.update_flow_run(flow_run_id, tags=sorted({*known, process_tag()}))


def sweep_flow_runs(runs: Path) -> list[str]:
    """Tell of flow runs that claim to run in a dead process, and set them to Crashed. Returns their names.

    Args:
        runs: The folder of runs, which remembers what has been told of each.
    """
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.states import Crashed

    running = FlowRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING", "CANCELLING"]}}})
    swept = []
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=running, limit=200):
            process = _process_of(run.tags)
            if process is not None and process.is_dead():
                message = f"its process {process.pid} on {process.host} is gone"
                _tell(
                    run, str(client.read_flow(run.flow_id).name), f"{message}: killed, or the machine went down", runs
                )
                client.set_flow_run_state(run.id, Crashed(message=message), force=True)
                swept.append(str(run.name))
    return swept


def _tell(run: Any, flow: str, message: str, runs: Path) -> None:
    """Tell of a dead flow run, unless it did so itself before it died: its run's folder remembers that.

    A flow run of `reproduce` bears the name of the run that it reproduces, whose folder is not its own.
    """
    found = None if flow == "reproduce" else _run_id_of(run)
    run_id, folder = (found, found) if found else (str(run.name), str(run.id))
    tell_failure(run_id, flow, message, runs / folder)


def _run_id_of(run: Any) -> str | None:
    """The run id that a flow run was given, or the one that was made for it and stands in its name."""
    given = str((run.parameters or {}).get("run_id") or "")
    return given if is_run_id(given) else made_run_id(str(run.name))


def _process_of(tags: list[str]) -> ProcessIdentity | None:
    for tag in tags:
        if tag.startswith(_TAG):
            return ProcessIdentity.from_text(tag.removeprefix(_TAG))
    return None


def sweep_dead(checkout: Path, state: State) -> list[str]:
    """Sweep flow runs and worktrees of dead runs, and tell what is still to tell. Returns a line for each thing swept.

    To be called with the project lock held: a worktree that is just being made is not mistaken for a dead one.
    """
    tell_again(state.runs)
    lines = [f"flow run {name}: set to Crashed" for name in sweep_flow_runs(state.runs)]
    return lines + [f"worktree {name}: removed" for name in sweep_worktrees(checkout, state)]

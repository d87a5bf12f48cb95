"""What the command line does around a flow: environment, a Prefect API, the flow, and the last lines."""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.request import NO_WARMUP, Request, model_settings, parse_setting, trajectory_settings
from flows.terminal import show_warnings
from pivotrl_core.addresses import without_credentials
from pivotrl_core.config.folders import PULLED
from tasks.settings import State, apply_environment, find_checkout, find_state


def make_request(
    *,
    trajectories: Path | None = None,
    model: str = "",
    arms: str = "",
    settings: Sequence[str] | None = None,
    quick: bool = False,
    params: Path | None = None,
) -> Request:
    """A request from the options of a command; those that it does not have are left out."""
    values: dict[str, Any] = {}
    if trajectories is not None:
        values.update(trajectory_settings(trajectories))
    if model:
        values.update(model_settings(model))
    own = dict(parse_setting(text) for text in settings or ())
    if "source.warmup_path" in own:
        values.pop(NO_WARMUP, None)
    names = tuple(name.strip() for name in arms.split(",") if name.strip())
    return Request({**values, **own}, names, quick, str(params.expanduser().resolve()) if params else "")


def _prepare() -> tuple[Path, State]:
    root = find_checkout()
    state = find_state(root)
    state.root.mkdir(parents=True, exist_ok=True)
    if "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL" not in os.environ:  # whoever sets it has a console of Prefect's
        show_warnings()
    apply_environment(state)
    os.chdir(root)
    return root, state


def launch(flow: str, request: Request, as_json: bool) -> str:
    """Run one of the flows `run`, `sweep`, `nightly`. Returns what to print.

    Raises:
        ChainFailedError: Stages failed. With `as_json`, what became of them is printed first.
    """
    root, state = _prepare()
    from flows.chain import ChainFailedError
    from flows.session import load_request
    from tasks.run_ids import new_run_id
    from tasks.server import prefect_api

    load_request(root, request)  # wrong parameters are refused before anything starts
    with prefect_api(state):
        module = importlib.import_module(f"flows.{flow}")
        try:
            result = getattr(module, flow)(request=request.to_json(), run_id=new_run_id(), checkout=str(root))
        except ChainFailedError as failure:
            if as_json:
                print(_json(failure.to_json()), flush=True)
            raise
    from flows.conclusion import Summary

    return _json(result) if as_json else Summary(**result).text()


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True)


def launch_reproduction(name: str, remote: str) -> str:
    """Run the flow `reproduce`. Returns what to print."""
    if remote and "://" not in remote:  # a folder, which DVC would look for in the worktree's .dvc/
        remote = str(Path(remote).expanduser().resolve())
    root, state = _prepare()
    from tasks.records import find_record
    from tasks.server import prefect_api

    find_record(root, name)  # an unknown name is refused before anything starts
    with prefect_api(state):
        from flows.reproduce import reproduce

        return str(reproduce(name=name, checkout=str(root), remote=remote)["text"])


def launch_serving(cron: str, timezone: str, request: Request) -> None:
    """Serve the nightly deployment until stopped. What is wrong with schedule or server is told before that."""
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "INFO")
    root, _ = _prepare()
    from flows.session import load_request
    from pivotrl_core.errors import ConfigError

    load_request(root, request)
    from flows.serve import check_schedule, serve_nightly
    from tasks.server import API_VARIABLE, require_api

    check_schedule(cron, timezone)
    if not (server := os.environ.get(API_VARIABLE)):
        raise ConfigError(
            f"{API_VARIABLE} is not set: a schedule needs a server that stays; `prefect server start`, then set it"
        )
    require_api(server)
    serve_nightly(root, cron, timezone, request)


def pull_here(prune: bool = False) -> str:
    """Pull into the checkout or worktree, without DVC; under the project lock, so that no run's data change.

    With `prune` the next night, which has pulled data of its own, drops what is gone too.
    """
    from pivotrl_core.config.loading import load_config
    from tasks.project_lock import hold_lock
    from tasks.run_ids import new_run_id
    from tasks.settings import main_checkout
    from tasks.sources import pull_inputs

    root, state = _prepare()
    with hold_lock(state.lock, f"pull-{new_run_id()}"):
        if prune and state.nightly.is_dir():  # before anything is dropped here: a kill must not leave it to the nights
            state.prune_mark.touch()
        manifest = pull_inputs(load_config(root / "params.yaml"), root, main_checkout(root), prune)
    gone = sum(file.gone for file in manifest.files)
    kept = f", {gone} of them gone at the source (--prune drops those)" if gone else ""
    return f"{PULLED}: {len(manifest.files)} files{kept}"


def compare_names(a: str, b: str) -> str:
    """Two arms or runs side by side; runs that are not here are looked for at `origin`."""
    root, _ = _prepare()
    from pivotrl_core.errors import DataError
    from tasks.comparison import compare_runs
    from tasks.repository import GitError, Repository

    try:
        return compare_runs(a, b, root)
    except DataError as error:
        try:
            Repository(root).fetch_runs()
        except GitError:
            raise error from None  # which name is wrong says more than why `origin` cannot be asked
        return compare_runs(a, b, root)


def open_ui(port: int, rebuild: bool = False) -> None:
    """Replace this process by MLflow's server on the runs of this checkout, or say which server has them.

    Args:
        port: On the loopback interface.
        rebuild: Record runs that MLflow does not show first, from their reports.

    Raises:
        ConfigError: The port is taken.
    """
    root, state = _prepare()
    from tasks.tracking.database import STORE_VARIABLE

    uri = state.tracking_uri
    if rebuild:
        from tasks.tracking.rebuild import rebuild_runs

        rebuilt, failed = rebuild_runs(root, uri)
        none = "nothing" if failed else "nothing, MLflow shows every run"
        print(f"recorded anew: {', '.join(rebuilt) or none}", flush=True)
        if failed:
            print(f"could not be recorded (the reasons are above): {', '.join(failed)}", flush=True)
    if uri.startswith(("http://", "https://")):
        address = without_credentials(uri)
        print(f"the runs are on the MLflow server {address} (MLFLOW_TRACKING_URI): open that; nothing was started here")
        return
    _require_free(port)
    print(f"MLflow on http://127.0.0.1:{port} (end with Ctrl-C)", flush=True)
    command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    # The address may hold a password, and everybody on the machine can read a command line.
    os.execve(sys.executable, command, {**os.environ, STORE_VARIABLE: uri})  # noqa: S606 - no shell is meant


def _require_free(port: int) -> None:
    """Raises ConfigError where a port of the loopback interface is taken: MLflow would end with 0."""
    from pivotrl_core.errors import ConfigError

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a closed connection takes no port
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise ConfigError(f"port {port} of 127.0.0.1 cannot be used ({error}); name another with --port") from error


def collect() -> str:
    """Garbage collection, under the project lock: no run is looking at the cache meanwhile."""
    root, state = _prepare()
    from tasks.collection import collect_garbage
    from tasks.project_lock import hold_lock
    from tasks.run_ids import new_run_id

    with hold_lock(state.lock, f"gc-{new_run_id()}"):
        return collect_garbage(root, state)

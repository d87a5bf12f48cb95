"""The tracking store: opened with telemetry off, and created once, whoever comes first.

Several processes that open a fresh SQLite file at once race through MLflow's migrations and most of them fail. A file
lock around the first opening (schema, then experiment) removes the race; afterwards SQLite's own locking is enough.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pivotrl_core.errors import ConfigError

SQLITE = "sqlite:///"
STORE_VARIABLE = "MLFLOW_BACKEND_STORE_URI"  # from which `mlflow ui` takes the address, too
# `mlflow db upgrade` takes the address as an argument alone, and everybody on the machine can read a command line.
_UPGRADE = f"import os; from mlflow.cli import cli; cli(['db', 'upgrade', os.environ[{STORE_VARIABLE!r}]])"
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}


def open_client(uri: str) -> Any:
    """An `MlflowClient` on a store whose schema is in place. `uri` is sqlite:///PATH, postgresql://... or http(s)://..."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    from mlflow.tracking import MlflowClient

    with _first_opening(uri):
        return _opened(MlflowClient, uri)


def _opened(client_class: Any, uri: str) -> Any:
    from mlflow.exceptions import MlflowException

    client = client_class(tracking_uri=uri, registry_uri=uri)
    try:
        client.search_experiments(max_results=1)
    except MlflowException as error:
        if "out-of-date database schema" not in str(error):
            raise
        environment = {**os.environ, STORE_VARIABLE: uri}
        done = subprocess.run([sys.executable, "-c", _UPGRADE], env=environment, check=False, capture_output=True)
        if done.returncode != 0:  # neither the command nor what it printed is shown: the address may hold a password
            message = (
                f"MLflow's database is of an older version and `mlflow db upgrade` failed (exit {done.returncode})"
            )
            raise ConfigError(f"{message}; run it by hand on a copy") from None
        client = client_class(tracking_uri=uri, registry_uri=uri)
        client.search_experiments(max_results=1)
    client.search_registered_models(max_results=1)
    return client


def experiment_id(client: Any, uri: str, name: str) -> str:
    """Id of the experiment, created where missing. On SQLite its artifacts lie in `mlartifacts` beside the file."""
    with _first_opening(uri):
        found = client.get_experiment_by_name(name)
        if found is None:
            return str(client.create_experiment(name, artifact_location=_artifact_root(uri)))
        if found.lifecycle_stage == "deleted":
            client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)


def _artifact_root(uri: str) -> str | None:
    path = _sqlite_path(uri)
    return None if path is None else (path.parent / "mlartifacts").as_uri()


def _sqlite_path(uri: str) -> Path | None:
    return Path(uri.removeprefix(SQLITE)).absolute() if uri.startswith(SQLITE) else None


@contextmanager
def _first_opening(uri: str) -> Iterator[None]:
    """Hold the lock file beside a SQLite store; a server does its own locking."""
    path = _sqlite_path(uri)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / f"{path.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

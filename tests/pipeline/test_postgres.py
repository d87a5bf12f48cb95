"""MLflow on a real PostgreSQL, as the compose file runs it: started here, on a socket of its own, gone afterwards."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_USER = "postgres"  # the server refuses to run as root; Debian's package makes this account


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parent.parent.name))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _why_not() -> str | None:
    if _binaries() is None:
        return "no PostgreSQL server installed (Debian: apt-get install postgresql)"
    if shutil.which("setpriv") is None:
        return "setpriv (util-linux) is missing"
    if importlib.util.find_spec("psycopg2") is None:
        return "psycopg2 is not installed"
    if os.geteuid() == 0 and not any(entry.pw_name == _USER for entry in pwd.getpwall()):
        return f"running as root and there is no account {_USER!r}"
    return None


def _as_owner() -> list[str]:
    """Prefix of a command: drop root, and be told to stop when the tests die (a change of user clears that wish)."""
    drop = [f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *drop, "--pdeathsig=INT", "--"]


@pytest.fixture
def postgres_uri() -> Iterator[str]:
    """The URI of an empty database."""
    reason = _why_not()
    if reason:
        pytest.skip(reason)
    binaries = _binaries()
    assert binaries is not None
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short (a socket's path is limited) and open to another account
    if os.geteuid() == 0:
        shutil.chown(folder, _USER, _USER)
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    create = [binaries / "initdb", "-D", folder / "data", "-U", "mlflow", "--auth=trust", "--no-sync", "-E", "UTF8"]
    serve = [
        binaries / "postgres", "-D", folder / "data", "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off",
    ]  # fmt: skip
    server: subprocess.Popen[bytes] | None = None
    try:
        subprocess.run(
            [*_as_owner(), *create], cwd=folder, env=environment, check=True, capture_output=True, timeout=60
        )
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen([*_as_owner(), *serve], cwd=folder, env=environment, stdout=log, stderr=log)
        _make_database(folder, server)
        yield f"postgresql+psycopg2://mlflow@/mlflow?host={folder}"
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # fast shutdown: disconnects clients
            server.wait(30)
        shutil.rmtree(folder)


def _make_database(folder: Path, server: subprocess.Popen[bytes]) -> None:
    import psycopg2

    deadline = time.monotonic() + 30
    while True:
        try:
            connection = psycopg2.connect(host=str(folder), user="mlflow", dbname="postgres")
            break
        except psycopg2.OperationalError:
            assert server.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE mlflow")
    connection.close()


UPGRADE_LOG_AND_SEARCH = """
import sys
from mlflow.cli import cli
from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient

for _ in range(2):  # a second upgrade, as at every start of the server, changes nothing
    cli.main(["db", "upgrade", sys.argv[1]], standalone_mode=False)
client = MlflowClient(tracking_uri=sys.argv[1])
experiment = client.create_experiment("pivotrl", artifact_location=sys.argv[2])
parent = client.create_run(experiment).info.run_id
child = client.create_run(experiment, tags={"mlflow.parentRunId": parent}).info.run_id
steps = [Metric("train/reward_mean", 0.5 + i / 100, 1_700_000_000_000 + i, i) for i in range(50)]
client.log_batch(child, steps, [Param("select.lambda_diff", "0.6")], [RunTag("pivotrl.arm", "pivotrl")])
client.log_text(child, "table", "report.md")
client.set_terminated(child)

query = f"tags.`mlflow.parentRunId` = '{parent}' and metrics.`train/reward_mean` > 0.98"
found = client.search_runs([experiment], query)
assert [run.info.run_id for run in found] == [child], found
assert found[0].data.params == {"select.lambda_diff": "0.6"}
assert [m.step for m in client.get_metric_history(child, "train/reward_mean")] == list(range(50))
assert client.search_runs([experiment], "params.`select.lambda_diff` = '0.4'") == []
client.create_registered_model("helpdesk")
version = client.create_model_version("helpdesk", source=sys.argv[2] + "/model", run_id=child)
client.set_registered_model_alias("helpdesk", "champion", version.version)
assert client.get_model_version_by_alias("helpdesk", "champion").run_id == child
print("all found")
"""


@pytest.mark.slow
def test_runs_and_models_are_written_to_and_found_in_postgresql(postgres_uri, tmp_path):
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1"}
    command = [sys.executable, "-c", UPGRADE_LOG_AND_SEARCH, postgres_uri, (tmp_path / "artifacts").as_uri()]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("all found")

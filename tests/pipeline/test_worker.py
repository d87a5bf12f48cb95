"""What infra/ deploys, carried out: its bootstrap script, a real Prefect server, and a real worker of the pool.

The small pipeline's checkout holds a copy of the project's code here, as the one that a worker is given does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from pivotrl_core.files import read_json
from tasks.repository import RUN_REFS, Repository
from tasks.settings import find_state

from .conftest import PATIENCE, ROOT, calls, git, running, wait_for
from .test_killed_run import _prepare, _tracked

CODE = ("flows", "tasks", "pivotrl_core", "infra")
# Each stage writes down the processes that it descends from, its parent first.
ANCESTORS = """
import psutil
ancestors = [one.pid for one in psutil.Process().parents()]
(out(sys.argv[0]).resolve().parent / "ancestors.json").write_text(json.dumps(ancestors))
data = """


def _prepare_with_code(root: Path) -> Path:
    """A checkout of the small pipeline that has the flows and infra/ in it."""
    _prepare(root, seconds=0.0)
    for name in CODE:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    program = root / "program.py"
    program.write_text(program.read_text().replace("\ndata = ", ANCESTORS))
    with (root / ".gitignore").open("a") as ignored:
        ignored.write("/ancestors.json\n__pycache__/\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "with the code")
    return root


def _environment(root: Path) -> dict[str, str]:
    """Of a machine that knows the server's address, and nothing of another test's store."""
    ours = ("MLFLOW", "PIVOTRL", "DVC")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**inherited, "PYTHONPATH": str(root), "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "INFO"}


def _in_the_file() -> dict[str, Any]:
    """Entry point, schedules and limit of each deployment, as infra/prefect.yaml has them."""
    deployments = yaml.safe_load((ROOT / "infra" / "prefect.yaml").read_text())["deployments"]
    schedules = {
        one["name"]: [(each["cron"], each["timezone"], each["active"]) for each in one.get("schedules", [])]
        for one in deployments
    }
    return {
        one["name"]: (one["entrypoint"], schedules[one["name"]], one["concurrency_limit"]["limit"])
        for one in deployments
    }


def _on_the_server(client: Any) -> dict[str, Any]:
    """The same of the deployments in the pool, as the server has them."""
    found = [one for one in client.read_deployments() if one.work_pool_name == "pivotrl"]
    schedules = {
        one.name: [(each.schedule.cron, each.schedule.timezone, each.active) for each in one.schedules] for one in found
    }
    return {one.name: (one.entrypoint, schedules[one.name], one.global_concurrency_limit.limit) for one in found}


def _ended(client: Any, flow_run: Any) -> Any | None:
    """The flow run once it has ended."""
    found = client.read_flow_run(flow_run.id)
    return found if found.state.is_final() else None


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_worker_of_the_bootstrapped_pool_carries_out_a_deployed_run(tmp_path: Path) -> None:
    from prefect import get_client

    root = _prepare_with_code(tmp_path / "checkout")
    bootstrap, environment = str(root / "infra" / "bootstrap.sh"), _environment(root)
    subprocess.run([bootstrap], cwd=tmp_path, env=environment, check=True, timeout=PATIENCE)
    with get_client(sync_client=True) as client:
        assert client.read_work_pool("pivotrl").type == "process"
        deployment = client.read_deployment_by_name("run/run")
        ordered = client.create_flow_run_from_deployment(deployment.id)
        with running([bootstrap, "--worker"], tmp_path, environment, tmp_path / "worker.log") as guardian:
            run = wait_for(lambda: _ended(client, ordered), "the end of the deployed run")
            (worker,) = psutil.Process(guardian.pid).children()
            wait_for(lambda: not worker.children(), "the end of the flow's process")
        assert not worker.is_running()
        assert _on_the_server(client) == _in_the_file()  # the script has run twice, and nothing is there twice

    # The run is the deployment's, and its stages descend from the process that this worker started for it.
    assert str(run.state_name) == "Completed"
    assert (run.deployment_id, run.work_pool_name) == (deployment.id, "pivotrl")
    ancestors = read_json(root / "ancestors.json")
    assert ancestors[ancestors.index(guardian.pid) - 2 :][:2] == [int(run.infrastructure_pid), worker.pid]

    # It worked in the checkout that the deployment names, and is recorded and tracked there.
    trained = [f"train {key} models/base" for key in ("pivotrl-0", "sft-0")]
    assert sorted(calls(root)) == ["candidates", "compare", *trained, "warmup"]
    assert Repository(root).resolve(f"{RUN_REFS}{run.name}") is not None
    assert _tracked(find_state(root)) == [("pivotrl-0", "FINISHED"), ("run", "FINISHED"), ("sft-0", "FINISHED")]

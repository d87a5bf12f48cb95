"""The schedule, end to end: a cron run of a real Prefect server picks up a new file, and MLflow has a new run.

Real are the server, the command line, DVC, git, MLflow, and the stages that read and profile (on a tiny model); what
follows them is the small pipeline's. The first night is started by hand, so that only one has to wait for its minute.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.environments.recording import to_openai_row
from pivotrl_core.files import file_digest, read_json, write_jsonl
from tasks.server import free_port, wait_for_http
from tasks.settings import TELEMETRY_OFF, State

from .conftest import DVC_YAML, PARAMS, PATIENCE, ROOT, git, make_checkout, running, wait_for

PIVOTRL = str(Path(sys.executable).with_name("pivotrl"))
READING = """
  candidates:
    cmd: pivotrl stage candidates
    deps: [data/pulled]
    params: [data]
    outs: [data/candidates]
  profile:
    foreach: ${profiles}
    do:
      cmd: pivotrl stage profile --key ${key}
      deps: [data/candidates, models/base]
      params: [profile, compute]
      outs: ["data/profiles/${key}"]
"""


def _prepare(root: Path, model: Path) -> Path:
    """A checkout that pulls from the folder `incoming`, whose candidates and profile are the real stages'."""
    make_checkout(root)
    before, _, rest = DVC_YAML.partition("  candidates:\n")
    (root / "dvc.yaml").write_text(before + READING.lstrip("\n") + rest[rest.index("  train:\n") :])
    params = PARAMS.replace("max_drop_share: 0.2", "max_drop_share: 0.2, validation_share: 0.0, test_share: 0.0")
    params = params.replace("samples: 8", "samples: 2, max_tokens: 4, block_trajectories: 2")
    settings = f"source: {{kind: folder, path: incoming}}\nmodel: {{kind: folder, path: {model}}}\n"
    (root / "params.yaml").write_text(settings + "compute: {threads: 1, dtype: float32}\n" + params)
    program = (root / "program.py").read_text()
    program = program.replace('out("data/pulled").iterdir())', 'out("data/pulled").rglob("*.json*"))')
    base = f'    write("models/base/policy.json", {{"path": {str(model)!r}}})\n'
    (root / "program.py").write_text(program.replace('if stage == "candidates"', f'{base}if stage == "candidates"'))
    git(root, "commit", "-qam", "the real stages that read and profile")
    return root


def _bring(root: Path, name: str, first: int, count: int) -> Path:
    """Put a file of trajectories into the source's folder."""
    from tests.toy_training import toy_trajectories

    path = root / "incoming" / name
    write_jsonl(path, [to_openai_row(one) for one in toy_trajectories(count, first)])
    return path


def _environment(folder: Path, port: int) -> dict[str, str]:
    """Of the server and of all that talk to it; nothing of another test's server or store."""
    ours = ("PREFECT", "MLFLOW", "PIVOTRL", "DVC")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {
        **inherited,
        **TELEMETRY_OFF,
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_RUNNER_POLL_FREQUENCY": "5",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }


def _first_scheduled_run(client: Any) -> Any | None:
    """The first run that the schedule made, once it has ended."""
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.client.schemas.sorting import FlowRunSort

    scheduled = FlowRunFilter.model_validate({"tags": {"all_": ["auto-scheduled"]}})
    runs = client.read_flow_runs(flow_run_filter=scheduled, sort=FlowRunSort.EXPECTED_START_TIME_ASC, limit=1)
    return runs[0] if runs and runs[0].state.is_final() else None


class _Store:
    """What MLflow's client says of the runs of the experiment `pivotrl`."""

    def __init__(self, state: State) -> None:
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient(tracking_uri=f"sqlite:///{state.root / 'mlflow.db'}")
        self.experiment = self.client.get_experiment_by_name("pivotrl").experiment_id

    def parents(self) -> list[Any]:
        """Parent runs, the oldest first."""
        runs = self.client.search_runs([self.experiment], order_by=["attributes.start_time ASC"])
        return [run for run in runs if "mlflow.parentRunId" not in run.data.tags]

    def child(self, parent: Any, name: str) -> Any:
        """The run of an arm and seed."""
        mine = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}' and attributes.run_name = '{name}'"
        (run,) = self.client.search_runs([self.experiment], mine)
        return run


def _listing(state: State, digest: str) -> set[str]:
    """Names of the files in a folder that DVC keeps under a digest."""
    return {str(entry["relpath"]) for entry in read_json(state.cache / "files" / "md5" / digest[:2] / digest[2:])}


def _check_blocks(state: State, nights: list[Any]) -> None:
    """What the first night profiled was found by the second, not made again."""
    run_ids = [one.data.tags["pivotrl.run_id"] for one in nights]
    profiles = [(state.runs / run_id / "logs" / "profile@base.log").read_text() for run_id in run_ids]
    assert "blocks: 2 computed, 0 found stored" in profiles[0]
    assert "blocks: 1 computed, 2 found stored" in profiles[1]
    written = sorted(path.stat().st_mtime * 1000 for path in (state.store / "profile-blocks").glob("*.parquet"))
    assert [moment < nights[0].info.end_time for moment in written] == [True, True, False]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_a_cron_run_picks_up_a_new_file_profiles_only_that_and_adds_a_run_to_mlflow(
    tmp_path: Path, tiny_llama: Path
) -> None:
    from prefect.client.orchestration import SyncPrefectClient

    port = free_port()
    environment = _environment(tmp_path, port)
    url = environment["PREFECT_API_URL"]
    server, nightly, serve = (tmp_path / f"{name}.log" for name in ("server", "nightly", "serve"))
    start = ["-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui"]
    with running([sys.executable, *start], tmp_path, environment, server) as api:
        root = _prepare(tmp_path / "checkout", tiny_llama)
        state = State(root / ".state")
        _bring(root, "a.jsonl", first=0, count=4)
        wait_for_http(f"{url}/health", api, server, PATIENCE)
        with running([PIVOTRL, "nightly"], root, environment, nightly) as night:
            # The file comes when the first night has pulled. A minute that falls before its end waits for that end.
            wait_for(lambda: night.poll() or list(state.runs.glob("*/logs/candidates.log")), "the first night's pull")
            new = _bring(root, "b.jsonl", first=4, count=2)
            command = [PIVOTRL, "serve", "--cron", "* * * * *", "--timezone", "Europe/Berlin"]
            with running(command, root, environment, serve), SyncPrefectClient(url) as client:
                assert night.wait(PATIENCE) == 0
                run = wait_for(lambda: _first_scheduled_run(client), "the end of a run of the schedule")
                deployment = client.read_deployment_by_name("nightly/nightly")
                manual = [one for one in client.read_flow_runs() if one.deployment_id is None]

    # The schedule made it, for a full minute; the first night is the only one that was started by hand.
    assert str(run.state_name) == "Completed", run.state
    assert (run.auto_scheduled, run.created_by.type, run.deployment_id) == (True, "SCHEDULE", deployment.id)
    assert run.expected_start_time.second == 0
    assert [(one.auto_scheduled, one.flow_id) for one in manual] == [(False, run.flow_id)]

    # MLflow has one more parent, which is this run's; the data that it names hold the new file, and are profiled.
    store = _Store(state)
    first, second = nights = store.parents()
    assert [one.info.status for one in nights] == ["FINISHED", "FINISHED"]
    assert [first.info.run_name, second.info.run_name] == [manual[0].name, run.name]
    assert run.name == f"nightly-{second.data.tags['pivotrl.run_id']}"
    pulled = [one.data.tags["pivotrl.inputs.data/pulled"] for one in nights]
    assert _listing(state, pulled[1]) - _listing(state, pulled[0]) == {f"train/b.{file_digest(new)[:12]}.jsonl"}
    children = [store.child(one, "pivotrl-0") for one in nights]
    assert [[one.dataset.digest for one in child.inputs.dataset_inputs] for child in children] == [[d] for d in pulled]
    assert [child.data.metrics["profile/candidates"] for child in children] == [8.0, 12.0]
    _check_blocks(state, nights)

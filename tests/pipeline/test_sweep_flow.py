"""The flow `sweep` as a worker starts it: with an empty request it is a sweep all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from flows.sweep import sweep
from tasks.repository import RUN_REFS

from .conftest import git
from .test_killed_run import _prepare


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_a_deployed_sweep_runs_arms_that_the_parameters_do_not_have(tmp_path: Path) -> None:
    root = _prepare(tmp_path / "checkout", seconds=0.0)
    program = root / "program.py"
    program.write_text(program.read_text().replace("key.replace('-', '/')", "'/'.join(key.rsplit('-', 1))"))
    git(root, "commit", "-qam", "arms with dashes")
    request = {"arms": ["sft", "pivotrl", "lambda-04"]}  # three of a sweep's arms, to be done soon
    result = sweep(request=request, run_id="20260314-020000-9f3a", checkout=str(root))
    graph = yaml.safe_load(git(root, "show", f"{RUN_REFS}{result['run_id']}:graph.yaml"))
    assert list(graph["trains"]) == ["sft-0", "pivotrl-0", "lambda-04-0"]
    assert "lambda-04" not in (root / "graph.yaml").read_text()

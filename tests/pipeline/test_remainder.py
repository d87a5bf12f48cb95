"""A sweep or a night in which an arm fails: the others are compared and recorded, and the failure is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from flows.chain import ChainFailedError, Plan
from flows.remainder import lost_arms
from flows.request import Request
from tasks.repository import RUN_REFS, Repository

from .conftest import calls, git
from .test_run_flow import _flow, _pull, _tag, _tracked

pytestmark = pytest.mark.usefixtures("prefect_server")


def _breaking(root: Path, arm: str) -> Path:
    """The small pipeline with a comparison over the whole folder, as ours is, in which one arm writes and fails."""
    dvc = (root / "dvc.yaml").read_text().replace("reports/train/sft-0, reports/train/pivotrl-0", "reports/train")
    (root / "dvc.yaml").write_text(dvc.replace("[reports/train, ", "[reports/train, graph.yaml, "))
    program = (root / "program.py").read_text()
    fails = f'    if key == "{arm}-0":\n        sys.exit("the weights are no numbers")\n    begun ='
    (root / "program.py").write_text(program.replace("    begun =", fails))
    git(root, "commit", "-qam", "an arm that fails")
    return root


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_the_arms_beside_a_failed_one_are_compared_and_recorded(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _breaking(checkout, "pivotrl")
    plan = Plan(keep_going=True)
    with pytest.raises(ChainFailedError, match="the weights are no numbers"):
        _flow("sweep", pull=_pull(a="one"), plan=plan, private=True, tracked=True)(checkout, "run-1", Request())
    assert calls(checkout) == []  # all of it was in a worktree
    assert "failed, and not in this comparison: pivotrl" in capsys.readouterr().err

    commit = Repository(checkout).resolve(f"{RUN_REFS}run-1")
    assert commit is not None
    assert list(yaml.safe_load(git(checkout, "show", f"{commit}:graph.yaml"))["trains"]) == ["sft-0"]
    assert "pivotrl" not in yaml.safe_load(git(checkout, "show", f"{commit}:params.yaml"))["arms"]
    stages = json.loads(git(checkout, "show", f"{commit}:run.json"))["stages"]
    assert (stages["train@sft-0"], stages["train@pivotrl-0"], stages["compare"]) == ("ran", "failed", "ran")
    recorded = git(checkout, "ls-tree", "-r", "--name-only", commit, "reports").split()
    assert "reports/compare/table.md" in recorded
    assert not [path for path in recorded if "pivotrl-0" in path]  # what it had written before it failed
    assert _tracked(checkout) == {"sweep-run-1": "FINISHED"}
    note = _tag(checkout, "sweep-run-1", "mlflow.note.content")
    assert note.startswith("failed, and not in this comparison: pivotrl\n\n| arm |")


def test_where_no_trained_arm_is_left_nothing_is_compared(checkout: Path) -> None:
    program = (checkout / "program.py").read_text()
    (checkout / "program.py").write_text(program.replace("    begun =", '    sys.exit("wrong")\n    begun ='))
    plan = Plan(keep_going=True)
    with pytest.raises(ChainFailedError, match="wrong"):
        _flow("sweep", pull=_pull(a="one"), plan=plan, private=True)(checkout, "run-1", Request())
    assert Repository(checkout).resolve(f"{RUN_REFS}run-1") is None


def test_an_arm_is_lost_with_any_of_its_stages() -> None:
    graph = {
        "profiles": {"base": {"policy": "models/base"}},
        "selects": {"x": {"arm": "x", "profile": "base"}, "y": {"arm": "y", "profile": "base"}},
        "trains": {"x-0": {"arm": "x"}, "x-1": {"arm": "x"}, "y-0": {"arm": "y"}},
        "evaluates": {"base-0": {"arm": "base"}, "x-0": {"arm": "x"}, "x-1": {"arm": "x"}, "y-0": {"arm": "y"}},
        "compares": {"pools": "data/pools"},
    }
    assert lost_arms(graph, ["train@x-1", "evaluate@x-1", "compare"]) == ["x"]
    assert lost_arms(graph, ["evaluate@base-0", "select@y", "compare"]) == ["y", "base"]
    assert lost_arms(graph, ["compare"]) == []

"""A stage that is run by hand works on a graph.yaml that follows from params.yaml, or says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.doctor import examination_text, examine
from flows.request import Request, read_values
from flows.stage_program import run_stage_program
from pivotrl_core.config.graph import derive_graph, write_graph
from pivotrl_core.config.loading import load_config, parse_config
from pivotrl_core.errors import EXIT_CONFIG, ConfigError
from pivotrl_core.files import read_json
from tasks.memory import LARGE_PAGES
from tasks.run_reports import read_run
from tests.report_files import write_reports

from .conftest import ROOT, pull_text

STALE = "graph.yaml does not follow from the arms and seeds of params.yaml; `pivotrl graph`"


def _change(path: Path, key: str, value: Any) -> None:
    tree = yaml.safe_load(path.read_text())
    *sections, last = key.split("/")
    inner = tree
    for name in sections:
        inner = inner[name]
    inner[last] = value
    path.write_text(yaml.safe_dump(tree, sort_keys=False))


@pytest.fixture
def root(checkout: Path) -> Path:
    """A checkout with the reports of a finished run, and the graph that follows from its parameters."""
    root = write_reports(checkout)
    pull_text(root, a="one")
    write_graph(load_config(root / "params.yaml"), root / "graph.yaml")
    (root / "reports" / "compare" / "report.json").unlink()
    return root


def _compared(root: Path) -> list[str]:
    run_stage_program(root, "compare")
    return [row["arm"] for row in read_json(root / "reports" / "compare" / "report.json")["rows"]]


def test_the_stage_runs_on_a_graph_that_follows_from_the_parameters(root: Path) -> None:
    assert _compared(root) == ["base", "sft", "pivotrl"]


def test_a_key_for_a_stage_that_takes_none_is_an_error_that_names_it(root: Path) -> None:
    with pytest.raises(ConfigError, match="stage compare: takes no --key, found 'base'; only profile, select"):
        run_stage_program(root, "compare", "base")


def test_a_graph_with_marks_of_a_merge_says_how_to_write_it_anew(root: Path) -> None:
    text = (root / "graph.yaml").read_text()
    (root / "graph.yaml").write_text(f"<<<<<<< ours\n{text}=======\n{text}>>>>>>> theirs\n")
    for ask in (lambda: run_stage_program(root, "compare"), lambda: read_run(root)):
        with pytest.raises(ConfigError, match=r"graph\.yaml: not readable; `pivotrl graph` writes it anew"):
            ask()
    write_graph(load_config(root / "params.yaml"), root / "graph.yaml")
    assert (root / "graph.yaml").read_text() == text


def test_a_stage_takes_large_pages_unless_told_otherwise(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, value = LARGE_PAGES
    monkeypatch.setenv(name, "0")
    _compared(root)
    assert os.environ[name] == "0"
    monkeypatch.delenv(name)
    _compared(root)
    assert os.environ[name] == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seeds", [0, 1]),
        ("arms/new", {"select": {"rule": "all"}, "train": {"method": "sft"}}),
        ("arms/sft/train/start", "pivotrl"),
    ],
)
def test_a_graph_of_other_arms_or_seeds_is_refused_before_the_stage_runs(
    root: Path, key: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _change(root / "params.yaml", key, value)
    with pytest.raises(ConfigError, match=STALE):
        run_stage_program(root, "compare")
    monkeypatch.chdir(root)
    assert "note  graph.yaml: old  ->  pivotrl graph" in examination_text(examine())
    write_graph(load_config(root / "params.yaml"), root / "graph.yaml")
    with pytest.raises(Exception, match="report"):  # the graph is right now; these reports have not been written
        run_stage_program(root, "compare")


@pytest.mark.parametrize("text", ["", "[1]\n", "trains: [x]\n", "trains: {sft-0: x}\n"])
def test_a_graph_that_is_none_is_refused(root: Path, text: str) -> None:
    (root / "graph.yaml").write_text(text)
    with pytest.raises(ConfigError, match=STALE):
        run_stage_program(root, "compare")


def test_a_night_may_start_an_arm_from_its_own_kept_model_and_from_no_other(root: Path) -> None:
    _change(root / "graph.yaml", "trains/sft-0/start", "last-good/sft-0")
    assert _compared(root) == ["base", "sft", "pivotrl"]
    _change(root / "graph.yaml", "trains/sft-0/start", "last-good/pivotrl-0")
    with pytest.raises(ConfigError, match=STALE):
        run_stage_program(root, "compare")


def test_a_graph_without_arms_that_cannot_play_is_compared_without_them(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = root / "params.yaml"
    _change(params, "source", {"kind": "folder", "path": "incoming"})
    _change(params, "arms/e2e", {"select": {"rule": "all"}, "train": {"method": "e2e"}})
    values, lines = Request().fit(read_values(params))
    assert lines == ["arms left out, because source.environment names none to play in: e2e"]
    write_graph(parse_config(values), root / "graph.yaml")  # as the flow `run` does in the checkout
    assert "e2e" not in (root / "graph.yaml").read_text()
    monkeypatch.chdir(root)
    assert "ok    graph.yaml: current" in examination_text(examine())
    assert _compared(root) == ["base", "sft", "pivotrl"]


def test_by_hand_an_arm_that_cannot_play_stays_in_the_graph(root: Path) -> None:
    params = root / "params.yaml"
    _change(params, "source", {"kind": "folder", "path": "incoming"})
    _change(params, "arms/e2e", {"select": {"rule": "all"}, "train": {"method": "e2e"}})
    write_graph(load_config(params), root / "graph.yaml")
    assert "e2e-0" in derive_graph(load_config(params))["trains"]
    with pytest.raises(Exception, match="e2e"):  # past the check of the graph: what this arm needs is not there
        run_stage_program(root, "compare")


@pytest.mark.parametrize(("stage", "started", "has"), [("train", 3, 2), ("train", 2, 1), ("compare", 2, 1)])
def test_another_number_of_processes_than_the_stage_has_is_refused(
    stage: str, started: int, has: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _change(root / "params.yaml", "compute", {"processes": has})
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": str(started), "RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"started {started} processes, and this stage has {has}; set compute.proc"):
        run_stage_program(root, stage, "sft-0" if stage == "train" else "")


def test_a_training_of_several_processes_starts_them_and_ends_with_the_code_of_what_fails(root: Path) -> None:
    _change(root / "params.yaml", "compute", {"processes": 2})
    command = [sys.executable, "-m", "flows.cli", "stage", "train", "--key", "sft-0"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == EXIT_CONFIG, done.stderr
    # The first rank alone looks for a checkpoint, and finds that the inputs are not there; the other one waits for it.
    assert done.stderr.count("error: stage train@sft-0: dependency 'data/candidates' does not exist") == 1
    assert "error: a process of this stage failed, and all were ended" in done.stderr

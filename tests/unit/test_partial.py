"""What is left to compare after failures is a graph that its stages accept, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.partial import without_failed
from flows.request import Request, read_values, values_text
from flows.session import Session
from flows.stage_program import read_graph
from flows.sweep import sweep_request
from pivotrl_core.config.graph import derive_graph
from pivotrl_core.config.loading import parse_config
from tasks.graph import Workplace
from tasks.provenance import Snapshot
from tasks.settings import State

ROOT = Path(__file__).resolve().parents[2]


def _session(root: Path) -> Session:
    """A sweep over two seeds, one of whose trainings starts from a kept model."""
    values = sweep_request(Request(), (0.4,), (0, 1)).apply(read_values(ROOT / "params.yaml"))
    config = parse_config(values)
    graph = derive_graph(config)
    graph["trains"]["pivotrl-0"]["start"] = "last-good/pivotrl-0"
    (root / "params.yaml").write_text(values_text(values))
    (root / "graph.yaml").write_text(values_text(graph))
    place = Workplace(root, {}, root / "logs")
    return Session("sweep", "run-1", ROOT, State(root / ".state"), config, Snapshot("", b""), place)


def test_arms_that_a_failure_left_whole_stay_with_what_they_start_from(tmp_path: Path) -> None:
    session = _session(tmp_path)
    failed = ["train@sft-1", "evaluate@sft-1", "profile@sft-1", "train@sft-pivotrl-1", "compare"]
    rest = without_failed(session, failed)
    assert rest is not None
    assert set(session.config.arms) - set(rest.config.arms) == {"sft", "sft-pivotrl"}
    graph, config = read_graph(tmp_path)  # as a stage reads it
    assert config == rest.config
    assert graph["trains"]["pivotrl-0"]["start"] == "last-good/pivotrl-0"
    assert set(graph["profiles"]) == {"base"}


@pytest.mark.parametrize(
    "failed", [["warmup"], ["profile@base", "compare"], ["compare"], ["train@sft-0", "candidates"]]
)
def test_nothing_is_left_where_what_arms_share_has_failed(tmp_path: Path, failed: list[str]) -> None:
    assert without_failed(_session(tmp_path), failed) is None

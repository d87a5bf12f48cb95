"""PIVOTRL_STATE moves our state; results stay in the one cache that the checkout's DVC settings name."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.request import Request
from tasks.collection import collect_garbage
from tasks.settings import STATE_VARIABLE, State

from .test_run_flow import _flow, _pull

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_a_run_with_overrides_knows_what_a_plain_run_has_computed(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "elsewhere"))
    _flow("run", pull=_pull(a="one"))(checkout, "run-1", Request())
    other = Request({"tracking.experiment": "another"})  # a parameter that no stage depends on
    second = _flow("run", pull=_pull(a="one"))(checkout, "run-2", other)
    assert second.executed == 0
    assert not State(tmp_path / "elsewhere").cache.exists()
    assert collect_garbage(checkout, State(tmp_path / "elsewhere")).startswith("0 files")
    (checkout / "dvc.lock").unlink()
    (checkout / ".git" / "refs" / "pivotrl" / "runs" / "run-1").unlink()
    assert not collect_garbage(checkout, State(tmp_path / "elsewhere")).startswith("0 files")

"""The end of a run: what only shows a recorded result may fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.conclusion import Summary, _publish, stage_seconds
from flows.session import Session
from pivotrl_core.config.loading import load_config
from pivotrl_core.files import write_json
from tasks.graph import Outcome, Workplace
from tasks.provenance import take_snapshot
from tasks.settings import State


@pytest.mark.filterwarnings("ignore:Artifact creation outside of a flow:FutureWarning")
def test_a_prefect_server_that_is_gone_ends_no_run_that_is_recorded(
    checkout: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    place = Workplace(checkout, {}, checkout / "logs")
    config, snapshot = load_config(checkout / "params.yaml"), take_snapshot(checkout)
    session = Session("run", "run-1", checkout, State(checkout / ".state"), config, snapshot, place)
    write_json(checkout / "reports" / "compare" / "report.json", {"rows": []})
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api", PREFECT_CLIENT_MAX_RETRIES: 0}):
        _publish(session, "| a |\n|---|\n")
    assert "could not be shown in Prefect: ConnectError" in caplog.text


def test_what_a_run_spent_and_what_its_reused_stages_had_taken_are_two_numbers(tmp_path: Path) -> None:
    for name, seconds in {"candidates": 30.0, "profile-base": 600.0, "train-x-0": 90.0, "train-gone-0": 7.0}.items():
        write_json(tmp_path / "reports" / "timings" / f"{name}.json", {"stage": name, "seconds": seconds})
    outcomes = {"pull": Outcome.RAN, "candidates": Outcome.UNCHANGED, "profile@base": Outcome.RESTORED}
    spent, reused = stage_seconds(tmp_path, {**outcomes, "train@x-0": Outcome.RAN})
    assert (spent, reused) == (90.0, 630.0)
    summary = Summary("run-1", True, 1, 1, 1, "", "", "", spent, reused)
    assert "time:    1.5 minutes in the stages executed; those reused had taken 10.5" in summary.text()

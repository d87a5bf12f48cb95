"""The end of a run: what only shows a recorded result may fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.conclusion import _publish
from flows.session import Session
from pivotrl_core.config.loading import load_config
from pivotrl_core.files import write_json
from tasks.graph import Workplace
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

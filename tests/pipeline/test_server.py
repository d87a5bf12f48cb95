"""A Prefect server for the time of one command: where it cannot start, that is told at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tasks.server import ServerStartError, prefect_api
from tasks.settings import State


def test_a_server_that_ends_at_its_start_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", "nonsense://x")
    begun = time.monotonic()
    with (
        pytest.raises(ServerStartError, match=r"(?s)ended at its start \(exit 1\).*nonsense"),
        prefect_api(State(tmp_path), patience=600.0),
    ):
        pass
    assert time.monotonic() - begun < 300.0

"""A Prefect server for the time of one command: where it cannot start, that is told at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pivotrl_core.errors import ConfigError, TemporaryError
from tasks.server import ServerStartError, prefect_api, require_api
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


def test_a_server_that_is_named_and_not_there_is_told_with_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://someone:hid-den@127.0.0.1:9/api")
    with (
        pytest.raises(TemporaryError, match=r"http://127\.0\.0\.1:9/api, which PREFECT_API_URL names") as caught,
        prefect_api(State(tmp_path)),
    ):
        pass
    assert "hid-den" not in str(caught.value)
    for text in ("nonsense", "file:///etc/hostname"):
        with pytest.raises(ConfigError, match="PREFECT_API_URL"):
            require_api(text)


def test_a_server_that_is_there_is_taken_as_it_is(prefect_server: str, tmp_path: Path) -> None:
    with prefect_api(State(tmp_path)) as url:
        assert url == prefect_server

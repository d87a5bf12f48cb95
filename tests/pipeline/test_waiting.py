"""What waits for the project lock, and what it sees when its turn has come."""

from __future__ import annotations

import contextvars
import threading
from pathlib import Path

import pytest

from flows.launch import compare_names, launch_reproduction, pull_here
from flows.request import Request
from flows.session import open_session
from pivotrl_core.errors import DataError
from tasks import sources
from tasks.project_lock import hold_lock, read_holder
from tasks.settings import State

from .conftest import git

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_a_run_that_waited_takes_the_parameters_of_when_its_turn_comes(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, params = State(checkout / ".state"), checkout / "params.yaml"
    said, arms = threading.Event(), list[str]()
    monkeypatch.setattr("flows.session.say", lambda _: said.set())

    def work() -> None:
        with open_session("run", checkout, Request(), "run-2") as session:
            arms.extend(session.config.arms)

    with hold_lock(state.lock, "run-1"):
        waiting = threading.Thread(target=contextvars.copy_context().run, args=(work,))  # Prefect's settings go along
        waiting.start()
        assert said.wait(60)  # it waits, and has read its parameters
        params.write_text(params.read_text().replace("sft:", "renamed:"))
    waiting.join(60)
    assert arms == ["base", "renamed", "pivotrl"]
    assert "renamed-0" in (checkout / "graph.yaml").read_text()


def test_a_pull_by_hand_changes_no_data_under_a_run(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holders = []

    def pull_inputs(*_: object) -> object:
        holders.append(read_holder(State(checkout / ".state").lock))
        return type("Manifest", (), {"files": ()})()

    monkeypatch.setattr(sources, "pull_inputs", pull_inputs)
    monkeypatch.chdir(checkout)
    pull_here()
    assert holders[0] is not None
    assert holders[0].run_id.startswith("pull-")


def test_a_wrong_name_is_told_also_where_origin_cannot_be_asked(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(checkout, "remote", "add", "origin", str(checkout / "nowhere"))
    monkeypatch.chdir(checkout)
    with pytest.raises(DataError, match="no-such-run: no arm of this checkout, no run id, no commit and no MLflow"):
        compare_names("no-such-run", "sft")


def test_the_remote_of_a_reproduction_is_relative_to_the_folder_one_stands_in(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def reproduce(**options: str) -> dict[str, str]:
        asked.append(options["remote"])
        return {"text": ""}

    monkeypatch.setattr("tasks.records.find_record", lambda *_: None)
    monkeypatch.setattr("flows.reproduce.reproduce", reproduce)
    (checkout / "below").mkdir()
    monkeypatch.chdir(checkout / "below")
    for remote in ("../backup", "s3://bucket/data", ""):
        launch_reproduction("run-1", remote)
        monkeypatch.chdir(checkout / "below")
    assert asked == [str(checkout / "backup"), "s3://bucket/data", ""]

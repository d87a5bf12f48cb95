"""DVC is asked once for the whole graph, and stages run as supervised children."""

from __future__ import annotations

from pathlib import Path
from threading import Timer

import pytest
from dvc.repo import Repo

from tasks.dvc_lock import LockFileError, read_lock
from tasks.graph import (
    DataTransferError,
    DvcBusyError,
    GraphError,
    Outcome,
    Workplace,
    commit_pull,
    fetch_outputs,
    is_changed,
    missing_parameters,
    push,
    query_graph,
    run_stage,
    stage_digest,
)
from tasks.settings import State, child_environment, dvc_cache
from tasks.supervision import StageFailedError

from .conftest import calls, pull_text


def _place(root: Path) -> Workplace:
    state = State(root / ".state")
    return Workplace(root, child_environment(root, state, offline=True), state.runs / "r" / "logs")


def test_the_query_lists_stages_in_order_with_what_is_changed(checkout: Path) -> None:
    pull_text(checkout, a="one two")
    graph = query_graph(checkout)
    assert [status.name for status in graph] == [
        "pull",
        "warmup",
        "candidates",
        "train@sft-0",
        "train@pivotrl-0",
        "compare",
    ]
    assert [status.frozen for status in graph] == [True, *[False] * 5]
    assert all(status.changed for status in graph)
    assert graph[3].deps == ("candidates", "pull", "warmup")
    assert graph[3].outs == ("models/sft/0", "reports/train/sft-0")


def test_a_stage_runs_once_then_is_unchanged_then_comes_back_from_the_run_cache(checkout: Path) -> None:
    place = _place(checkout)
    pull_text(checkout, a="one two")
    assert commit_pull(place)
    assert not commit_pull(place)
    digest = stage_digest(checkout, "candidates")
    assert run_stage(place, "candidates") is Outcome.RAN
    assert read_lock(checkout / "dvc.lock")["candidates"].digest == digest
    assert not is_changed(checkout, "candidates")
    assert run_stage(place, "candidates") is Outcome.UNCHANGED
    (checkout / "data" / "candidates" / "report.json").unlink()
    assert is_changed(checkout, "candidates")
    assert run_stage(place, "candidates") is Outcome.RESTORED
    assert calls(checkout) == ["candidates"]
    assert run_stage(place, "candidates", force=True) is Outcome.RAN


def test_the_exit_code_of_the_program_inside_dvc_comes_through(checkout: Path) -> None:
    place = _place(checkout)
    pull_text(checkout, a="one", **{"break": ""})
    commit_pull(place)
    run_stage(place, "warmup")
    run_stage(place, "candidates")
    with pytest.raises(StageFailedError, match="the row is wrong") as caught:
        run_stage(place, "train@sft-0")
    assert caught.value.code == caught.value.exit_code == 65
    assert not caught.value.retryable


def test_what_cannot_be_put_into_the_cache_is_a_failure_though_dvc_ends_with_0(checkout: Path) -> None:
    place = _place(checkout)
    pull_text(checkout, a="one two")
    commit_pull(place)
    _block_cache(checkout)
    with pytest.raises(StageFailedError, match="could not be put into DVC's cache") as caught:
        run_stage(place, "candidates")
    assert not caught.value.retryable
    pull_text(checkout, a="one two three")
    with pytest.raises(DataTransferError, match="could not be put into DVC's cache"):
        commit_pull(place)
    _open_cache(checkout)
    assert commit_pull(place)
    assert run_stage(place, "candidates") is Outcome.RAN
    assert run_stage(place, "candidates") is Outcome.UNCHANGED


def test_a_single_file_that_cannot_be_put_into_the_cache_is_a_failure_that_says_so(checkout: Path) -> None:
    graph, program, timings = checkout / "dvc.yaml", checkout / "program.py", "reports/timings/candidates.json"
    graph.write_text(graph.read_text().replace("outs: [data/candidates]", f"outs: [data/candidates, {timings}]"))
    program.write_text(f"{program.read_text()}\nif stage == 'candidates': write('{timings}', '{{}}')\n")
    place = _place(checkout)
    pull_text(checkout, a="one two")
    commit_pull(place)
    (dvc_cache(checkout) / "files" / "md5" / "99").symlink_to("/proc/nowhere")  # the MD5 of {} begins so
    with pytest.raises(StageFailedError, match="could not be put into DVC's cache"):
        run_stage(place, "candidates")


def _block_cache(checkout: Path) -> None:
    """Links to nowhere where the cache would have its folders: what root cannot write to either."""
    for number in range(256):
        place = dvc_cache(checkout) / "files" / "md5" / f"{number:02x}"
        if not place.exists():
            place.symlink_to("/proc/nowhere")


def _open_cache(checkout: Path) -> None:
    for place in (dvc_cache(checkout) / "files" / "md5").iterdir():
        if place.is_symlink():
            place.unlink()


def test_pulled_data_go_to_the_remote_and_come_back_by_hash(checkout: Path) -> None:
    place = _place(checkout)
    pull_text(checkout, a="one two")
    commit_pull(place)
    push(place, ["pull"])
    (checkout / "data" / "pulled" / "a").unlink()
    fetch_outputs(place, ["pull"])
    assert (checkout / "data" / "pulled" / "a").read_text() == "one two"


def test_a_graph_that_makes_no_sense_is_a_clear_error(checkout: Path) -> None:
    (checkout / "graph.yaml").write_text("trains: {}\n")
    (checkout / "dvc.yaml").write_text("stages: {x: {nonsense: 1}}\n")
    with pytest.raises(GraphError, match=r"dvc\.yaml"):
        query_graph(checkout)


def test_a_dvc_command_of_somebody_s_own_is_waited_for(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dvc.lock.DEFAULT_TIMEOUT", 0.3)  # seconds that DVC itself tries for
    with Repo(str(checkout)) as other:
        other.lock.lock()
        release = Timer(1.0, other.lock.unlock)
        release.start()
        assert query_graph(checkout)
        release.join()
        monkeypatch.setattr("tasks.graph.LOCK_SECONDS", 0.0)
        with other.lock:
            for ask in (lambda: is_changed(checkout, "warmup"), lambda: missing_parameters(checkout)):
                with pytest.raises(DvcBusyError, match="wait for it") as caught:
                    ask()
                assert caught.value.exit_code == 75


@pytest.mark.parametrize("size", [0, 9, 38])
def test_half_a_dvc_lock_is_a_clear_error_and_without_it_results_come_back(checkout: Path, size: int) -> None:
    place, lock = _place(checkout), checkout / "dvc.lock"
    pull_text(checkout, a="one two")
    commit_pull(place)
    run_stage(place, "candidates")
    lock.write_text(lock.read_text()[:size])  # a full disk: DVC writes it in place
    with pytest.raises(LockFileError, match="remove it"):
        read_lock(lock)
    for ask in (lambda: query_graph(checkout), lambda: is_changed(checkout, "candidates")):
        with pytest.raises(GraphError, match=r"dvc\.lock: remove it"):
            ask()
    lock.unlink()
    assert commit_pull(place)
    assert run_stage(place, "candidates") is Outcome.RESTORED
    assert calls(checkout) == ["candidates"]


def test_what_dvc_is_called_for_has_the_hours_that_its_message_names(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIVOTRL_STAGE_HOURS", "0.00002")  # 72 ms: less than DVC needs to start
    with pytest.raises(DataTransferError, match="raise PIVOTRL_STAGE_HOURS"):
        push(_place(checkout))

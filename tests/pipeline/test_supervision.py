"""A supervised command leaves nothing behind, however it, or we, end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pivotrl_core.errors import ConfigError
from pivotrl_core.processes import end_guarded, last_lines
from tasks.supervision import (
    DISK_FULL,
    LEAST_FREE,
    Limits,
    StageFailedError,
    run_supervised,
    stage_deadline,
    start_guarded,
)

ROOT = Path(__file__).resolve().parents[2]
TREE = """
import os, subprocess, sys, time
inner = "import os, sys, time; open(sys.argv[1], 'a').write(f'{os.getpid()}\\\\n'); time.sleep(300)"
for session in (False, True):
    subprocess.Popen([sys.executable, "-c", inner, sys.argv[1]], start_new_session=session)
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
time.sleep(300)
"""


def _wait_for_pids(path: Path, count: int) -> list[int]:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        lines = path.read_text().split() if path.exists() else []
        if len(lines) == count:
            return [int(line) for line in lines]
        time.sleep(0.02)
    raise AssertionError("the tree did not start")


def _gone(pids: list[int], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids):
            return True
        time.sleep(0.02)
    return False


def _tree(pids: Path) -> list[str]:
    return [sys.executable, "-c", TREE, str(pids)]


def test_a_full_disk_ends_the_command_and_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids, free = tmp_path / "pids", [1 << 30]
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("tasks.supervision.shutil.disk_usage", lambda folder: usage._replace(free=free[0]))

    def fill() -> None:
        if pids.exists() and len(pids.read_text().split()) == 3:
            free[0] = LEAST_FREE - 1

    code = run_supervised(_tree(pids), tmp_path, os.environ, tmp_path / "log", poll=fill)
    assert code == DISK_FULL
    assert _gone([int(pid) for pid in pids.read_text().split()])
    error = StageFailedError("train@x-0", code, tmp_path / "log", [])
    assert "the disk is full" in str(error)
    assert "pivotrl gc" in str(error)
    assert not error.retryable


def test_exit_code_and_output_of_a_command_come_back(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ["sh", "-c", "echo one; echo two >&2; exit 65"]
    assert run_supervised(command, tmp_path, os.environ, log) == 65
    assert last_lines(log) == ["one", "two"]


def test_a_command_ended_by_a_signal_says_which(tmp_path: Path) -> None:
    assert run_supervised(["sh", "-c", "kill -9 $$"], tmp_path, os.environ, tmp_path / "log") == 137


def test_a_missing_program_is_named_and_not_worth_a_retry(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = run_supervised(["/no/such/program"], tmp_path, os.environ, log)
    assert code == 127
    assert "/no/such/program" in log.read_text()
    assert not StageFailedError("x", code, log, []).retryable


def test_a_deadline_ends_the_whole_tree_also_what_left_its_session(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = run_supervised(_tree(pids), tmp_path, os.environ, tmp_path / "log", Limits(deadline=2.0, grace=1.0))
    assert code == 124
    assert _gone(_wait_for_pids(pids, 3))
    assert not StageFailedError("x", code, tmp_path / "log", []).retryable


def test_a_stage_has_the_hours_that_the_environment_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stage_deadline() == 24 * 3600.0
    monkeypatch.setenv("PIVOTRL_STAGE_HOURS", "0.0005")  # 1.8 s
    pids, log = tmp_path / "pids", tmp_path / "log"
    assert run_supervised(_tree(pids), tmp_path, os.environ, log) == 124
    assert "raise PIVOTRL_STAGE_HOURS (24 where not set)" in str(StageFailedError("x", 124, log, []))
    assert run_supervised(["sleep", "3"], tmp_path, os.environ, log, Limits()) == 0  # what is no stage has no deadline
    for text in ("soon", "0", "-1", "nan"):
        monkeypatch.setenv("PIVOTRL_STAGE_HOURS", text)
        with pytest.raises(ConfigError, match="PIVOTRL_STAGE_HOURS"):
            run_supervised(["true"], tmp_path, os.environ, log)


def test_a_command_that_ignores_term_is_killed_after_the_grace_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(300)"]
    started = time.monotonic()
    code = run_supervised(command, tmp_path, os.environ, tmp_path / "log", Limits(deadline=1.0, grace=0.5))
    assert code == 124
    assert time.monotonic() - started < 15


def test_children_that_a_finished_command_left_behind_are_ended(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 300 & echo $! > pids; exit 0"]
    assert run_supervised(command, tmp_path, os.environ, tmp_path / "log") == 0
    assert _gone([int((tmp_path / "pids").read_text())])


def test_the_tree_dies_when_its_parent_is_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = (
        "import os, sys; from pathlib import Path; from tasks.supervision import run_supervised;"
        f"run_supervised({_tree(pids)!r}, Path({str(tmp_path)!r}), os.environ, Path({str(tmp_path / 'log')!r}))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)})
    tree = _wait_for_pids(pids, 3)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert _gone(tree)


def test_an_exception_in_the_parent_ends_the_tree(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def interrupt() -> None:
        if pids.exists() and len(pids.read_text().split()) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_supervised(_tree(pids), tmp_path, os.environ, tmp_path / "log", Limits(grace=1.0), interrupt)
    assert _gone(_wait_for_pids(pids, 3))


def test_a_guarded_server_can_be_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with (
        (tmp_path / "log").open("wb") as log,
        start_guarded(_tree(pids), tmp_path, os.environ, log.fileno(), Limits()) as server,
    ):
        tree = _wait_for_pids(pids, 3)
        end_guarded(server, grace=1.0)
    assert _gone(tree)

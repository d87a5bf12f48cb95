"""The project lock: one holder, named to the others, freed by death."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pivotrl_core.files import read_json, write_json
from tasks.processes import this_process
from tasks.project_lock import LockedError, hold_lock, read_holder

ROOT = Path(__file__).resolve().parents[2]
HOLD = (
    "import sys, time; from pathlib import Path; from tasks.project_lock import hold_lock\n"
    "with hold_lock(Path(sys.argv[1]), sys.argv[2]):\n"
    "    print('held', flush=True); time.sleep(float(sys.argv[3]))\n"
)


def _holder(path: Path, run_id: str, seconds: float) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), run_id, str(seconds)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_the_lock_is_free_after_the_block_also_when_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(ZeroDivisionError), hold_lock(path, "r1"):
        raise ZeroDivisionError
    assert read_holder(path) is None


def test_who_does_not_wait_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with _holder(path, "run-one", 60) as other:
        with (
            pytest.raises(LockedError, match=rf"run run-one \(process {other.pid} on "),
            hold_lock(path, "run-two", wait=0),
        ):
            pass
        other.kill()


def test_a_holder_under_another_host_name_of_this_machine_frees_the_lock_by_its_death(tmp_path: Path) -> None:
    """As a container beside us has it, or the host around ours: one kernel, other names and numbers of processes."""
    path = tmp_path / "lock"
    program = f"import socket; socket.gethostname = lambda: 'worker'\n{HOLD}"
    command = [sys.executable, "-c", program, str(path), "run-one", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(LockedError, match="on worker"), hold_lock(path, "run-two", wait=0):
            pass
        other.kill()
        other.wait()
        with hold_lock(path, "run-two", wait=0) as mine:
            assert read_holder(path) == mine


def test_a_holder_without_the_file_of_its_life_is_taken_for_living(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    write_json(path, {**this_process().to_json(), "host": "worker", "run_id": "of an earlier version"})
    for _ in range(2):  # nor does asking make one
        with pytest.raises(LockedError), hold_lock(path, "run-two", wait=0):
            pass


def test_a_holder_of_another_machine_is_never_taken_for_dead_and_the_remedy_can_be_done(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    elsewhere = {**this_process().to_json(), "host": "elsewhere", "boot": "another", "run_id": "run-one"}
    write_json(path, elsewhere)
    told = f"where elsewhere is gone for good, remove {path}"
    with pytest.raises(LockedError, match=re.escape(told)), hold_lock(path, "run-two", wait=0):
        pass
    path.unlink()
    with hold_lock(path, "run-two", wait=0):
        pass


def test_who_waits_gets_the_lock_when_it_is_given_back(tmp_path: Path) -> None:
    path, words = tmp_path / "lock", list[str]()
    with _holder(path, "run-one", 1.0), hold_lock(path, "run-two", wait=30, say=words.append) as mine:
        assert read_holder(path) == mine
    assert len(words) == 1
    assert "run-one" in words[0]


def test_the_lock_of_a_killed_process_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with _holder(path, "run-one", 60) as other:
        other.kill()
        other.wait()
        with hold_lock(path, "run-two", wait=0) as mine:
            assert mine.run_id == "run-two"


def test_a_process_id_that_is_used_again_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold_lock(path, "run-one"):
        value = read_json(path)
    write_json(path, {**value, "started": value["started"] - 1000.0})
    with hold_lock(path, "run-two", wait=0):
        pass


def test_a_lock_of_another_host_is_never_broken(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    write_json(path, {"host": "elsewhere", "pid": 1, "started": 1.0, "run_id": "far"})
    with pytest.raises(LockedError, match="on elsewhere"), hold_lock(path, "near", wait=0):
        pass


def test_two_processes_never_hold_it_at_once(tmp_path: Path) -> None:
    path, log = tmp_path / "lock", tmp_path / "log"
    program = (
        "import sys, time; from pathlib import Path; from tasks.project_lock import hold_lock\n"
        "for n in range(5):\n"
        "    with hold_lock(Path(sys.argv[1]), sys.argv[2], say=lambda _: None), open(sys.argv[3], 'a') as f:\n"
        "        f.write('in\\n'); f.flush(); time.sleep(0.02); f.write('out\\n'); f.flush()\n"
    )
    arguments = [[sys.executable, "-c", program, str(path), name, str(log)] for name in ("a", "b", "c")]
    processes = [subprocess.Popen(a, env={**os.environ, "PYTHONPATH": str(ROOT)}) for a in arguments]
    end = time.monotonic() + 60
    assert [process.wait(end - time.monotonic()) for process in processes] == [0, 0, 0]
    assert log.read_text().split() == ["in", "out"] * 15


def test_a_clock_that_is_set_while_the_holder_runs_frees_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    with hold_lock(path, "run-one"):
        owner, booted = this_process(), psutil.boot_time()
        monkeypatch.setattr("psutil._pslinux.boot_time", lambda: booted + 60.0)
        with pytest.raises(LockedError, match="run-one"), hold_lock(path, "run-two", wait=0):
            pass
        assert not owner.is_dead()


def test_the_lock_of_before_a_restart_of_the_machine_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold_lock(path, "run-one"):
        write_json(path, {**read_json(path), "boot": "another"})
        with hold_lock(path, "run-two", wait=0):
            pass

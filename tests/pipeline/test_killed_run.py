"""`pivotrl run` as a person starts it, killed in the middle and started again, and once more for nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from flows.request import Request
from tasks.dvc_lock import LOCK_NAME, read_lock
from tasks.settings import State, find_state

from .conftest import ROOT, calls, git, make_checkout
from .test_run_flow import _flow

SETTINGS = "source: {kind: folder, path: incoming}\nmodel: {kind: folder, path: model}\n"


def _prepare(root: Path, seconds: float) -> Path:
    """A checkout that pulls from a folder, whose stages take their time."""
    make_checkout(root)
    (root / "params.yaml").write_text(SETTINGS + (root / "params.yaml").read_text())
    for name, text in {"incoming/a.jsonl": '{"x": 1}\n', "model/config.json": "{}\n"}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    program = (root / "program.py").read_text()
    program = program.replace("data = ", f"import time; time.sleep({seconds} if stage == 'train' else 0)\ndata = ")
    # data/pulled holds folders here: the real pull sorts its files into train/ and warmup/.
    program = program.replace('out("data/pulled").iterdir())', 'out("data/pulled").rglob("*") if p.is_file())')
    (root / "program.py").write_text(program)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "prepared")
    return root


def _start(root: Path) -> subprocess.Popen[str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("MLFLOW", "PIVOTRL"))}
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "run"],
        cwd=root,
        env={**inherited, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _finish(root: Path) -> str:
    process = _start(root)
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 0, text
    return text


def _kill_when(root: Path, *begun: str) -> None:
    """SIGKILL the process group of a run as soon as stages have begun."""
    process = _start(root)
    end = time.monotonic() + 90
    while not {*begun} <= {*calls(root)}:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _tracked(state: State) -> list[tuple[str, str]]:
    """Names and states of MLflow's runs: of children by arm and seed, of parents by their flow."""
    with closing(sqlite3.connect(state.root / "mlflow.db")) as database:
        runs = database.execute("select name, status from runs").fetchall()
    return sorted((name if name.endswith("-0") else name.partition("-")[0], status) for name, status in runs)


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_run_that_is_asked_to_end_ends_the_stages_at_work_at_once(tmp_path: Path) -> None:
    root = _prepare(tmp_path / "ended", seconds=120.0)
    process = _start(root)
    end = time.monotonic() + 90
    while len(calls(root)) < 4:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=60)
    assert process.returncode != 0, text
    at_work = [one for one in psutil.process_iter(["cmdline", "cwd"]) if one.info["cwd"] == str(root)]
    assert at_work == []
    assert not list((root / ".state").rglob("*.share"))


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_killed_run_goes_on_where_it_was_and_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    root = _prepare(tmp_path / "killed", seconds=3.0)
    trained = ["train pivotrl-0 models/base", "train sft-0 models/base"]
    _kill_when(root, *trained)  # both at work, side by side
    begun = calls(root)
    assert sorted(begun) == ["candidates", *trained, "warmup"]
    text = _finish(root)
    assert "left by a dead run: flow run" in text
    again = calls(root)[len(begun) :]
    assert (sorted(again[:2]), again[2:]) == (trained, ["compare"])  # the finished stages were not run again
    assert "3 stages executed, 0 restored, 2 unchanged" in text
    assert "| pivotrl | 1.0 |" in text
    tracked = _tracked(find_state(root))
    assert tracked == [("pivotrl-0", "FINISHED"), ("run", "FINISHED"), ("run", "KILLED"), ("sft-0", "FINISHED")] or (
        # The killed run had begun a child of its own when it had already passed on a metric.
        [name for name, status in tracked if status == "FINISHED"] == ["pivotrl-0", "run", "sft-0"]
    )

    assert "0 stages executed, 0 restored, 5 unchanged" in _finish(root)
    assert _tracked(find_state(root)) == tracked

    undisturbed = _prepare(tmp_path / "undisturbed", seconds=0.0)
    (undisturbed / "program.py").write_text((root / "program.py").read_text())
    git(undisturbed, "commit", "-qam", "same program")
    _flow("run")(undisturbed, "run-1", Request())
    locks = [{name: stage.outs for name, stage in read_lock(one / LOCK_NAME).items()} for one in (root, undisturbed)]
    assert locks[0] == locks[1]

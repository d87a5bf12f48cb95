"""`pivotrl serve-verifier` as a program: it answers, ends when it is told to, and leaves nothing running."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
ROW = {
    "responses_create_params": {"input": [{"role": "user", "content": "Call f."}], "tools": []},
    "expected_action": {"type": "function_call", "name": "f", "arguments": "{}"},
    "response": {"output": [{"type": "function_call", "name": "f", "arguments": "{}"}]},
}


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.05)
    return False


def is_there(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_the_program_serves_and_leaves_nothing_running(ending: signal.Signals, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PIVOTRL_STATE": str(tmp_path / "state")}
    options = ["--port", "0", "--processes", "1", "--compat", "nemo-gym"]
    command = [sys.executable, "-m", "flows.cli", "serve-verifier", *options]
    with (
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as program,
        ExitStack() as failure,
    ):
        failure.callback(program.kill)  # or leaving the block would wait for it
        assert program.stdout is not None
        url = program.stdout.readline().split()[2].rstrip(",")  # it says so once it listens, and at which port
        assert httpx.get(f"{url}/health", timeout=PATIENCE).status_code == 200
        reply = httpx.post(f"{url}/verify", json=ROW, timeout=PATIENCE)
        assert reply.json() == {**ROW, "reward": 1.0, "components": reply.json()["components"],
                                "category": "EXPECTED_TOOL_CALL"}  # fmt: skip
        assert json.loads(httpx.get(f"{url}/health").text)["compat"] is True
        children = psutil.Process(program.pid).children(recursive=True)
        assert children
        program.send_signal(ending)
        failure.pop_all()
    assert program.returncode in (0, -ending)
    assert eventually(lambda: not any(child.is_running() for child in children))
    assert not is_there(url)


def test_a_port_that_somebody_has_is_an_error_of_ours_before_anything_is_said(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PIVOTRL_STATE": str(tmp_path / "state")}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "flows.cli", "serve-verifier", "--port", str(port), "--processes", "1"]
        answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (78, "")
    assert answer.stderr.startswith(f"error: nothing can listen at http://127.0.0.1:{port} (Address already in use")

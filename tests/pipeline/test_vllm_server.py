"""A server of our own is up for its block and gone after it, however it or we end; failures are told with its log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pivotrl_core.config.engine import VLLMEngineConfig
from pivotrl_core.engines.protocol import Request, SamplingConfig
from pivotrl_core.engines.vllm_engine import Placement, vllm_engine
from pivotrl_core.engines.vllm_server import PYTHON_VARIABLE, Serving, serve, vllm_python
from pivotrl_core.errors import EXIT_TEMPORARY, ConfigError, EngineError, TemporaryError
from tests.vllm_stand_in import ROOT, StandIn

OWNER = """
import sys, time
from pathlib import Path
from tests.pipeline.test_vllm_server import SERVING, settings
from pivotrl_core.engines.vllm_server import serve
with serve(SERVING, settings(), Path(sys.argv[1]), Path(sys.argv[2])):
    print("up", flush=True)
    time.sleep(600)
"""
SERVING = Serving(Path("/model"), "float32", threads=1, gpu=False, lora_rank=12)


def settings(**changes: object) -> VLLMEngineConfig:
    return VLLMEngineConfig.model_validate({"kind": "vllm", "context_tokens": 512, "retries": 20, **changes})


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return StandIn(tmp_path / "environment", monkeypatch)


def python_of(stand_in: StandIn) -> Path:
    return vllm_python(str(stand_in.folder), ROOT)


def test_a_server_is_up_for_its_block_and_gone_with_its_children(stand_in: StandIn, tmp_path: Path) -> None:
    with serve(SERVING, settings(), python_of(stand_in), tmp_path / "log") as server:
        pids = stand_in.processes()
        assert all(psutil.pid_exists(pid) for pid in pids)
        server.check()
        command = psutil.Process(pids[0]).cmdline()
        listening = {one.laddr.ip for one in psutil.Process(pids[0]).net_connections() if one.status == "LISTEN"}
        assert server.key not in " ".join(command)
        assert server.key not in (tmp_path / "log").read_text()
    assert listening == {"127.0.0.1"}
    assert stand_in.is_gone()
    given = {name: command[command.index(name) + 1] for name in ("--dtype", "--max-model-len", "--host", "--model")}
    assert given == {"--dtype": "float32", "--max-model-len": "512", "--host": "127.0.0.1", "--model": "/model"}
    assert command[command.index("--max-lora-rank") + 1] == "16"  # the least that vLLM takes for 12
    assert {"--enable-prefix-caching", "--enforce-eager"} <= set(command)
    assert "--load-format" not in command


def test_an_error_in_the_block_ends_the_server(stand_in: StandIn, tmp_path: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        serve(SERVING, settings(), python_of(stand_in), tmp_path / "log"),
    ):
        _ = 1 / 0
    assert stand_in.is_gone()


def test_a_server_that_cannot_start_is_told_with_its_last_lines(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.tell("broken")
    with (
        pytest.raises(EngineError, match="ended instead of getting ready") as caught,
        serve(SERVING, settings(), python_of(stand_in), tmp_path / "log"),
    ):
        pass
    assert "stand-in: no such device" in str(caught.value)
    assert str(tmp_path / "log") in str(caught.value)


def test_a_server_that_is_not_ready_in_time_is_ended(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.tell("slow")
    with (
        pytest.raises(EngineError, match=r"not ready after 5 s; raise engine\.start_seconds"),
        serve(SERVING, settings(start_seconds=5.0), python_of(stand_in), tmp_path / "log"),
    ):
        pass
    assert stand_in.is_gone()


def test_a_server_that_dies_is_told_at_once_and_worth_a_retry(stand_in: StandIn, tmp_path: Path) -> None:
    place = Placement(ROOT, tmp_path)
    asked = settings(environment=str(stand_in.folder))
    with vllm_engine(asked, Serving(Path("/model"), "float32", 1, gpu=False), place, stop_id=1) as engine:
        assert engine.context_tokens == 4096
        os.kill(stand_in.processes()[0], signal.SIGKILL)
        with pytest.raises(TemporaryError, match=r"the vLLM server has died \(exit 137\)") as caught:
            engine.sample([Request("r", (5, 6), (0,))], SamplingConfig(1.0, 4))
    assert "stand-in: starting" in str(caught.value)
    assert caught.value.exit_code == EXIT_TEMPORARY
    assert stand_in.is_gone()


def test_where_we_are_killed_nothing_of_the_server_stays(stand_in: StandIn, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", OWNER, str(python_of(stand_in)), str(tmp_path / "log")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        assert all(psutil.pid_exists(pid) for pid in stand_in.processes())
        owner.kill()
    assert stand_in.is_gone()


def test_without_an_environment_it_is_said_how_to_build_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=r"engine\.environment: .*\.vllm; `make vllm` builds one"):
        vllm_python("", tmp_path)
    StandIn(tmp_path / "other", monkeypatch)
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "other"))
    assert vllm_python("", tmp_path) == tmp_path / "other/bin/python"
    with pytest.raises(ConfigError, match="elsewhere"):
        vllm_python("elsewhere", tmp_path)

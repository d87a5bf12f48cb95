"""A vLLM server of our own: in an environment of its own, on 127.0.0.1, gone when we are, however we end.

It runs under a guardian (processes.py), so that its whole tree of processes dies with us. Its HTTP port is open to this
machine's users: completions ask for a key that is made for each start, the routes that renew weights do not.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from pivotrl_core.config.engine import VLLMEngineConfig
from pivotrl_core.errors import ConfigError, EngineError, TemporaryError
from pivotrl_core.processes import end_guarded, last_lines, start_guarded

PYTHON_VARIABLE = "PIVOTRL_VLLM"
BUILT = ".vllm"  # in the checkout, by `make vllm`
PROGRAM = "vllm.entrypoints.openai.api_server"
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM takes as a largest rank
GRACE = 20.0  # seconds between asking it to end and killing it
POLL = 0.2
PORTS_TRIED = 3  # another program may take a free port before the server does
PORT_TAKEN = "address already in use"


@dataclass(frozen=True, slots=True)
class Serving:
    """What a server serves, and on what.

    Attributes:
        model: a Hugging Face folder with a whole model.
        lora_rank: largest rank of adapters that may be put on it; 0: none may.
        threads: of the processor; `gpu`: whether the model is on one.
        made_up: the folder holds no weights; the server makes some up, of the configured shape.
    """

    model: Path
    dtype: str
    threads: int
    gpu: bool
    lora_rank: int = 0
    made_up: bool = False


@dataclass(frozen=True, slots=True)
class VLLMServer:
    """A server that is up: its address, the name of its model, its key, and its watch."""

    root: str
    name: str
    key: str
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def endpoint(self) -> str:
        """The address of OpenAI's routes."""
        return f"{self.root}/v1"

    def check(self) -> None:
        """Raise TemporaryError, with the end of its log, where the server has died."""
        code = self.process.poll()
        if code is not None:
            raise TemporaryError(f"the vLLM server has died (exit {code}); {_told(self.log)}")


def vllm_python(environment: str, checkout: Path) -> Path:
    """The interpreter of the environment that vLLM is in: the named folder, the variable's, or what `make vllm` built.

    Raises:
        ConfigError: there is none.
    """
    named = environment or os.environ.get(PYTHON_VARIABLE, "")
    folder = checkout / Path(named or BUILT).expanduser()
    python = folder / "bin" / "python"
    if not python.is_file():
        raise ConfigError(
            f"engine.environment: no Python environment in {folder}; `make vllm` builds one, or name another there or "
            f"in the variable {PYTHON_VARIABLE}"
        )
    return python


@contextmanager
def serve(serving: Serving, settings: VLLMEngineConfig, python: Path, log: Path) -> Iterator[VLLMServer]:
    """A server for the time of the block.

    Raises:
        EngineError: it ends instead of getting ready, or is not ready in time. The message has the end of its log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(PORTS_TRIED):
        server = _start(serving, settings, python, log)
        try:
            if _is_ready(server, settings.start_seconds):
                yield server
                return
        finally:
            end_guarded(server.process, GRACE)
        if attempt + 1 == PORTS_TRIED or not any(PORT_TAKEN in line for line in last_lines(log)):
            raise EngineError(f"the vLLM server has ended instead of getting ready; {_told(log)}")


def _start(serving: Serving, settings: VLLMEngineConfig, python: Path, log: Path) -> VLLMServer:
    name, key = f"policy-{secrets.token_hex(4)}", secrets.token_hex(24)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(python), "-m", PROGRAM, *_arguments(serving, settings, name, port)]
    with log.open("wb") as output:
        process = start_guarded(
            command, log.parent, _environment(serving, settings, python, key), output.fileno(), float("inf"), GRACE
        )
    return VLLMServer(f"http://127.0.0.1:{port}", name, key, log, process)


def _arguments(serving: Serving, settings: VLLMEngineConfig, name: str, port: int) -> list[str]:
    arguments = [
        "--model", str(serving.model.resolve()), "--served-model-name", name,
        "--host", "127.0.0.1", "--port", str(port), "--uvicorn-log-level", "warning",
        "--dtype", serving.dtype, "--seed", "0", "--enable-prefix-caching", "--enable-prompt-tokens-details",
        "--generation-config", "vllm",  # no defaults of sampling from the model's folder
        "--logprobs-mode", "processed_logprobs",  # those of the distribution sampled from, after temperature
    ]  # fmt: skip
    if settings.context_tokens is not None:
        arguments += ["--max-model-len", str(settings.context_tokens)]
    if serving.lora_rank:
        rank = next((rank for rank in LORA_RANKS if rank >= serving.lora_rank), serving.lora_rank)
        arguments += ["--enable-lora", "--max-lora-rank", str(rank)]
    if serving.made_up:
        arguments += ["--load-format", "dummy"]
    on = ["--gpu-memory-utilization", str(settings.memory_share)] if serving.gpu else ["--enforce-eager"]
    return arguments + on


def _environment(serving: Serving, settings: VLLMEngineConfig, python: Path, key: str) -> Mapping[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    own |= {
        "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
        "VLLM_API_KEY": key,
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_SERVER_DEV_MODE": "1",  # routes that renew weights and clear the prefix cache
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "HF_HUB_OFFLINE": "1",  # it is given a folder
        # A busy machine is no reason for it to give up on itself: our own limits are these.
        "VLLM_ENGINE_READY_TIMEOUT_S": str(math.ceil(settings.start_seconds)),
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": str(math.ceil(settings.request_seconds)),
    }
    if not serving.gpu:
        own |= {
            "OMP_NUM_THREADS": str(serving.threads),
            "VLLM_CPU_KVCACHE_SPACE": str(settings.cache_gib),
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
            "TORCH_COMPILE_DISABLE": "1",  # its first request would wait for a compiler, to save a moment of sampling
        }
    return own


def _is_ready(server: VLLMServer, seconds: float) -> bool:
    """Wait until it answers under its name; False where it ended. Raises EngineError where that takes too long."""
    end = time.monotonic() + seconds
    with httpx.Client(headers={"Authorization": f"Bearer {server.key}"}, timeout=5.0, trust_env=False) as client:
        while time.monotonic() < end:
            if server.process.poll() is not None:
                return False
            with suppress(httpx.TransportError):
                answer = client.get(f"{server.endpoint}/models")
                if answer.is_success and server.name in answer.text:
                    return True
            time.sleep(POLL)
    raise EngineError(
        f"the vLLM server was not ready after {seconds:.0f} s; raise engine.start_seconds, or see why: "
        f"{_told(server.log)}"
    )


def _told(log: Path) -> str:
    last = "\n".join(f"  | {line}" for line in last_lines(log))
    return f"its log is {log}\n{last}".rstrip()

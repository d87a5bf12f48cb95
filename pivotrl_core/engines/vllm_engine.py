"""Sampling through a vLLM server of our own, whose weights follow a training.

Before each sampling the server is given the weights of the policy as it is: a LoRA adapter at run time, or all weights
from a safetensors folder, reloaded in place. Weights carry a version, so that none is sent twice and none is missed;
with new ones the server's prefix cache is cleared, which holds keys and values of the old. A server that is to follow
all weights starts from such a folder too, whose output head is its own: vLLM's CPU build (0.32) keeps a packed copy of
one that is tied to the input embedding, and a reload does not renew it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from pivotrl_core.config.engine import VLLMEngineConfig
from pivotrl_core.engines import completions, openai_engine, servers, vllm_server
from pivotrl_core.engines.completions import Completions
from pivotrl_core.engines.openai_engine import OpenAIEngine
from pivotrl_core.engines.servers import RetryPolicy, Servers
from pivotrl_core.engines.vllm_server import Serving, VLLMServer, serve, vllm_python
from pivotrl_core.errors import EngineError
from pivotrl_core.files import code_digest, read_json
from pivotrl_core.types import content_id

CODE = (Path(__file__), *(Path(str(one.__file__)) for one in (completions, openai_engine, servers, vllm_server)))
CLEARING_SECONDS = 10.0  # a cache is cleared once what holds its blocks has ended


class Weights(Protocol):
    """Weights of a policy that training changes."""

    @property
    def version(self) -> int:
        """Another number after each change."""
        ...

    @property
    def lora_rank(self) -> int:
        """Rank of the PEFT adapter on the served model that `write` writes; 0: it writes a whole, untied model."""
        ...

    def write(self, folder: Path) -> None:
        """Write the weights as they compute."""
        ...


@dataclass(frozen=True, slots=True)
class FixedAdapter:
    """Implements `Weights` for a PEFT adapter, in a folder, that stays as it is."""

    folder: Path
    version: int = 0

    @property
    def lora_rank(self) -> int:
        """Its rank."""
        return int(read_json(self.folder / "adapter_config.json")["r"])

    def write(self, folder: Path) -> None:
        """Copy it: what is on its way is removed afterwards."""
        shutil.copytree(self.folder, folder)


@dataclass(slots=True)
class FollowedWeights:
    """Keeps a server at the weights of a policy. `folder` holds what is on its way."""

    server: VLLMServer
    control: Servers
    weights: Weights
    folder: Path
    loaded: int | None = None
    name: str = ""

    def bring_up_to_date(self) -> str:
        """The name of the weights as they are, once the server has them."""
        if self.loaded == self.weights.version:
            return self.name
        new = write_version(self.weights, self.folder)
        if self.weights.lora_rank:
            self._load_adapter(new)
        else:
            reload = {"method": "reload_weights", "kwargs": {"weights_path": str(new.resolve())}}
            self.control.tell("/collective_rpc", reload)
            self.name = self.server.name
        self._clear_cache()
        self.loaded = self.weights.version
        for old in self.folder.glob("weights-*"):
            if old != new or not self.weights.lora_rank:
                shutil.rmtree(old, ignore_errors=True)
        return self.name

    def _load_adapter(self, new: Path) -> None:
        if self.name:
            self.control.tell("/v1/unload_lora_adapter", {"lora_name": self.name})
        self.name = f"{self.server.name}-{self.weights.version}"
        self.control.tell("/v1/load_lora_adapter", {"lora_name": self.name, "lora_path": str(new.resolve())})

    def _clear_cache(self) -> None:
        end = time.monotonic() + CLEARING_SECONDS
        while not self.control.post("/reset_prefix_cache", {}).get("success", True):
            if time.monotonic() > end:
                raise EngineError("the vLLM server does not clear its prefix cache: old keys and values would be read")
            time.sleep(0.1)


def write_version(weights: Weights, folder: Path) -> Path:
    """Write the weights as they are to a folder of their own below `folder`."""
    new = folder / f"weights-{weights.version}"
    shutil.rmtree(new, ignore_errors=True)
    weights.write(new)
    return new


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an engine lives: the checkout that relative paths start from, and a folder for its log and weights."""

    checkout: Path
    scratch: Path


@contextmanager
def vllm_engine(
    settings: VLLMEngineConfig, serving: Serving, placement: Placement, stop_id: int, weights: Weights | None = None
) -> Iterator[OpenAIEngine]:
    """An engine on a server that is started for the time of the block.

    Args:
        settings: how it is started and asked.
        serving: what it serves; of `weights` that are whole, those.
        placement: where its environment is found and its files are put.
        stop_id: the id that ends a turn.
        weights: what it follows; None: the model as it is.

    Raises:
        ConfigError: there is no environment with vLLM.
        EngineError: the server cannot be started, or does not take the weights.
    """
    python = vllm_python(settings.environment, placement.checkout)
    folder = placement.scratch / "vllm-weights"
    whole = weights is not None and not weights.lora_rank
    if weights is not None and whole:
        serving = replace(serving, model=write_version(weights, folder))
    with serve(serving, settings, python, placement.scratch / "vllm.log") as server:
        retry_policy = RetryPolicy(seconds=settings.request_seconds, retries=settings.retries)
        servers = partial(
            Servers, retry_policy=retry_policy, key=server.key, key_name="vLLM's key", watch=server.check, local=True
        )
        asked = servers([server.endpoint], connections=settings.concurrency)
        control = servers([server.root], connections=2)
        followed = None
        if weights is not None:
            followed = FollowedWeights(server, control, weights, folder)
            if whole:
                followed.loaded, followed.name = weights.version, server.name
        engine = OpenAIEngine(
            # Another end of text than ours, which the model's folder may name, is a token like any other.
            Completions(asked, stop_id, {"ignore_eos": True}),
            model=server.name,
            context_tokens=_context_tokens(asked),
            version=content_id([code_digest(*CODE), control.get("/version")["version"], serving.dtype, serving.gpu]),
            concurrency=settings.concurrency,
            refresh=followed.bring_up_to_date if followed is not None else None,
        )
        try:
            yield engine
        finally:
            engine.close()
            control.close()


def _context_tokens(asked: Servers) -> int:
    models: list[dict[str, Any]] = asked.get("/models")["data"]
    return int(models[0]["max_model_len"])

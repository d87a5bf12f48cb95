"""K continuations at each of several states by a vLLM server, started as stages start it, with prefix caching.

Its environment is apart from ours (`make vllm`). It works in processes of its own, so that only time is compared; on a
GPU it takes its share of memory when it starts. Of a shape, vLLM makes up weights of its own.
"""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pivotrl_core.bench.measuring import Answer
from pivotrl_core.bench.shapes import MARK
from pivotrl_core.config.engine import VLLMEngineConfig
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.model import compute_dtype
from pivotrl_core.engines.protocol import Request, SamplingConfig
from pivotrl_core.engines.servers import RetryPolicy, Servers
from pivotrl_core.engines.vllm_engine import Placement, vllm_engine
from pivotrl_core.engines.vllm_server import Serving, vllm_python
from pivotrl_core.errors import ConfigError

AT_ONCE = 256  # requests in flight
NO_STOP = -1  # no id


def missing_vllm(checkout: Path) -> str:
    """Why there is no vLLM here; empty where there is."""
    try:
        vllm_python("", checkout)
    except ConfigError as error:
        return str(error)
    return ""


class VLLMSampling:
    """The work of vLLM's side: all requests at once, from an empty prefix cache.

    Args:
        folder: of the model.
        compute: its dtype, threads and device.
        sampling: temperature, and tokens of each sample.
        checkout: where its environment is looked for.
        context: longest prompt with its continuation, in tokens.
    """

    def __init__(
        self, folder: Path, compute: ComputeConfig, sampling: SamplingConfig, checkout: Path, context: int
    ) -> None:
        stack = ExitStack()
        weakref.finalize(self, stack.close)
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="bench-vllm-")))
        settings = VLLMEngineConfig(kind="vllm", concurrency=AT_ONCE, retries=0, context_tokens=context)
        serving = Serving(
            folder, compute_dtype(compute), compute.threads, compute.device == "cuda",
            made_up=(folder / MARK).is_file(),
        )  # fmt: skip
        self.engine = stack.enter_context(vllm_engine(settings, serving, Placement(checkout, scratch), NO_STOP))
        completions = self.engine.completions
        self.engine.completions = replace(completions, extra={**completions.extra, "stop_token_ids": []})
        asked = completions.servers
        root = asked.endpoints[0].removesuffix("/v1")
        self.control = Servers(
            [root],
            retry_policy=RetryPolicy(seconds=60.0, retries=0),
            connections=1,
            key=asked.key,
            key_name="vLLM's key",
            watch=asked.watch,
            local=True,
        )
        stack.callback(self.control.close)
        self.sampling = sampling

    def load(self, task: list[Request]) -> None:
        self.task = task

    def run(self) -> None:
        found = self.engine.sample(self.task, self.sampling)
        self.tokens = sum(len(sample.ids) for samples in found for sample in samples)

    def answer(self) -> Answer:
        self.control.post("/reset_prefix_cache", {})  # the next run is to find nothing of this one
        return {"generated": self.tokens}

"""K continuations at each of several states, by our engine and by transformers' `generate`, turn by turn.

Both write a fixed number of tokens: no id ends a continuation, so that the work is equal though the samples are not.
Both sample from the whole distribution (no top-k, no top-p). Ours returns log-probabilities too.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pivotrl_core.bench.measuring import Answer
from pivotrl_core.bench.shapes import load_any
from pivotrl_core.bench.steps import touch
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.model import prepare_torch
from pivotrl_core.engines.protocol import Request, SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine


class EngineSampling:
    """Ours: all requests at once."""

    def __init__(self, folder: Path, compute: ComputeConfig, sampling: SamplingConfig) -> None:
        prepare_torch(compute)
        model = load_any(folder, compute).model
        touch(model)
        self.engine = TransformersEngine(model, [], lanes=compute.lane_plan)
        self.sampling = sampling

    def load(self, task: list[Request]) -> None:
        self.task = task

    def run(self) -> None:
        found = self.engine.sample(self.task, self.sampling)
        self.tokens = sum(len(sample.ids) for samples in found for sample in samples)

    def answer(self) -> Answer:
        return {"generated": self.tokens}


class GenerateSampling:
    """transformers: one call of `generate` a request, with `num_return_sequences`."""

    def __init__(self, folder: Path, compute: ComputeConfig, sampling: SamplingConfig) -> None:
        torch.set_num_threads(compute.threads)
        self.model = load_any(folder, compute).model
        touch(self.model)
        self.sampling = sampling

    def load(self, task: list[Request]) -> None:
        self.task = task

    def run(self) -> None:
        torch.manual_seed(0)
        found = [generate(self.model, one.prompt_ids, len(one.seeds), self.sampling) for one in self.task]
        self.tokens = sum(len(ids) for samples in found for ids in samples)

    def answer(self) -> Answer:
        return {"generated": self.tokens}


@torch.inference_mode()
def generate(model: Any, prompt: Sequence[int], count: int, sampling: SamplingConfig) -> list[tuple[int, ...]]:
    """`count` continuations of `sampling.max_tokens` tokens, from the whole distribution; greedy at temperature 0."""
    from transformers import GenerationConfig

    ids_1P = torch.tensor([prompt], device=model.device)
    drawn: dict[str, Any] = {"do_sample": True, "temperature": sampling.temperature, "top_k": 0, "top_p": 1.0}
    config = GenerationConfig(
        **(drawn if sampling.temperature else {"do_sample": False}), num_return_sequences=count,
        max_new_tokens=sampling.max_tokens, eos_token_id=None, pad_token_id=0, use_cache=True,
    )  # fmt: skip
    before, model.generation_config = model.generation_config, config  # what it has of its own would fill the gaps
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found_KL = model.generate(ids_1P, attention_mask=torch.ones_like(ids_1P), generation_config=config)
    finally:
        model.generation_config = before
    return [tuple(line) for line in found_KL[:, len(prompt) :].tolist()]

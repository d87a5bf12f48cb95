"""Texts sampled from the bundled model for labelled pairs: plain continuations of few-shot prompts, cut at a stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.engines.protocol import Request, SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.seeding import derive_seed

TOGETHER = 24
"""Prompts that share their passes through the weights."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How prompts are continued: `count` times at each temperature, up to the first token that holds `stop`."""

    count: int
    max_tokens: int
    stop: str
    temperatures: tuple[float, ...]


def sample(model_folder: Path, prompts: Sequence[str], how: Sampling) -> Iterator[list[str]]:
    """Continuations of each prompt, in order, a list a prompt. One thread, bfloat16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.bfloat16).eval()
    ends = [number for number in range(len(tokenizer)) if how.stop in tokenizer.decode([number])]
    engine = TransformersEngine(model, ends)
    for start in range(0, len(prompts), TOGETHER):
        some = prompts[start : start + TOGETHER]
        texts: list[list[str]] = [[] for _ in some]
        for temperature in how.temperatures:
            requests = [
                Request(prompt, tuple(tokenizer(prompt)["input_ids"]), _seeds(prompt, temperature, how.count))
                for prompt in some
            ]
            found = engine.sample(requests, SamplingConfig(temperature, how.max_tokens))
            for place, samples in enumerate(found):
                texts[place] += [tokenizer.decode(one.ids).split(how.stop)[0] for one in samples]
        yield from texts


def _seeds(prompt: str, temperature: float, count: int) -> tuple[int, ...]:
    return tuple(derive_seed(0, "pairs", prompt, str(temperature), number) for number in range(count))

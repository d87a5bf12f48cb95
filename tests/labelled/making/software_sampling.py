"""Texts sampled from the bundled model for labelled pairs of coding turns: continuations of few-shot prompts.

The samples are kept (`tests/labelled/software/samples.jsonl`), so that the set can be made again without the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.engines.bundled import bundled_model
from pivotrl_core.engines.protocol import Request, SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.seeding import derive_seed

TOGETHER = 20
"""Prompts that share their steps through the weights."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text to continue, what it is called, and what is given of the answer: its beginning, if anything."""

    id: str
    text: str
    begun: str = ""


@dataclass(frozen=True, slots=True)
class Manner:
    """How prompts are continued: `count` times at each temperature, up to the first token that holds `stop`."""

    stop: str
    count: int
    temperatures: tuple[float, ...]
    max_tokens: int


def sample(prompts: Sequence[Prompt], how: Manner, models: Path) -> Iterator[tuple[str, float, list[str]]]:
    """(prompt, temperature, answers that ended by themselves), as they come. One thread, bfloat16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    folder = bundled_model(models)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    ends = [number for number in range(len(tokenizer)) if how.stop in tokenizer.decode([number])]
    engine = TransformersEngine(model, ends)
    for start in range(0, len(prompts), TOGETHER):
        some = prompts[start : start + TOGETHER]
        for temperature in how.temperatures:
            requests = [
                _request(prompt, tokenizer(prompt.text + prompt.begun)["input_ids"], temperature, how)
                for prompt in some
            ]
            found = engine.sample(requests, SamplingConfig(temperature, how.max_tokens))
            for prompt, answers in zip(some, found, strict=True):
                texts = [tokenizer.decode(one.ids).split(how.stop)[0] for one in answers if one.finish == "stop"]
                yield prompt.id, temperature, [prompt.begun + text for text in texts]


def _request(prompt: Prompt, ids: Sequence[int], temperature: float, how: Manner) -> Request:
    seeds = [derive_seed(0, "pairs", prompt.id, str(temperature), number) for number in range(how.count)]
    return Request(prompt.id, tuple(ids), tuple(seeds))

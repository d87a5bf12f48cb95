"""Rows: continuations while they are being written, each with random numbers of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pivotrl_core.engines.protocol import FinishReason, Sample, SamplingConfig
from pivotrl_core.seeding import generator


@dataclass(slots=True)
class Row:
    """One continuation being written. `uniforms` are its own random numbers, one a token."""

    uniforms: np.ndarray[Any, np.dtype[np.float64]]
    temperature: float
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    done: bool = False

    @property
    def ended(self) -> bool:
        """Whether nothing more will be written."""
        return self.done or len(self.ids) == len(self.uniforms)

    def sample(self) -> Sample:
        """The finished continuation."""
        return Sample(tuple(self.ids), tuple(self.logprobs), FinishReason.STOP if self.done else FinishReason.LENGTH)


def new_row(seed: int, sampling: SamplingConfig) -> Row:
    """A row with its own random numbers, whatever batch it lands in."""
    return Row(generator("engine", seed).random(sampling.max_tokens), sampling.temperature)

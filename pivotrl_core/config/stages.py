"""Settings of the shared stages: warm-up, profiling, verification, evaluation, and the machine's share."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from pivotrl_core.config.arms import (
    AdaptiveEtaRuleConfig,
    AllRuleConfig,
    LoRA,
    Parameters,
    RandomRuleConfig,
    SelectConfig,
)
from pivotrl_core.config.base import Count, LearningRate, Name, PositiveInt, Probability, Section
from pivotrl_core.grpo.choices import BatchLayout
from pivotrl_core.lanes import Lanes


class ComputeConfig(Section):
    """What the embedded engine and the trainer may use. On a CPU all of it belongs to a result's identity."""

    threads: PositiveInt = 2
    lanes: PositiveInt = Field(
        2,
        description="parts that a batch is cut into, computed side by side on threads / lanes threads each: results "
        "are those of the parts, however many threads there are; not used with cuda",
    )
    device: Literal["cpu", "cuda"] = Field("cpu", description="where model and tensors are; cuda is untested")
    dtype: Literal["auto", "bfloat16", "float32"] = Field(
        "auto",
        description="of the frozen weights (what trains is fp32); auto: bfloat16 where the machine multiplies it, "
        "float32 elsewhere, where bfloat16 is several times slower. Reports say which it was",
    )
    row_tokens: PositiveInt = Field(
        2048, description="tokens of one packed training row; bounds memory, not the result"
    )
    layout: BatchLayout = Field(
        BatchLayout.AUTO,
        description="of training and scoring: tree computes what sequences share once, padded each sequence for "
        "itself; auto: tree where that is exact for the model, padded elsewhere (sliding windows, recurrent layers)",
    )
    activation_checkpointing: bool = Field(
        False,
        description="compute each layer again in the backward pass in place of keeping what it computed: the same "
        "gradients, for less memory and more time",
    )
    processes: PositiveInt = Field(
        1,
        description="of a training arm, over which torchrun divides groups, weights and optimiser (FSDP2); other "
        "stages have one. They divide threads; with cuda, each has a GPU",
    )
    offload: bool = Field(
        False, description="keep each process's part of weights, gradients and optimiser in host memory (FSDP2)"
    )
    collective_minutes: float = Field(
        60.0,
        gt=0.0,
        le=1440.0,
        description="how long one process of a training waits for the others, say while they sample, before it fails",
    )

    @model_validator(mode="after")
    def _there_is_something_to_divide(self) -> Self:
        if self.offload and self.processes == 1:
            raise ValueError("offload: it is done where a training is divided; set processes to 2 or more")
        return self

    @property
    def lane_plan(self) -> Lanes:
        """How batches are cut and run."""
        return Lanes() if self.device == "cuda" else Lanes(self.lanes, min(self.lanes, self.threads))

    @property
    def threads_per_lane(self) -> int:
        """Threads that work on one operation."""
        return self.threads // self.lane_plan.workers


class WarmupConfig(Section):
    """A short SFT that teaches the raw model the tool format. Its result is the base policy pi_0. 0 epochs: none.

    An adapter that is trained here is merged into the weights: the base policy is always a whole model.
    """

    parameters: Parameters = LoRA()
    epochs: Count = 1
    learning_rate: LearningRate = 1e-4
    batch_trajectories: PositiveInt = 4


class Staged(Section):
    """Waves of samples, after each of which a candidate may be decided for good (`pivots/staging.py`)."""

    waves: tuple[PositiveInt, ...] = Field(
        (4, 8), min_length=1, description="numbers of samples after which it is looked at, rising, below K"
    )
    error: float = Field(
        0.05,
        gt=0.0,
        lt=0.5,
        description="probability, for each rule and candidate, that all K decide otherwise; at most",
    )

    @field_validator("waves")
    @classmethod
    def _rise(cls, waves: tuple[int, ...]) -> tuple[int, ...]:
        if sorted(set(waves)) != list(waves):
            raise ValueError("waves are numbers of samples in all, each more than the one before")
        return waves


_NOT_BY_COUNT = (AdaptiveEtaRuleConfig, AllRuleConfig, RandomRuleConfig)


class ProfileConfig(Section):
    """K samples of the frozen reference policy at each candidate, in blocks of trajectories that are stored whole."""

    samples: int = Field(8, ge=2, le=256, description="K")
    curtail: bool = Field(
        False,
        description="draw no more samples of a candidate than the rules of decides_for need: their decisions are those "
        "of all K, but mean rewards are censored (no histogram, no adaptive eta); the embedded engine saves samples by "
        "it, and hardly any time yet",
    )
    decides_for: tuple[SelectConfig, ...] = Field(
        (), description="rules, as in arms.ARM.select, that curtail and staged decide for; others may ask for more"
    )
    complete_for: tuple[SelectConfig, ...] = Field(
        (), description="such rules of arms that replay: under curtail what they keep has all K samples"
    )
    staged: Staged | None = Field(
        None,
        description="draw in waves, and no more of a candidate that all K would hardly decide otherwise; an "
        "approximation of what decides_for decides, with a stated error; censored as under curtail; none: exact",
    )
    temperature: float = Field(1.0, gt=0.0, le=4.0)
    max_tokens: PositiveInt = 48
    success_threshold: Probability = 1.0
    block_trajectories: PositiveInt = 12

    @property
    def is_shortened(self) -> bool:
        """Whether candidates may have fewer than K samples."""
        return self.curtail or self.staged is not None

    @model_validator(mode="after")
    def _rules_can_be_decided_early(self) -> Self:
        if self.curtail and self.staged is not None:
            raise ValueError("curtail is exact and staged is not; choose one")
        if self.complete_for and not self.curtail:
            raise ValueError("complete_for says what curtail leaves whole; set curtail, or leave it out")
        if any(isinstance(rule, _NOT_BY_COUNT) for rule in self.complete_for):
            raise ValueError("complete_for takes rules that decide by successes: pivots, sigma, bootstrap")
        if self.is_shortened and not (self.decides_for or self.complete_for):
            key = "curtail" if self.curtail else "staged"
            raise ValueError(f"{key} needs decides_for: the rules whose decisions are asked for")
        if self.staged is not None and self.staged.waves[-1] >= self.samples:
            raise ValueError(f"staged.waves: the last wave is always that of all {self.samples} samples; name fewer")
        if any(isinstance(rule, AdaptiveEtaRuleConfig) for rule in self.decides_for):
            raise ValueError("decides_for cannot have adaptive-eta, which looks at all candidates' K samples together")
        return self


EMBEDDED = "-embedded"
"""Ends the names of benchmarks in reports: their items are the project's own."""
BENCHMARKS = ("ifbench", "aime25", "math500", "livecodebench", "scicode", "mmlu-pro", "mmlu-prox", "wmt24pp")


class EvaluateConfig(Section):
    """In-domain episodes (or held-out turns), the out-of-domain benchmarks, and drift from the base policy."""

    split: Literal["validation", "test"] = "test"
    episodes: PositiveInt = Field(100, description="tasks of the embedded domain, each played once per temperature")
    max_turns: PositiveInt = Field(10, description="an environment may end an episode earlier: the help desk at 10")
    max_tokens: PositiveInt = 48
    turns: PositiveInt = Field(64, description="held-out turns scored where there is no environment")
    benchmarks: tuple[Name, ...] = BENCHMARKS
    items: PositiveInt = Field(32, description="items drawn of each benchmark, the same for all arms")
    thinking_tokens: Count = Field(
        0, description="more tokens for each benchmark's answer than it allows, for a policy that thinks first"
    )
    drift_texts: PositiveInt = 24

    @field_validator("benchmarks")
    @classmethod
    def _are_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in names if name.removesuffix(EMBEDDED) not in BENCHMARKS]
        if unknown:
            raise ValueError(f"no benchmark is called {', '.join(unknown)}; known: {', '.join(BENCHMARKS)}")
        return names


class TrackingConfig(Section):
    """What people see a run as."""

    experiment: str = Field("pivotrl", min_length=1, max_length=80, pattern=r"^[^'\"`]+$", description="without quotes")
    register_model: bool = True

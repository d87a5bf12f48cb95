"""Arms: one mechanism for the method, its ablations, the sweep and the baselines.

The arm `base` is only evaluated; every other one selects and trains. Each arm has sub-trees of its own; a stage depends
on its own sub-tree only.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pivotrl_core.config.base import Count, Decay, LearningRate, Name, PositiveInt, Probability, Section, Temperature
from pivotrl_core.grpo.choices import AdvantageNormalisation, Baseline, KLEstimator, LossNormalisation, RatioLevel


class PivotRuleConfig(Section):
    """sigma^2 > 0 and mu < lambda_diff (the paper's rule)."""

    rule: Literal["pivots"]
    lambda_diff: Probability = 0.6
    lambda_by_domain: dict[str, Probability] = Field(default_factory=dict)
    inclusive: bool = Field(False, description="keep mu == lambda_diff too, as the authors' script does")
    keep_failed: bool = Field(False, description="keep what never succeeded too, for training that demonstrates")


class SigmaRuleConfig(Section):
    """sigma > eta."""

    rule: Literal["sigma"]
    eta: Probability = 0.3


class AdaptiveEtaRuleConfig(Section):
    """sigma > eta, with eta moved until the share of pivots lies in a band."""

    rule: Literal["adaptive-eta"]
    eta: float = Field(0.3, gt=0.0, le=1.0, description="where it begins; it moves by factors, and 0 would stay 0")
    low_share: Probability = 0.15
    high_share: Probability = 0.25

    @model_validator(mode="after")
    def _the_band_is_one(self) -> Self:
        if self.low_share > self.high_share:
            raise ValueError("low_share is above high_share; swap them")
        return self


class BootstrapRuleConfig(Section):
    """The paper's rule, where a bootstrap over the K samples is confident of both conditions."""

    rule: Literal["bootstrap"]
    lambda_diff: Probability = 0.6
    confidence: Probability = 0.8


class RandomRuleConfig(Section):
    """A random choice, of the size that the pool of the paper's rule with these values has: the control."""

    rule: Literal["random"]
    lambda_diff: Probability = Field(0.6, description="the size is that of the paper's rule at this lambda")
    lambda_by_domain: dict[str, Probability] = Field(default_factory=dict)
    inclusive: bool = Field(False, description="the size counts mu == lambda_diff too")
    keep_failed: bool = Field(False, description="the size counts what never succeeded too")
    seed: int = 0


class AllRuleConfig(Section):
    """Every candidate."""

    rule: Literal["all"]


SelectConfig = Annotated[
    PivotRuleConfig | SigmaRuleConfig | AdaptiveEtaRuleConfig | BootstrapRuleConfig | RandomRuleConfig | AllRuleConfig,
    Field(discriminator="rule"),
]


class LoRA(Section):
    """Low-rank adapters on every linear layer of the blocks, with fp32 factors."""

    kind: Literal["lora"] = "lora"
    rank: PositiveInt = 32
    alpha: float = Field(64.0, gt=0)


class FullParameters(Section):
    """Every parameter, with fp32 master weights."""

    kind: Literal["full"]


Parameters = Annotated[LoRA | FullParameters, Field(discriminator="kind")]


class OptimiserConfig(Section):
    """AdamW with a linear warm-up, and then a rate that is constant, or falls to 0 as a line or a cosine."""

    learning_rate: LearningRate = 1e-4
    warmup_steps: Count = 2
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    weight_decay: float = Field(0.0, ge=0.0)
    betas: tuple[Decay, Decay] = (0.9, 0.99)
    max_grad_norm: float = Field(1.0, gt=0.0)


class SFTTrain(Section):
    """Supervised fine-tuning on the expert actions of the selected turns."""

    method: Literal["sft"]
    start: Name = "base"
    parameters: Parameters = LoRA()
    optimiser: OptimiserConfig = OptimiserConfig()
    epochs: PositiveInt = 2
    batch_trajectories: PositiveInt = 4
    checkpoint_every: PositiveInt = Field(50, description="steps between checkpoints; the clock asks for more")


class ClipConfig(Section):
    """Bounds of the importance ratio: 1 - low to 1 + high."""

    low: float = Field(0.2, ge=0.0, lt=1.0)
    high: float = Field(0.2, ge=0.0)


class KLConfig(Section):
    """Weight and estimator of the KL term to the reference policy pi_0. Weight 0: no term, and no reference pass."""

    weight: float = Field(0.0, ge=0.0)
    estimator: KLEstimator = KLEstimator.K3


class PolicyGradient(Section):
    """What GRPO on turns and on whole episodes have in common."""

    start: Name = "base"
    parameters: Parameters = LoRA()
    optimiser: OptimiserConfig = OptimiserConfig()
    steps: PositiveInt = 30
    prompts_per_step: PositiveInt = 8
    group_size: int = Field(8, ge=2, description="G")
    temperature: Temperature = 1.0
    temperatures: tuple[Temperature, ...] = Field(
        (),
        description="in place of `temperature`: steps take them in turn. A low one trains what is likeliest, and so "
        "greedy choices; 1 trains what the policy samples as it is",
    )
    max_tokens: PositiveInt = 48
    baseline: Baseline = Baseline.MEAN
    advantage: AdvantageNormalisation = AdvantageNormalisation.GROUP_STD
    loss: LossNormalisation = LossNormalisation.DAPO
    ratio: RatioLevel = RatioLevel.TOKEN
    clip: ClipConfig = ClipConfig()
    truncation_cap: float | None = Field(
        None, ge=1.0, description="cap of the weight pi(trainer) / pi(engine); none: no such weight"
    )
    truncation: RatioLevel = Field(RatioLevel.TOKEN, description="one such weight a token, or one a sequence")
    mismatch_limit: float | None = Field(
        0.2,
        gt=0.0,
        description="mean gap of log-probabilities between engine and trainer, in nats a token, above which training "
        "stops; none: it is recorded only",
    )
    kl: KLConfig = KLConfig()
    entropy_weight: float = Field(0.0, ge=0.0)
    updates_per_step: PositiveInt = Field(1, description="optimiser steps on each batch of rollouts")
    checkpoint_every: PositiveInt = 50

    @model_validator(mode="after")
    def _every_setting_does_something(self) -> Self:
        if self.temperatures and self.temperature != 1.0:
            raise ValueError("temperature does nothing beside temperatures; leave out one of them")
        if self.truncation is not RatioLevel.TOKEN and self.truncation_cap is None:
            raise ValueError("truncation does nothing without truncation_cap; give the cap")
        return self

    @property
    def longest(self) -> int:
        """Largest number of tokens that a sample can have: L of `dr_grpo`."""
        return self.max_tokens

    def at(self, step: int) -> Self:
        """What one step is trained with: at its own temperature."""
        if not self.temperatures:
            return self
        return self.model_copy(update={"temperature": self.temperatures[step % len(self.temperatures)]})


class Reprofile(Section):
    """When the policy as it is becomes the reference policy, profiles again, and is given a new pool by the arm's rule.

    The limits of `pivots/reprofiling.py`; one that is none is not looked at.
    """

    limit: PositiveInt = Field(1, description="how often at most")
    window: int = Field(
        10, ge=2, description="newest steps looked at, all since the last profile; it takes as many more to be worth it"
    )
    zero_variance_share: Probability | None = Field(
        0.6, description="saturated where the mean share of zero-variance groups over the window is above"
    )
    reward_change: Probability | None = Field(
        None, description="saturated where the line fitted to the mean rewards of the window changes by no more"
    )
    spread_change: Probability | None = Field(
        None, description="the same of the mean standard deviation of rewards in a group"
    )

    @model_validator(mode="after")
    def _something_is_looked_at(self) -> Self:
        if self.zero_variance_share is None and self.reward_change is None and self.spread_change is None:
            raise ValueError("nothing would ever start it; give zero_variance_share, reward_change or spread_change")
        return self


class GRPOTrain(PolicyGradient):
    """GRPO on pivots: one turn per rollout, rewarded by the verifier."""

    method: Literal["grpo"]
    reward: Literal["functional", "exact"] | None = Field(
        None, description="verifier of this training; none: that of the profile, `verifier.kind`"
    )
    rest_passes: Count = Field(0, description="passes over the pool that a pivot sits out once it is mastered")
    rest_share: float = Field(
        1.0, gt=0.0, le=1.0, description="share of its G samples with full reward that makes a pivot mastered"
    )
    replay: bool = Field(
        False, description="a group without any reward gets a success of the profile in place of its last sample"
    )
    demonstrate: bool = Field(
        False, description="a group without any reward, and with nothing to replay, gets the expert's action there"
    )
    reprofile: Reprofile | None = Field(
        None, description="profile and select again with the policy as it is, where training saturates; none: never"
    )

    @model_validator(mode="after")
    def _rest_has_a_length(self) -> Self:
        if self.rest_share != 1.0 and not self.rest_passes:
            raise ValueError("rest_share does nothing without rest_passes; give the passes that a mastered pivot rests")
        return self


class E2ETrain(PolicyGradient):
    """GRPO on whole episodes of an environment, rewarded by success at the end."""

    method: Literal["e2e"]
    max_turns: PositiveInt = Field(10, description="an environment may end an episode earlier: the help desk at 10")

    @property
    def longest(self) -> int:
        """Of all turns of an episode together."""
        return self.max_tokens * self.max_turns


TrainConfig = Annotated[SFTTrain | GRPOTrain | E2ETrain, Field(discriminator="method")]


class Arm(Section):
    """One line of the comparison."""

    select: SelectConfig | None = None
    train: TrainConfig | None = None

"""The whole tree, with the rules that span its parts."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from pivotrl_core.config.arms import Arm, GRPOTrain, LoRA, SFTTrain, TrainConfig
from pivotrl_core.config.base import Name, Section
from pivotrl_core.config.engine import EngineConfig, TransformersEngineConfig
from pivotrl_core.config.inputs import BundledModel, DataConfig, EmbeddedSource, ModelSource, TrajectorySource
from pivotrl_core.config.stages import (
    ComputeConfig,
    EvaluateConfig,
    ProfileConfig,
    TrackingConfig,
    WarmupConfig,
)
from pivotrl_core.config.verification import VerifierConfig


class Config(Section):
    """Everything that params.yaml may say."""

    model: ModelSource = BundledModel()
    source: TrajectorySource = EmbeddedSource()
    data: DataConfig = DataConfig()
    compute: ComputeConfig = ComputeConfig()
    engine: EngineConfig = TransformersEngineConfig()
    warmup: WarmupConfig = WarmupConfig()
    profile: ProfileConfig = ProfileConfig()
    verifier: VerifierConfig = VerifierConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    tracking: TrackingConfig = TrackingConfig()
    seeds: tuple[int, ...] = Field((0,), min_length=1)
    arms: dict[Name, Arm]

    @model_validator(mode="after")
    def _arms_fit_together(self) -> Self:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds: {list(self.seeds)} names one twice; keep each once")
        if "base" not in self.arms:
            raise ValueError("arms: 'base' is missing; add 'base: {}', the policy that the others are compared with")
        if self.profile.success_threshold > self.verifier.reward.success:
            raise ValueError(
                f"profile.success_threshold: no action earns more than verifier.reward.success, "
                f"{self.verifier.reward.success}; lower the threshold to it"
            )
        for name, arm in self.arms.items():
            self._check_arm(name, arm)
        return self

    def _check_arm(self, name: str, arm: Arm) -> None:
        if name == "base":
            if arm.select is not None or arm.train is not None:
                raise ValueError("arms.base: the base arm is only evaluated; give a trained arm another name")
            return
        if arm.select is None or arm.train is None:
            raise ValueError(f"arms.{name}: 'select' and 'train' go together; give both (only base has neither)")
        self._check_rounds(name, arm)
        self._check_processes(name, arm.train)
        if arm.train.start != "base":
            self._check_start(name, arm.train)

    def _check_start(self, name: str, train: TrainConfig) -> None:
        start = train.start
        for other in (f"{name}-{seed}" for seed in self.seeds):  # its pools, one a seed, are named so
            if other in self.arms:
                raise ValueError(f"arms.{other}: a pool of arm '{name}' has this name; give the arm another one")
        parent = self.arms.get(start)
        if parent is None or parent.train is None:
            raise ValueError(f"arms.{name}.train.start: '{start}' is no trained arm; one of {self._trained()} or base")
        if parent.train.start != "base":
            raise ValueError(f"arms.{name}.train.start: '{start}' does not start from base itself; chains end at two")
        own, before = train.parameters, parent.train.parameters
        if isinstance(own, LoRA) and own != before:
            raise ValueError(
                f"arms.{name}.train.parameters: an adapter goes on from that of '{start}', so give both the same kind, "
                "rank and alpha; or train all parameters with 'kind: full'"
            )

    def _check_rounds(self, name: str, arm: Arm) -> None:
        again = isinstance(arm.train, GRPOTrain) and arm.train.reprofile is not None
        decided = (*self.profile.decides_for, *self.profile.complete_for)
        if again and self.profile.is_shortened and arm.select not in decided:
            raise ValueError(
                f"arms.{name}.train.reprofile: profile.decides_for does not have this arm's rule, by which it would "
                f"select in the midst of training; add it there as arms.{name}.select has it"
            )

    def _check_processes(self, name: str, train: TrainConfig) -> None:
        if self.compute.processes == 1 or isinstance(train, SFTTrain):
            return
        engine = self.engine
        if isinstance(train, GRPOTrain) and train.reprofile is not None:
            obstacle = "reprofile profiles in one process"
        elif not isinstance(engine, TransformersEngineConfig) and "train" in engine.stages:
            obstacle = f"engine.kind {engine.kind} follows the weights of one process: leave train out of engine.stages"
        else:
            return
        raise ValueError(f"arms.{name}.train: {obstacle}; or set compute.processes to 1")

    def _trained(self) -> list[str]:
        return [name for name, arm in self.arms.items() if arm.train is not None]

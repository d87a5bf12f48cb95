"""A whole iteration of the method: profile candidates, select pivots, take a few steps of GRPO on them.

By ours, and by public tools: `generate` a turn at a time, TRL's loss, torch's AdamW. Both have the same candidates,
K, G, lengths, dtype, threads, rule and number of steps, and train all parameters. So that both do equal work though
they sample differently: every continuation has the same number of tokens (no id ends one), and rewards alternate, so
that every candidate is a pivot and every group teaches. Verification itself is left out on both sides.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import torch

from pivotrl_core.bench.measuring import Answer
from pivotrl_core.bench.sampling import generate
from pivotrl_core.bench.shapes import load_any
from pivotrl_core.bench.steps import GroupTask, touch
from pivotrl_core.bench.trl_step import TrlSetting, accumulate, make_trainer
from pivotrl_core.config.arms import FullParameters, GRPOTrain, OptimiserConfig
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import prepare_torch
from pivotrl_core.engines.protocol import SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.pivots.pool import build_pool
from pivotrl_core.pivots.profile_record import ProfileRow, mean_and_variance, read_profile, write_profile
from pivotrl_core.pivots.profiling import Profiler
from pivotrl_core.pivots.selection import Pivots
from pivotrl_core.training.checkpoint import Progress
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.pivot_groups import PivotGroups
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.policy_gradient import train_step
from pivotrl_core.types import Action, Candidate, Verdict

RULE = Pivots(0.6)
RATE = 1e-6  # the paper's


@dataclass(frozen=True, slots=True)
class IterationPlan:
    """Sizes of an iteration: K, G, pivots a step, steps, and tokens of every continuation."""

    samples: int = 8
    group: int = 8
    prompts: int = 4
    steps: int = 3
    max_tokens: int = 40
    tool_format: str = "compact"

    @property
    def sampling(self) -> SamplingConfig:
        """At temperature 1."""
        return SamplingConfig(1.0, self.max_tokens)


@dataclass(slots=True)
class AlternatingVerifier:
    """Accepts every second action, whatever it is."""

    name: str = "alternating"
    version: str = "1"
    _turn: itertools.count[int] = field(default_factory=itertools.count)

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        del candidate, action
        return Verdict(float(next(self._turn) % 2), "alternating")


class OurIteration:
    """Profiler, selection and training steps as the stages put them together."""

    def __init__(self, folder: Path, compute: ComputeConfig, plan: IterationPlan) -> None:
        prepare_torch(compute)
        self.compute = compute
        self.policy = TrainablePolicy(folder, folder, FullParameters(kind="full"), compute, seed=0, load=load_any)
        touch(self.policy.model)
        self.renderer = ChatRenderer(self.policy.tokenizer, plan.tool_format)
        self.engine = TransformersEngine(self.policy.model, [], lanes=compute.lane_plan)
        self.plan = plan
        self.config = GRPOTrain(
            method="grpo", group_size=plan.group, prompts_per_step=plan.prompts, steps=plan.steps,
            max_tokens=plan.max_tokens, parameters=FullParameters(kind="full"),
            optimiser=OptimiserConfig(learning_rate=RATE, warmup_steps=0),
        )  # fmt: skip
        self.optimiser = Optimiser(self.policy, self.config.optimiser, plan.steps)

    def load(self, task: list[Candidate]) -> None:
        self.task = task

    def run(self) -> None:
        self.engine.count = type(self.engine.count)()
        store = Path(tempfile.mkdtemp(prefix="bench-iterate-"))
        try:
            pool = self._pool(store)
        finally:
            shutil.rmtree(store)
        self.kept = len(pool)
        groups = PivotGroups(self.engine, self.renderer, AlternatingVerifier(), pool, self.config, seed=0)
        for step in range(self.plan.steps):
            train_step(
                self.policy, self.optimiser, groups.groups(step), self.config, self.compute.row_tokens, Progress()
            )

    def answer(self) -> Answer:
        return {"generated": self.engine.count.turns * self.plan.max_tokens, "pivots": self.kept}

    def _pool(self, store: Path) -> list[Candidate]:
        plan = self.plan
        profiler = Profiler(
            self.engine,
            self.renderer,
            AlternatingVerifier(),
            sampling=plan.sampling,
            samples=plan.samples,
            seed=0,
            policy_digest="bench",
            store=store,
            block_trajectories=12,
        )
        found, _ = profiler.profile(self.task, lambda _at, _of, _rollouts: None)
        rows = [
            ProfileRow(candidate, tuple(one.verdict for one in group))
            for candidate, group in zip(self.task, found, strict=True)
        ]
        write_profile(store / "profile.parquet", rows)
        kept = set(build_pool(read_profile(store / "profile.parquet"), RULE).rows["candidate_id"])
        return [candidate for candidate in self.task if candidate.id in kept]


class PublicIteration:
    """The same through transformers, TRL and torch."""

    def __init__(self, folder: Path, compute: ComputeConfig, plan: IterationPlan, setting: TrlSetting) -> None:
        from transformers import AutoTokenizer

        self.trainer = make_trainer(folder, compute, plan.group, setting)
        self.model = self.trainer.model
        self.setting = setting
        self.renderer = ChatRenderer(AutoTokenizer.from_pretrained(folder, local_files_only=True), plan.tool_format)
        self.adam = torch.optim.AdamW(self.model.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.0, fused=True)
        self.plan = plan
        touch(self.model)

    def load(self, task: list[Candidate]) -> None:
        self.task = task

    def run(self) -> None:
        torch.manual_seed(0)
        self.written = 0
        pool = self._pool()
        self.kept = len(pool)
        turn = itertools.cycle(pool)
        for _ in range(self.plan.steps):
            tasks = [self._group(next(turn)) for _ in range(self.plan.prompts)]
            self.model.train()
            accumulate(self.trainer, tasks, self.setting.micro_batch)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.adam.step()
            self.adam.zero_grad(set_to_none=True)

    def answer(self) -> Answer:
        return {"generated": self.written, "pivots": self.kept}

    def _pool(self) -> list[Candidate]:
        verifier = AlternatingVerifier()
        rows = []
        for candidate in self.task:
            found = self._sample(candidate, self.plan.samples)
            wins = sum(verifier.verify(candidate, Action()).reward >= 1.0 for _ in found)
            mu, sigma2 = mean_and_variance(wins, len(found))
            rows.append({
                "candidate_id": candidate.id, "domain": candidate.domain, "planned": len(found), "k": len(found),
                "successes": wins, "mu": mu, "sigma2": sigma2,
            })  # fmt: skip
        decided = RULE.decide(pd.DataFrame(rows))
        return [candidate for candidate, one in zip(self.task, decided, strict=True) if one.kept]

    def _group(self, candidate: Candidate) -> GroupTask:
        found = self._sample(candidate, self.plan.group)
        verifier = AlternatingVerifier()
        rewards = tuple(verifier.verify(candidate, Action()).reward for _ in found)
        return GroupTask(self.renderer.state_ids(candidate.state, candidate.tools), tuple(found), rewards)

    def _sample(self, candidate: Candidate, count: int) -> Sequence[tuple[int, ...]]:
        self.model.eval()
        found = generate(
            self.model, self.renderer.state_ids(candidate.state, candidate.tools), count, self.plan.sampling
        )
        self.written += sum(map(len, found))
        return found

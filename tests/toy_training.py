"""A training small enough for a test: few trajectories and a verifier that pays for a letter; all else is real."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotrl_core.config.arms import E2ETrain, FullParameters, GRPOTrain, LoRA, OptimiserConfig, PolicyGradient
from pivotrl_core.config.inputs import EmbeddedSource
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.plain_engine import embedded_engine
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.environments.protocol import Pool
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.files import file_digest, write_jsonl
from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.stages.context import MetricsFile
from pivotrl_core.training.checkpoint import Checkpoints, Progress
from pivotrl_core.training.divided_sampling import DividedEngine
from pivotrl_core.training.episode_groups import EpisodeGroups
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.pivot_groups import PivotGroups
from pivotrl_core.training.policies import policy_on
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.policy_gradient import GroupSource, train_policy_gradient
from pivotrl_core.training.ranks import ONE_RANK, Ranks
from pivotrl_core.training.supervised import SupervisedPlan, train_supervised, trajectory_rows
from pivotrl_core.types import (
    Action,
    Candidate,
    Message,
    Role,
    Split,
    Tool,
    ToolCall,
    Trajectory,
    Verdict,
    tools_to_json,
)
from tests.candidate_sets import extract_candidates
from tests.tiny_models import COMPUTE

TOOLS = (Tool("find", "Find.", {"type": "object", "properties": {"id": {"type": "string"}}}),)
LOW_RANK = LoRA(rank=4, alpha=8.0)
RATE = OptimiserConfig(learning_rate=0.01, warmup_steps=1, weight_decay=0.01)


@dataclass(frozen=True)
class LetterVerifier:
    """Reward 1 for a turn with any of some letters in it."""

    letters: str = "aeiou"
    name: str = "letter"
    version: str = "1"

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        found = any(letter in action.text for letter in self.letters)
        return Verdict(float(found), "accepted" if found else "other", {"length": len(action.text)})


def toy_trajectories(count: int, first: int = 0) -> list[Trajectory]:
    """Two turns each: a call of a tool, then a message."""
    return [
        Trajectory(
            (
                Message(Role.SYSTEM, "You are a helpful agent."),
                Message(Role.USER, f"Find the order A{i}."),
                Message(Role.ASSISTANT, tool_calls=(ToolCall("find", f'{{"id": "A{i}"}}'),)),
                Message(Role.TOOL, f"order {i}: sent"),
                Message(Role.ASSISTANT, f"It is sent. {i * i}"),
            ),
            TOOLS,
        )
        for i in range(first, first + count)
    ]


def toy_candidates(count: int = 4) -> list[Candidate]:
    """Every turn of `toy_trajectories`."""
    return list(extract_candidates(toy_trajectories(count), 0.0, 0.0).candidates)


@dataclass
class Run:
    """One training in a folder of its own: `out` holds what it leaves, `scratch` its checkpoints."""

    start: Path
    out: Path
    scratch: Path
    parameters: LoRA | FullParameters = LOW_RANK
    compute: ComputeConfig = COMPUTE
    stop_at: int | None = None
    ranks: Ranks = ONE_RANK

    def policy(self) -> TrainablePolicy:
        return policy_on(self.ranks, self.start, self.start, self.parameters, self.compute, seed=3)

    def recorder(self) -> Callable[[Progress, dict[str, float]], None]:
        """Writes metrics.jsonl as the stages do, and is killed after the line of step `stop_at`."""
        metrics: MetricsFile | None = None

        def on_step(progress: Progress, values: dict[str, float]) -> None:
            nonlocal metrics
            if self.ranks.writes:
                metrics = metrics or MetricsFile(self.out / "metrics.jsonl", progress.lines)
                metrics.append(progress.step, values)
            if progress.step == self.stop_at:
                raise KeyboardInterrupt

        return on_step

    def finish(self, policy: TrainablePolicy, progress: Progress) -> dict[str, Any]:
        """Save the policy; the digests of all files, and the counters."""
        policy.save(self.out / "policy")
        if not self.ranks.writes:
            return {}
        files = sorted(path for path in self.out.rglob("*") if path.is_file())
        return {path.relative_to(self.out).as_posix(): file_digest(path) for path in files} | progress.counters

    def supervised(self, epochs: int = 3, batch_trajectories: int = 2) -> dict[str, Any]:
        policy = self.policy()
        renderer = ChatRenderer(policy.tokenizer, "compact")
        candidates = toy_candidates()
        rows = [trajectory_rows(candidates[i : i + 2], renderer) for i in range(0, len(candidates), 2)]
        plan = SupervisedPlan(epochs, batch_trajectories, seed=5, checkpoint_every=2, row_tokens=200)
        optimiser = Optimiser(policy, RATE, len(plan.batches(len(rows))))
        progress = train_supervised(
            policy, optimiser, rows, plan, Checkpoints(self.scratch, self.ranks), self.recorder()
        )
        return self.finish(policy, progress)

    def policy_gradient(self, config: GRPOTrain, verifier: Any = None, row_tokens: int = 400) -> dict[str, Any]:
        policy = self.policy()
        renderer = ChatRenderer(policy.tokenizer, "compact")
        engine = self.engine(policy, renderer)
        sampler = engine if self.ranks.count == 1 else DividedEngine(engine, policy)
        source = PivotGroups(
            sampler, renderer, verifier or LetterVerifier(), toy_candidates(), config, 5, ranks=self.ranks
        )
        return self._policy_gradient(policy, source, config, row_tokens)

    def episodes(self, config: E2ETrain) -> dict[str, Any]:
        """Two tasks of the help desk."""
        policy = self.policy()
        renderer = ChatRenderer(policy.tokenizer, "compact")
        embedded, domain = EmbeddedSource(trajectories=2), get_domain("helpdesk")
        recorded = [domain.expert_trajectory(task, 0) for task in domain.tasks(Split.TRAIN, 2, 0, Pool.MAIN)]
        pool = [next(iterate_candidates(one, Split.TRAIN)) for one in recorded]
        source = EpisodeGroups(policy, self.engine(policy, renderer), renderer, embedded, pool, config, seed=5)
        return self._policy_gradient(policy, source, config, 4000)

    def engine(self, policy: TrainablePolicy, renderer: ChatRenderer) -> TransformersEngine:
        with policy.gathered():
            return embedded_engine(policy.model, [renderer.eos_id], lanes=policy.lanes)

    def _policy_gradient(
        self, policy: TrainablePolicy, source: GroupSource, config: PolicyGradient, row_tokens: int
    ) -> dict[str, Any]:
        optimiser = Optimiser(policy, config.optimiser, config.steps)
        progress = train_policy_gradient(
            policy, optimiser, source, config, row_tokens, Checkpoints(self.scratch, self.ranks), self.recorder()
        )
        return self.finish(policy, progress)


def _chat(message: Message) -> dict[str, Any]:
    row: dict[str, Any] = {"role": str(message.role), "content": message.content}
    if message.tool_calls:
        row["tool_calls"] = [
            {"id": "c1", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if row["role"] == "tool":
        row["tool_call_id"] = "c1"
    return row


def pull_toys(root: Path, trajectories: list[Trajectory]) -> None:
    """Data as a pull leaves them: files of trajectories in OpenAI's chat form."""
    rows = [
        {
            "messages": [_chat(message) for message in one.messages],
            "tools": [{"type": "function", "function": tool} for tool in tools_to_json(one.tools)],
        }
        for one in trajectories
    ]
    write_jsonl(root / "data/pulled/train/a.jsonl", rows[:12])
    (root / "data/pulled/train/b.jsonl").write_text("{broken\n" + "".join(json.dumps(r) + "\n" for r in rows[12:16]))
    write_jsonl(root / "data/pulled/warmup/w.jsonl", rows[16:])

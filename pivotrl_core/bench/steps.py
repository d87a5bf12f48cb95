"""One GRPO step's forward and backward pass, by ours, by a padded form of ours, and by TRL's GRPOTrainer.

All take the same `GroupTask`: one state, G distinct actions (no two begin with the same id, so that neither equal
actions nor their common beginnings flatter the prefix tree), rewards, and the log-probabilities at sampling. All do the
same: clipped loss averaged over tokens (DAPO), gradient of every parameter kept. None moves a parameter.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from pivotrl_core.bench.measuring import Answer
from pivotrl_core.bench.shapes import load_any
from pivotrl_core.config.arms import FullParameters, GRPOTrain
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.model import prepare_torch
from pivotrl_core.engines.sharing import head_weight
from pivotrl_core.grpo.advantages import group_advantages
from pivotrl_core.grpo.logprobs import token_logprobs_and_entropy
from pivotrl_core.grpo.loss import ClipConfig, policy_loss
from pivotrl_core.grpo.prefix_tree import TargetSequence, build_tree_row
from pivotrl_core.training.checkpoint import Progress
from pivotrl_core.training.groups import PivotGroup
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.policy_gradient import train_step
from pivotrl_core.training.scoring import score_row

# Nats between log-probabilities at sampling and now: in the reward's direction, and at random. No token is clipped: at
# the edge of the clip bf16's rounding would decide whether a token has a gradient.
MOVED, LOOSE = 0.05, 0.02
# Of a token's log-probability, in nats (the loss is a mean over tokens, whose rounding is of either sign), and of the
# gradient norm, relative.
TOLERANCES = {"float32": (5e-4, 1e-3), "bfloat16": (0.3, 0.1)}


@dataclass(frozen=True, slots=True)
class GroupTask:
    """One group to learn from. `sampled` has a log-probability for each token of each action."""

    state: tuple[int, ...]
    actions: tuple[tuple[int, ...], ...]
    rewards: tuple[float, ...]
    sampled: tuple[tuple[float, ...], ...] = ()

    @property
    def trained(self) -> int:
        """Tokens of all actions."""
        return sum(map(len, self.actions))

    def group(self) -> PivotGroup:
        """The group as training gets it from sampling."""
        return PivotGroup(self.state, self.actions, self.sampled, self.rewards)


def draw_group(group: int, state: int, action: int, vocabulary: int, seed: int = 0) -> GroupTask:
    """A group of random ids; half of the actions are rewarded."""
    source = random.Random(f"bench-{seed}-{group}-{state}-{action}")
    firsts = source.sample(range(vocabulary), group)
    actions = tuple((first, *source.choices(range(vocabulary), k=action - 1)) for first in firsts)
    rewarded = set(source.sample(range(group), group // 2))
    rewards = tuple(float(index in rewarded) for index in range(group))
    return GroupTask(tuple(source.choices(range(vocabulary), k=state)), actions, rewards)


def with_sampled(task: GroupTask, logprobs_GT: list[list[float]], seed: int = 0) -> GroupTask:
    """The group as a policy sampled it that has since moved towards the rewards.

    So the loss is not zero, as it is at a ratio of 1 whatever the model says.
    """
    source = random.Random(f"sampled-{seed}")
    lines = []
    for line, reward in zip(logprobs_GT, task.rewards, strict=True):
        before = -MOVED if reward else MOVED
        lines.append(tuple(value + before + source.gauss(0.0, LOOSE) for value in line))
    return replace(task, sampled=tuple(lines))


def disagreement(answers: Mapping[str, Answer], dtype: str) -> str:
    """What two sides do not agree in; empty where losses and gradient norms are equal up to rounding."""
    token_limit, norm_limit = TOLERANCES[dtype]
    loss_limit = token_limit / min(answer["tokens"] for answer in answers.values()) ** 0.5
    (first, ours), *others = answers.items()
    for name, theirs in others:
        if not abs(theirs["loss"] - ours["loss"]) <= loss_limit:
            return f"loss {ours['loss']:.6g} of {first}, {theirs['loss']:.6g} of {name}; at most {loss_limit:.2g} apart"
        if not abs(theirs["norm"] - ours["norm"]) <= norm_limit * ours["norm"]:
            return (
                f"gradient norm {ours['norm']:.6g} of {first}, {theirs['norm']:.6g} of {name}; at most "
                f"{norm_limit:.1%} apart"
            )
    return ""


def step_answer(task: GroupTask, loss: float, gradients: list[Tensor | None]) -> Answer:
    """What a side of a step answers: trained tokens, loss, and the Euclidean norm over all gradients."""
    squares = sum(float(one.double().pow(2).sum()) for one in gradients if one is not None)
    return {"tokens": task.trained, "loss": loss, "norm": squares**0.5}


class _OursWork:
    """What the sides with our policy share: one lane, for one group; all parameters train."""

    def __init__(self, folder: Path, compute: ComputeConfig) -> None:
        prepare_torch(compute)
        self.policy = TrainablePolicy(folder, folder, FullParameters(kind="full"), compute, seed=0, load=load_any)
        touch(self.policy.model)
        self.loss = float("nan")

    def load(self, task: GroupTask) -> None:
        self.task = task

    def answer(self) -> Answer:
        return step_answer(self.task, self.loss, [master.grad for master in self.policy.masters])

    def clear(self) -> None:
        for master in self.policy.masters:
            master.grad = None


class TreeStep(_OursWork):
    """Ours: `train_step` itself, with the optimiser's update left out, in one row of the prefix tree."""

    def run(self) -> None:
        self.clear()
        still: Any = SimpleNamespace(update=lambda _step: 0.0)
        config = GRPOTrain(method="grpo", group_size=len(self.task.actions), parameters=FullParameters(kind="full"))
        metrics = train_step(
            self.policy, still, [self.task.group()], config, len(self.task.state) + self.task.trained, Progress()
        )
        self.loss = metrics["train/loss"]


class PaddedStep(_OursWork):
    """The same loss on whole sequences, `micro_batch` at a time (or as many as have that many tokens).

    The state is computed again for every action; everything else is as in ours.
    """

    def __init__(self, folder: Path, compute: ComputeConfig, micro_batch: int, in_tokens: bool) -> None:
        super().__init__(folder, compute)
        self.micro_batch = micro_batch
        self.in_tokens = in_tokens

    def run(self) -> None:
        self.clear()
        task, state, device = self.task, len(self.task.state), self.policy.device
        ids_NL = torch.tensor([[*task.state, *action] for action in task.actions], device=device)
        sampled_NT = torch.tensor(task.sampled, device=device)
        advantages_N = group_advantages(torch.tensor([task.rewards], dtype=torch.float64))[0].float().to(device)
        weights_N = torch.full_like(advantages_N, 1.0 / sampled_NT.numel(), dtype=torch.float64)
        micro = max(1, self.micro_batch // ids_NL.shape[1]) if self.in_tokens else self.micro_batch
        loss = 0.0
        for start in range(0, len(ids_NL), micro):
            part = slice(start, start + micro)
            logprobs_NT = self._logprobs(ids_NL[part], state)
            result = policy_loss(
                logprobs_NT, advantages_N[part], torch.ones_like(logprobs_NT, dtype=torch.bool), weights_N[part],
                ClipConfig(), sampled_logprobs_NT=sampled_NT[part],
            )  # fmt: skip
            self.policy.add_gradients(self.policy.gradients(result.loss))
            loss += float(result.loss.detach())
        self.loss = loss

    def _logprobs(self, ids_NL: Tensor, state: int) -> Tensor:
        model = self.policy.inner
        hidden_NLD = model.model(input_ids=ids_NL[:, :-1], use_cache=False).last_hidden_state
        hidden_SD = hidden_NLD[:, state - 1 :].flatten(0, 1)
        targets_NT = ids_NL[:, state:]
        scores = token_logprobs_and_entropy(hidden_SD, head_weight(model), targets_NT.flatten())
        return scores.logprobs_S.view(targets_NT.shape)


class Scores(_OursWork):
    """Log-probabilities [G, T] of the actions as they stand, from which those at sampling are drawn.

    In fp32 whatever the sides compute in: in bf16 they would have our own rounding, and agree with ours better.
    """

    def __init__(self, folder: Path, compute: ComputeConfig) -> None:
        super().__init__(folder, compute.model_copy(update={"dtype": "float32"}))

    @torch.no_grad()
    def run(self) -> None:
        task = self.task
        places = [range(len(task.state), len(task.state) + len(action)) for action in task.actions]
        row = build_tree_row(
            [
                TargetSequence((*task.state, *action), tuple(place))
                for action, place in zip(task.actions, places, strict=True)
            ]
        ).to(self.policy.device)
        self.logprobs_NT = score_row(self.policy.inner, row)[0]

    def answer(self) -> Answer:
        return {"logprobs": self.logprobs_NT.tolist()}


def touch(model: Any) -> None:
    """Read every parameter once: weights that lie in a file until they are read would count as a run's memory."""
    for parameter in model.parameters():
        parameter.detach().sum()

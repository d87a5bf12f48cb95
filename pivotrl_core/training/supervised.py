"""Supervised fine-tuning on expert actions: of whole trajectories at a time, because their turns share a prefix.

A trajectory's selected turns become one row of ids with the expert's tokens as targets, each predicted once; the state,
earlier assistant turns that were not selected among it, is never a target. Where a turn's state is not a prefix of the
next one's (a template that rewrites earlier turns), a new row begins.

Loss of a step: the mean over all target tokens of its trajectories of -log pi(token).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.errors import TrainingError
from pivotrl_core.grpo.layouts import Row, row_attention
from pivotrl_core.grpo.loss import weighted_sum
from pivotrl_core.grpo.prefix_tree import TargetSequence
from pivotrl_core.seeding import generator
from pivotrl_core.training.batches import build_batch
from pivotrl_core.training.checkpoint import Checkpoints, Progress
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.types import Candidate


def trajectory_rows(candidates: Sequence[Candidate], renderer: ChatRenderer) -> list[TargetSequence]:
    """Rows of one trajectory's candidates, which are given in the order of their turns."""
    rows: list[TargetSequence] = []
    ids: tuple[int, ...] = ()
    targets: list[int] = []
    for candidate in candidates:
        state = renderer.state_ids(candidate.state, candidate.tools)
        action = renderer.action_ids(candidate.expert)
        if state[: len(ids)] != ids:
            rows.append(TargetSequence(ids, tuple(targets)))
            targets = []
        targets += range(len(state), len(state) + len(action))
        ids = (*state, *action)
    return [*rows, TargetSequence(ids, tuple(targets))] if ids else rows


@dataclass(frozen=True, slots=True)
class SupervisedPlan:
    """How much, and in what order: `epochs` passes over trajectories in an order of the seed's own."""

    epochs: int
    batch_trajectories: int
    seed: int
    checkpoint_every: int
    row_tokens: int

    def batches(self, count: int) -> list[list[int]]:
        """Indices of trajectories for each step."""
        steps: list[list[int]] = []
        for epoch in range(self.epochs):
            order = generator(self.seed, "sft-order", epoch).permutation(count).tolist()
            steps += [order[i : i + self.batch_trajectories] for i in range(0, count, self.batch_trajectories)]
        return steps


def train_supervised(
    policy: TrainablePolicy,
    optimiser: Optimiser,
    trajectories: Sequence[Sequence[TargetSequence]],
    plan: SupervisedPlan,
    checkpoints: Checkpoints,
    on_step: Callable[[Progress, dict[str, float]], None],
) -> Progress:
    """Train to the end of the plan, from the newest checkpoint on.

    Raises:
        TrainingError: the loss is not finite, or there is nothing to train on.
    """
    batches = plan.batches(len(trajectories))
    if not batches:
        raise TrainingError("no trajectories to train on; the pool of this arm is empty")
    progress = checkpoints.restore(optimiser)
    while progress.step < len(batches):
        batch = [trajectories[index] for index in batches[progress.step]]
        loss, tokens = _accumulate(policy, batch, plan.row_tokens)
        norm = optimiser.update(progress.step)
        progress.counters["trained_tokens"] = progress.counters.get("trained_tokens", 0) + tokens
        on_step(progress, {"train/loss": loss, "train/grad_norm": norm})
        progress.step += 1
        if checkpoints.due(progress.step, plan.checkpoint_every) and progress.step < len(batches):
            checkpoints.save(optimiser, progress)
    return progress


def _accumulate(
    policy: TrainablePolicy, trajectories: Sequence[Sequence[TargetSequence]], row_tokens: int
) -> tuple[float, int]:
    """Gradient of the step's loss, row by row, each rank with its share of the trajectories.

    Returns the loss and the number of computed tokens, of all ranks.
    """
    total = sum(len(sequence.places) for trajectory in trajectories for sequence in trajectory)
    sequences = [sequence for place in policy.ranks.share(len(trajectories)) for sequence in trajectories[place]]
    loss_sum = 0.0
    batch = build_batch(
        sequences, row_tokens, policy.lanes.parts, policy.layout, policy.device, may_lead=policy.may_lead
    )
    lead = batch.compute_lead(policy.inner)
    computed = len(batch.lead)

    def gradient(row: Row) -> tuple[list[Tensor | None], float, int]:
        logprobs_NT, _ = policy.score(row, lead=lead)
        weights_N = torch.full((len(logprobs_NT),), 1.0 / total, device=logprobs_NT.device)
        loss = -weighted_sum(logprobs_NT, row.mask_NT, weights_N)
        return policy.gradients(loss, lead), float(loss.detach()), row.computed

    with row_attention(policy.inner, policy.layout), policy.in_step(len(batch.rows)):
        for gradients, loss, size in policy.lanes.map(gradient, batch.rows):
            policy.add_gradients(gradients, lead)
            loss_sum += loss
            computed += size
        policy.add_lead(lead)
    (loss_sum, computed), *others = policy.ranks.gather((loss_sum, computed))
    for loss, size in others:
        loss_sum += loss
        computed += size
    if not math.isfinite(loss_sum):
        raise TrainingError("the loss is not finite; lower the learning rate, or look at the data of this step")
    return loss_sum, computed

"""Our advantages and loss solve a small bandit, and keep what they are not paid for."""

from __future__ import annotations

import torch
from torch import Tensor

from pivotrl_core.grpo.advantages import group_advantages
from pivotrl_core.grpo.choices import KLEstimator, LossNormalisation
from pivotrl_core.grpo.kl import kl_term
from pivotrl_core.grpo.loss import ClipConfig, policy_loss
from pivotrl_core.grpo.weights import sequence_weights

STATES, ACTIONS, GROUP = 3, 6, 8
ACCEPTED = torch.tensor([[0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0]], dtype=torch.float32)


def train(steps: int, kl_weight: float = 0.0, rewards: Tensor = ACCEPTED, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two clipped updates per sampled batch; returns the probabilities before and after."""
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(STATES, ACTIONS, generator=draw).requires_grad_()
    before = torch.softmax(logits.detach(), 1)
    optimiser = torch.optim.Adam([logits], lr=0.05)
    group = torch.arange(STATES).repeat_interleave(GROUP)
    ones = torch.ones(STATES * GROUP, dtype=torch.long)
    weights = sequence_weights(ones, group, LossNormalisation.GRPO, max_length=1)
    mask = ones.bool()[:, None]
    for _ in range(steps):
        old = torch.log_softmax(logits.detach(), 1)
        actions = torch.multinomial(old.exp(), GROUP, replacement=True, generator=draw).flatten()
        advantages = group_advantages(rewards[group, actions].view(STATES, GROUP)).flatten()
        for _ in range(2):
            logprobs = torch.log_softmax(logits, 1)[group, actions][:, None]
            sampled = old[group, actions][:, None]
            loss = policy_loss(logprobs, advantages, mask, weights, ClipConfig(), sampled_logprobs_NT=sampled).loss
            if kl_weight:
                anchor = before.log()[group, actions][:, None]
                loss = loss + kl_weight * kl_term(logprobs, anchor, mask, weights, KLEstimator.K3)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return before, torch.softmax(logits.detach(), 1)


def success(policy: Tensor) -> Tensor:
    return (policy * ACCEPTED).sum(1)


def test_the_bandit_is_solved() -> None:
    before, after = train(steps=150)
    assert float(success(before).mean()) < 0.6
    assert float(success(after).min()) > 0.95


def test_equal_rewards_teach_nothing() -> None:
    before, after = train(steps=20, rewards=torch.full((STATES, ACTIONS), 0.1))
    assert torch.equal(before, after)


def test_a_kl_term_holds_the_policy_back() -> None:
    _, free = train(steps=150)
    before, anchored = train(steps=150, kl_weight=1.0)
    assert float(success(before).mean()) < float(success(anchored).mean()) < float(success(free).mean())

"""Advantages for any rewards: they sum to zero, keep the order of rewards, and stay bounded."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl_core.grpo.advantages import group_advantages
from pivotrl_core.grpo.choices import AdvantageNormalisation, Baseline

REWARDS = st.lists(st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0]), min_size=2, max_size=16)


@settings(max_examples=100, deadline=None)
@given(REWARDS, st.sampled_from(Baseline), st.sampled_from(AdvantageNormalisation))
def test_advantages_sum_to_zero_and_keep_the_order(
    rewards: list[float], baseline: Baseline, normalisation: AdvantageNormalisation
) -> None:
    rewards_BG = torch.tensor([rewards], dtype=torch.float64)
    advantages = group_advantages(rewards_BG, normalisation, baseline)[0]
    assert abs(advantages.sum().item()) < 1e-9
    order = torch.argsort(rewards_BG[0], stable=True)
    assert bool((advantages[order].diff() >= -1e-12).all())


@settings(max_examples=100, deadline=None)
@given(REWARDS)
def test_normalised_advantages_are_bounded_by_the_group_size(rewards: list[float]) -> None:
    size = len(rewards)
    rewards_BG = torch.tensor([rewards], dtype=torch.float64)
    mean = group_advantages(rewards_BG, baseline=Baseline.MEAN).abs().max().item()
    others = group_advantages(rewards_BG, baseline=Baseline.LEAVE_ONE_OUT).abs().max().item()
    assert mean <= math.sqrt(size - 1) + 1e-9
    assert others <= size / math.sqrt(size - 1) + 1e-9

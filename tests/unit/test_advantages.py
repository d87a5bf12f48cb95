"""Advantages, worked out by hand."""

from __future__ import annotations

import pytest
import torch

from pivotrl_core.errors import TrainingError
from pivotrl_core.grpo.advantages import group_advantages, zero_variance_B
from pivotrl_core.grpo.choices import AdvantageNormalisation, Baseline


def test_one_success_of_four_gets_the_root_of_three() -> None:
    # mean 1/4, population variance 1/4 * 3/4 = 3/16, sigma = sqrt(3)/4
    # (3/4) / (sqrt(3)/4) = sqrt(3); (-1/4) / (sqrt(3)/4) = -1/sqrt(3)
    advantages = group_advantages(torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=torch.float64), eps=0.0)
    expected = torch.tensor([[3**0.5, -(3**-0.5), -(3**-0.5), -(3**-0.5)]], dtype=torch.float64)
    torch.testing.assert_close(advantages, expected)


def test_leave_one_out_compares_each_reward_with_the_others() -> None:
    # others' means: (0 + 0 + 1)/3 = 1/3 for a success, (1 + 1 + 0)/3 = 2/3 for a failure
    rewards = torch.tensor([[1.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    advantages = group_advantages(rewards, AdvantageNormalisation.NONE, Baseline.LEAVE_ONE_OUT)
    torch.testing.assert_close(advantages, torch.tensor([[2 / 3, 2 / 3, -2 / 3, -2 / 3]], dtype=torch.float64))


def test_the_only_success_of_a_group_stays_bounded_with_leave_one_out_and_std() -> None:
    # G/(G-1) * (r - mean) / sigma = 4/3 * sqrt(3), the bound G/sqrt(G-1); the others' std would be 0
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    advantages = group_advantages(rewards, AdvantageNormalisation.GROUP_STD, Baseline.LEAVE_ONE_OUT, eps=0.0)
    assert advantages[0, 0].item() == pytest.approx(4 / 3 * 3**0.5)
    assert advantages.sum().item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("baseline", list(Baseline))
@pytest.mark.parametrize("normalisation", list(AdvantageNormalisation))
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 1 / 3, -0.7])
def test_equal_rewards_give_exactly_zero(
    constant: float, normalisation: AdvantageNormalisation, baseline: Baseline
) -> None:
    rewards = torch.full((2, 7), constant)
    assert torch.equal(group_advantages(rewards, normalisation, baseline), torch.zeros(2, 7))


def test_a_constant_group_leaves_its_neighbour_alone() -> None:
    rewards = torch.tensor([[0.3, 0.3], [1.0, 0.0]])
    assert group_advantages(rewards, eps=0.0).tolist() == [[0.0, 0.0], [1.0, -1.0]]


def test_zero_variance_is_decided_on_the_raw_rewards() -> None:
    rewards = torch.tensor([[0.1, 0.1, 0.1], [0.1, 0.1, 0.1001], [1.0, 1.0, 1.0]])
    assert zero_variance_B(rewards).tolist() == [True, False, True]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_stops_with_the_group_named(bad: float) -> None:
    with pytest.raises(TrainingError, match=r"\[1\]"):
        group_advantages(torch.tensor([[0.0, 1.0], [bad, 1.0]]))


def test_leave_one_out_refuses_a_group_of_one() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        group_advantages(torch.tensor([[1.0]]), baseline=Baseline.LEAVE_ONE_OUT)

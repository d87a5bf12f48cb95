"""Metrics of a step, worked out by hand, and the merging of equal actions."""

from __future__ import annotations

import pytest
import torch

from pivotrl_core.grpo.duplicates import merge_equal_actions
from pivotrl_core.grpo.loss import RatioRecord
from pivotrl_core.grpo.metrics import group_metrics, ratio_metrics, token_metrics
from pivotrl_core.grpo.mismatch import MismatchRecord, mismatch_metrics
from pivotrl_core.stages.train import final_metrics
from pivotrl_core.training.checkpoint import Progress
from tasks.report.definitions import SECTIONS


def test_group_metrics_are_their_formulas() -> None:
    # groups: (1, 0) std 1/2, mixed; (1, 1) and (0.5, 0.5) constant
    rewards = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.5, 0.5]])
    advantages = torch.tensor([[1.0, -1.0], [0.0, 0.0], [0.0, 0.0]])
    metrics = group_metrics(rewards, advantages, torch.tensor([[1, 2], [3, 4], [5, 6]]), replayed=1, demonstrated=2)
    assert metrics == pytest.approx(
        {
            "train/reward_mean": 4 / 6,
            "train/group_reward_std": 0.5 / 3,
            "train/zero_variance_share": 2 / 3,
            "train/replayed_share": 1 / 3,
            "train/demonstrated_share": 2 / 3,
            "train/mixed_share": 1 / 3,
            "train/advantage_abs_mean": 2 / 6,
            "train/action_length_mean": 3.5,
        }
    )


def test_a_group_is_mixed_by_what_full_reward_is() -> None:
    rewards = torch.tensor([[0.9, 0.1], [0.1, 0.1]])
    metrics = group_metrics(rewards, torch.zeros(2, 2), torch.ones(2, 2, dtype=torch.long), full_reward=0.9)
    assert metrics["train/mixed_share"] == 0.5


def test_ratio_and_token_metrics_are_shares_and_means() -> None:
    metrics = ratio_metrics(RatioRecord(4.0, 5.0, 2.0, 1.0, 2.0, 1.0)) | token_metrics(6.0, 1.0, 4.0)
    assert metrics == {
        "train/ratio_mean": 1.25,
        "train/ratio_max": 2.0,
        "train/clip_low_share": 0.25,
        "train/clip_high_share": 0.5,
        "train/capped_share": 0.25,
        "train/kept_share": 0.25,
        "train/entropy": 1.5,
        "train/kl": 0.25,
    }


def test_no_distance_is_told_where_no_reference_is_asked() -> None:
    assert token_metrics(6.0, None, 4.0) == {"train/entropy": 1.5}


def test_final_rewards_are_means_over_whole_turns_of_the_temperatures() -> None:
    lines = [{"step": step, "metrics": {"train/reward_mean": float(step % 2), "train/loss": step}} for step in range(9)]
    progress = Progress(step=9, lines=lines)
    assert final_metrics(progress, 0)["train/reward_mean"] == 0.4  # steps 4 to 8
    assert final_metrics(progress, 2)["train/reward_mean"] == 0.5  # 3 to 8
    assert final_metrics(progress, 3)["train/reward_mean"] == 0.5
    assert final_metrics(progress, 7)["train/reward_mean"] == pytest.approx(3 / 7)
    assert final_metrics(progress, 2)["train/loss"] == 8


def test_every_metric_is_defined() -> None:
    produced = {
        *group_metrics(torch.ones(1, 2), torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.long)),
        *ratio_metrics(RatioRecord()),
        *token_metrics(0.0, 0.0, 1.0),
        *mismatch_metrics(MismatchRecord(tokens=1.0)),
    }
    assert produced <= {metric.name for metric in SECTIONS["Training"]}


def test_equal_actions_are_merged_in_order_with_their_advantages_summed() -> None:
    merged = merge_equal_actions([[5, 6], [7], [5, 6], [5]], torch.tensor([1.0, -0.5, 1.0, -1.5]))
    assert merged.action_ids == ((5, 6), (7,), (5,))
    assert merged.first_U.tolist() == [0, 1, 3]
    assert merged.equal == ((0, 2), (1,), (3,))
    assert merged.advantages_U.tolist() == [2.0, -0.5, -1.5]


def test_equal_actions_with_advantages_of_opposite_sign_stay_apart() -> None:
    merged = merge_equal_actions([[5], [5], [5]], torch.tensor([1.0, -1.0, 0.5]))
    assert merged.advantages_U.tolist() == [1.5, -1.0]

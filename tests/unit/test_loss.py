"""The clipped loss, its weights and its record, worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pivotrl_core.errors import TrainingError
from pivotrl_core.grpo.choices import LossNormalisation, RatioLevel
from pivotrl_core.grpo.loss import ClipConfig, PolicyLoss, RatioRecord, policy_loss
from pivotrl_core.grpo.weights import sequence_weights

F64 = torch.float64
# Two sequences: ratios (1.5, 0.5) with A = 1, and ratio 0.5 with A = -1; the last place is padding and holds rubbish.
SAMPLED = torch.full((2, 2), math.log(0.2), dtype=F64)
LOGPROBS = torch.tensor([[math.log(0.3), math.log(0.1)], [math.log(0.1), float("nan")]], dtype=F64)
MASK = torch.tensor([[True, True], [True, False]])
ADVANTAGES = torch.tensor([1.0, -1.0], dtype=F64)
CLIP = ClipConfig(clip_low=0.2, clip_high=0.28)


def weights(normalisation: LossNormalisation, groups: tuple[int, int] = (0, 1)) -> Tensor:
    return sequence_weights(MASK.sum(1), torch.tensor(groups), normalisation, max_length=4)


def loss_of(weights_N: Tensor, config: ClipConfig = CLIP) -> PolicyLoss:
    return policy_loss(LOGPROBS, ADVANTAGES, MASK, weights_N, config, sampled_logprobs_NT=SAMPLED)


# Token losses: -min(1.5, 1.28) = -1.28; -min(0.5, 0.8) = -0.5; -min(-0.5, -0.8) = 0.8. Their sum is -0.98.
@pytest.mark.parametrize(
    ("normalisation", "groups", "expected"),
    [
        (LossNormalisation.GRPO, (0, 1), (-1.78 / 2 + 0.8) / 2),
        (LossNormalisation.DR_GRPO, (0, 1), -0.98 / (2 * 4)),
        (LossNormalisation.DAPO, (0, 1), -0.98 / 3),
        (LossNormalisation.BNPO, (0, 1), (-1.78 / 2 + 0.8) / 2),
        (LossNormalisation.BNPO, (0, 0), -0.98 / 3),
    ],
)
def test_the_loss_is_the_equation_s_number(
    normalisation: LossNormalisation, groups: tuple[int, int], expected: float
) -> None:
    assert loss_of(weights(normalisation, groups)).loss.item() == pytest.approx(expected, abs=1e-12)


def test_the_record_counts_what_the_clip_removed() -> None:
    # ratios 1.5, 0.5, 0.5 over 3 tokens; 1.5 > 1.28 with A > 0 is high, the second 0.5 < 0.8 with A < 0 is low
    ratios = loss_of(weights(LossNormalisation.DAPO)).ratios
    assert (ratios.tokens, ratios.clipped_low, ratios.clipped_high) == (3.0, 1.0, 1.0)
    assert ratios.ratio_mean == pytest.approx(2.5 / 3)
    assert ratios.ratio_max == pytest.approx(1.5)
    assert ratios.kept_share == pytest.approx(1 / 3)


def test_records_of_micro_batches_add_up() -> None:
    total = RatioRecord(2.0, 3.0, 1.5, 0.0, 1.0, 0.0) + RatioRecord(1.0, 0.5, 0.5, 1.0, 0.0, 1.0)
    assert total == RatioRecord(3.0, 3.5, 1.5, 1.0, 1.0, 1.0)


def test_a_sequence_ratio_is_the_geometric_mean_of_its_token_ratios() -> None:
    # sqrt(1.5 * 0.5) = sqrt(0.75), inside the clip; second sequence: ratio 0.5, A = -1, loss 0.8
    config = ClipConfig(clip_low=0.2, clip_high=0.28, level=RatioLevel.SEQUENCE)
    expected = (-math.sqrt(0.75) + 0.8) / 2
    assert loss_of(weights(LossNormalisation.GRPO), config).loss.item() == pytest.approx(expected)


def test_without_sampled_logprobs_the_ratio_is_one_and_the_gradient_is_reinforce() -> None:
    logprobs = LOGPROBS.clone().requires_grad_()
    result = policy_loss(logprobs, ADVANTAGES, MASK, weights(LossNormalisation.DAPO), CLIP)
    result.loss.backward()
    assert result.ratios.ratio_mean == 1.0
    assert result.loss.item() == pytest.approx(-(1 + 1 - 1) / 3)
    assert logprobs.grad is not None
    torch.testing.assert_close(logprobs.grad, torch.tensor([[-1 / 3, -1 / 3], [1 / 3, 0.0]], dtype=F64))


def test_a_ratio_beyond_all_numbers_has_a_gradient_all_the_same() -> None:
    logprobs = torch.tensor([[-0.1], [-0.1], [-0.1]], requires_grad=True)
    sampled, mask = torch.full((3, 1), -150.0), torch.ones(3, 1, dtype=torch.bool)
    weights_N, advantages = torch.ones(3, dtype=F64), torch.tensor([1.0, 0.0, -1.0])
    result = policy_loss(logprobs, advantages, mask, weights_N, CLIP, sampled_logprobs_NT=sampled)
    result.loss.backward()
    assert logprobs.grad is not None
    assert logprobs.grad.isfinite().all()
    assert logprobs.grad[:2].eq(0).all()  # the clip holds the first one
    assert logprobs.grad[2] > 1e8  # e^20: what was never likely and is bad is pushed down
    assert result.loss.isfinite()


def test_clipped_tokens_and_padding_have_no_gradient() -> None:
    # only the token with ratio 0.5 and A = 1 is left: d(-0.5)/d logprob = -0.5, times 1/3
    logprobs = LOGPROBS.clone().requires_grad_()
    weights_N = weights(LossNormalisation.DAPO)
    policy_loss(logprobs, ADVANTAGES, MASK, weights_N, CLIP, sampled_logprobs_NT=SAMPLED).loss.backward()
    assert logprobs.grad is not None
    torch.testing.assert_close(logprobs.grad, torch.tensor([[0.0, -0.5 / 3], [0.0, 0.0]], dtype=F64))


def test_a_nan_at_a_trained_token_comes_out_as_nan() -> None:
    everything = torch.ones_like(MASK)
    result = policy_loss(LOGPROBS, ADVANTAGES, everything, weights(LossNormalisation.DAPO), CLIP)
    assert math.isnan(result.loss.item())


def test_the_engine_s_mismatch_weight_is_capped_and_carries_no_gradient() -> None:
    # exp(current - sampled) = 1.5, 0.5, 0.5, capped at 1.2; the ratio itself is 1: -1.2 - 0.5 + 0.5 = -1.2
    config = ClipConfig(truncation_cap=1.2)
    logprobs = LOGPROBS.clone().requires_grad_()
    weights_N = weights(LossNormalisation.DAPO)
    result = policy_loss(logprobs, ADVANTAGES, MASK, weights_N, config, sampled_logprobs_NT=SAMPLED)
    result.loss.backward()
    assert result.loss.item() == pytest.approx(-1.2 / 3)
    assert (result.ratios.capped, result.ratios.ratio_mean) == (1.0, 1.0)
    assert logprobs.grad is not None
    torch.testing.assert_close(logprobs.grad, torch.tensor([[-1.2 / 3, -0.5 / 3], [0.5 / 3, 0.0]], dtype=F64))


def test_rubbish_in_the_padding_stays_there_also_with_a_sequence_ratio_and_a_cap() -> None:
    config = ClipConfig(level=RatioLevel.SEQUENCE, truncation_cap=1.2)
    logprobs = LOGPROBS.clone().requires_grad_()
    weights_N = weights(LossNormalisation.GRPO)
    result = policy_loss(logprobs, ADVANTAGES, MASK, weights_N, config, sampled_logprobs_NT=SAMPLED)
    result.loss.backward()
    # first sequence: weight 1/4, d loss/d ratio = -(1.2 + 0.5)/4, shared by two tokens; second: 0.5 * 1/2
    assert logprobs.grad is not None
    torch.testing.assert_close(logprobs.grad, torch.tensor([[-0.2125, -0.2125], [0.25, 0.0]], dtype=F64))


def test_with_old_logprobs_the_ratio_and_the_mismatch_are_apart() -> None:
    # one token, A = 1: ratio 0.3/0.25 = 1.2 inside the clip; mismatch 0.25/0.2 = 1.25 under the cap; -1.2 * 1.25
    one = torch.tensor([[True]])
    result = policy_loss(
        torch.tensor([[math.log(0.3)]], dtype=F64),
        torch.tensor([1.0], dtype=F64),
        one,
        torch.tensor([1.0], dtype=F64),
        ClipConfig(clip_high=0.28, truncation_cap=5.0),
        sampled_logprobs_NT=torch.tensor([[math.log(0.2)]], dtype=F64),
        old_logprobs_NT=torch.tensor([[math.log(0.25)]], dtype=F64),
    )
    assert result.loss.item() == pytest.approx(-1.5)


def test_half_given_mismatch_inputs_are_refused() -> None:
    weights_N = weights(LossNormalisation.DAPO)
    with pytest.raises(ValueError, match="needs sampled"):
        policy_loss(LOGPROBS, ADVANTAGES, MASK, weights_N, ClipConfig(truncation_cap=5.0))
    with pytest.raises(ValueError, match="truncation cap only"):
        policy_loss(LOGPROBS, ADVANTAGES, MASK, weights_N, CLIP, old_logprobs_NT=SAMPLED)


@pytest.mark.parametrize("normalisation", list(LossNormalisation))
def test_sequences_that_do_not_count_leave_every_denominator(normalisation: LossNormalisation) -> None:
    lengths, groups = torch.tensor([3, 2, 5, 4]), torch.tensor([0, 0, 1, 1])
    kept = torch.tensor([True, True, False, False])
    with_others = sequence_weights(lengths, groups, normalisation, 6, counted_N=kept)
    alone = sequence_weights(lengths[:2], groups[:2], normalisation, 6)
    assert with_others.tolist() == [*alone.tolist(), 0.0, 0.0]


def test_a_batch_in_which_nothing_counts_is_an_error() -> None:
    with pytest.raises(TrainingError, match="nothing to train on"):
        sequence_weights(
            torch.tensor([3]), torch.tensor([0]), LossNormalisation.DAPO, 6, counted_N=torch.tensor([False])
        )

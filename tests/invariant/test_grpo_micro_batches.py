"""Loss, gradient and record do not depend on how a batch is split."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pivotrl_core.grpo.choices import KLEstimator, LossNormalisation, RatioLevel
from pivotrl_core.grpo.kl import kl_term
from pivotrl_core.grpo.loss import ClipConfig, RatioRecord, policy_loss, weighted_sum
from pivotrl_core.grpo.weights import sequence_weights

SEQUENCES, LENGTH, VOCABULARY = 8, 5, 7


def step(micro_batch: int, normalisation: LossNormalisation, level: RatioLevel) -> tuple[float, Tensor, RatioRecord]:
    """Loss, gradient and record of one optimiser step over 8 sequences of 1 to 5 tokens in 3 groups."""
    draw = torch.Generator().manual_seed(5)
    parameters = torch.randn(SEQUENCES, LENGTH, VOCABULARY, dtype=torch.float64, generator=draw)
    shared = torch.zeros(VOCABULARY, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(VOCABULARY, (SEQUENCES, LENGTH), generator=draw)
    noise = 0.3 * torch.randn(SEQUENCES, LENGTH, dtype=torch.float64, generator=draw)
    lengths = torch.tensor([5, 1, 3, 2, 4, 4, 1, 2])
    mask = torch.arange(LENGTH)[None, :] < lengths[:, None]
    advantages = torch.randn(SEQUENCES, dtype=torch.float64, generator=draw)
    weights = sequence_weights(lengths, torch.tensor([0, 0, 0, 1, 1, 1, 2, 2]), normalisation, LENGTH)
    total, record = 0.0, RatioRecord()
    for start in range(0, SEQUENCES, micro_batch):
        part = slice(start, start + micro_batch)
        log_p = torch.log_softmax(parameters[part] + shared, -1)
        logprobs = log_p.gather(2, targets[part][..., None]).squeeze(2)
        entropy = -(log_p.exp() * log_p).sum(-1)
        other = logprobs.detach() + noise[part]
        config = ClipConfig(level=level)
        policy = policy_loss(logprobs, advantages[part], mask[part], weights[part], config, sampled_logprobs_NT=other)
        loss = policy.loss + 0.1 * kl_term(logprobs, other, mask[part], weights[part], KLEstimator.K3)
        loss = loss - 0.01 * weighted_sum(entropy, mask[part], weights[part])
        loss.backward()
        total, record = total + loss.item(), record + policy.ratios
    assert shared.grad is not None
    return total, shared.grad, record


@pytest.mark.parametrize("level", list(RatioLevel))
@pytest.mark.parametrize("normalisation", list(LossNormalisation))
@pytest.mark.parametrize("micro_batch", [4, 2, 1, 3])
def test_micro_batches_equal_the_whole_batch(
    micro_batch: int, normalisation: LossNormalisation, level: RatioLevel
) -> None:
    loss, gradient, record = step(SEQUENCES, normalisation, level)
    split_loss, split_gradient, split_record = step(micro_batch, normalisation, level)
    assert split_loss == pytest.approx(loss, abs=1e-12)
    torch.testing.assert_close(split_gradient, gradient, rtol=1e-10, atol=1e-14)
    assert split_record.ratio_sum == pytest.approx(record.ratio_sum)
    assert (split_record.tokens, split_record.ratio_max) == (record.tokens, record.ratio_max)
    assert (split_record.clipped_low, split_record.clipped_high) == (record.clipped_low, record.clipped_high)
    assert float(gradient.abs().max()) > 1e-3

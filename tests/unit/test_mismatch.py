"""The gap between engine and trainer, worked out by hand, and the weight that corrects for it."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from pivotrl_core.errors import TrainingError
from pivotrl_core.grpo.choices import RatioLevel
from pivotrl_core.grpo.loss import ClipConfig, policy_loss
from pivotrl_core.grpo.mismatch import MismatchRecord, check_mismatch, measure_mismatch, mismatch_metrics

# d: first row log 2 and -log 4, the second (three equal samples) 0; the last places are padding
TRAINER = torch.tensor([[-1.0, -3.0, 9.0], [-2.0, 7.0, 7.0]])
SAMPLED = torch.tensor([[-1.0 - log(2), -3.0 + log(4), float("nan")], [-2.0, 1.0, 1.0]])
MASK = torch.tensor([[True, True, False], [True, False, False]])
MANY = torch.tensor([1.0, 3.0])


def test_the_record_is_its_formulas() -> None:
    metrics = mismatch_metrics(measure_mismatch(TRAINER, SAMPLED, MASK, MANY))
    # 5 tokens: |d| sums to log 2 + log 4; exp(d) to 2 + 1/4 + 3; exp(d) - 1 - d to (1 - log 2) + (-3/4 + log 4)
    assert metrics == pytest.approx(
        {
            "train/mismatch_abs_mean": log(8) / 5,
            "train/mismatch_abs_max": log(4),
            "train/mismatch_ratio_mean": 5.25 / 5,
            "train/mismatch_kl": (0.25 + log(2)) / 5,
        },
        rel=1e-5,
    )


def test_records_of_micro_batches_add_up() -> None:
    parts = [measure_mismatch(TRAINER[i : i + 1], SAMPLED[i : i + 1], MASK[i : i + 1], MANY[i : i + 1]) for i in (0, 1)]
    whole = measure_mismatch(TRAINER, SAMPLED, MASK, MANY)
    assert mismatch_metrics(parts[0] + parts[1]) == pytest.approx(mismatch_metrics(whole))


def test_without_a_token_that_was_sampled_nothing_is_recorded() -> None:
    assert mismatch_metrics(measure_mismatch(TRAINER, SAMPLED, torch.zeros_like(MASK), MANY)) == {}
    check_mismatch(MismatchRecord(), 0.1)


def test_above_the_limit_the_run_stops_and_names_the_setting() -> None:
    record = MismatchRecord(tokens=4.0, abs_sum=2.0, abs_max=1.5)
    check_mismatch(record, 0.5)
    check_mismatch(record, None)
    with pytest.raises(
        TrainingError, match=r"0\.500 nats a token .* 1\.500\), above arms\.NAME\.train\.mismatch_limit = 0\.49"
    ):
        check_mismatch(record, 0.49)
    with pytest.raises(TrainingError, match="nan nats"):
        check_mismatch(MismatchRecord(tokens=1.0, abs_sum=float("nan")), 0.5)


@pytest.mark.parametrize("cap", [1.5, 5.0])
def test_a_sequence_has_one_weight_the_product_of_its_tokens(cap: float) -> None:
    logprobs = torch.tensor([[-1.0, -2.0, 0.0], [-1.5, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    gap = torch.tensor([[0.7, -0.2, 50.0], [0.3, 50.0, 50.0]], dtype=torch.float64)
    advantages, weights = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 0.25])
    config = ClipConfig(truncation_cap=cap, truncation_level=RatioLevel.SEQUENCE)
    result = policy_loss(
        logprobs, advantages, MASK, weights, config, sampled_logprobs_NT=(logprobs - gap).detach()
    )  # fmt: skip
    # ratio 1: l = -A; weights exp(0.7 - 0.2) on two tokens and exp(0.3) on one, up to the cap
    first, second = min(exp(0.5), cap), min(exp(0.3), cap)
    assert float(result.loss.detach()) == pytest.approx(0.5 * 2 * -1.0 * first + 0.25 * 2.0 * second)
    assert result.ratios.capped == (2.0 if cap == 1.5 else 0.0)
    result.loss.backward()
    assert logprobs.grad is not None
    expected = [[-0.5 * first, -0.5 * first, 0.0], [0.5 * second, 0.0, 0.0]]
    torch.testing.assert_close(logprobs.grad, torch.tensor(expected, dtype=torch.float64))


def test_of_one_token_both_forms_are_the_same() -> None:
    logprobs, gap = torch.tensor([[-1.0], [-2.0]]), torch.tensor([[0.4], [2.0]])
    losses = [
        policy_loss(
            logprobs, torch.tensor([1.0, -1.0]), torch.ones(2, 1, dtype=torch.bool), torch.ones(2),
            ClipConfig(truncation_cap=3.0, truncation_level=level), sampled_logprobs_NT=logprobs - gap,
        ).loss
        for level in RatioLevel
    ]  # fmt: skip
    assert torch.equal(losses[0], losses[1])

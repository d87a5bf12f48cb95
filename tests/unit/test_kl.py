"""KL estimators: their values, and what their gradients really pull towards."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pivotrl_core.grpo.choices import KLEstimator
from pivotrl_core.grpo.kl import exact_kl, kl_estimate, kl_term

F64 = torch.float64


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (KLEstimator.K1, math.log(2.0)),  # log 0.5 - log 0.25
        (KLEstimator.K2, math.log(2.0) ** 2 / 2),
        (KLEstimator.K3, 0.5 - 1 + math.log(2.0)),  # 0.25/0.5 - 1 - log(0.25/0.5)
    ],
)
def test_the_estimators_are_their_equations(estimator: KLEstimator, expected: float) -> None:
    value = kl_estimate(torch.tensor([math.log(0.5)], dtype=F64), torch.tensor([math.log(0.25)], dtype=F64), estimator)
    assert value.item() == pytest.approx(expected)


def expected_gradient(estimator: KLEstimator) -> tuple[Tensor, Tensor, Tensor]:
    """Mean over the policy of the estimator's gradient, beside the gradients of both exact divergences."""
    logits = torch.tensor([0.3, -0.5, 0.9, 0.0], dtype=F64, requires_grad=True)
    reference = torch.log_softmax(torch.tensor([0.0, 0.4, -0.2, 0.1], dtype=F64), 0)
    log_p = torch.log_softmax(logits, 0)
    mean = (log_p.exp().detach() * kl_estimate(log_p, reference, estimator)).sum()
    reverse = (log_p.exp() * (log_p - reference)).sum()
    forward = (reference.exp() * (reference - log_p)).sum()
    grads = [torch.autograd.grad(value, logits, retain_graph=True)[0] for value in (mean, reverse, forward)]
    return grads[0], grads[1], grads[2]


def test_k1_pulls_nowhere_and_is_refused_as_a_loss() -> None:
    gradient, _, _ = expected_gradient(KLEstimator.K1)
    torch.testing.assert_close(gradient, torch.zeros(4, dtype=F64))
    zeros = torch.zeros(1, 1)
    with pytest.raises(ValueError, match="k2 or k3"):
        kl_term(zeros, zeros, torch.tensor([[True]]), torch.ones(1), KLEstimator.K1)


def test_k2_pulls_along_the_kl_from_the_policy_to_the_reference() -> None:
    gradient, reverse, forward = expected_gradient(KLEstimator.K2)
    torch.testing.assert_close(gradient, reverse)
    assert not torch.allclose(gradient, forward, rtol=1e-3)


def test_k3_pulls_along_the_kl_from_the_reference_to_the_policy() -> None:
    gradient, reverse, forward = expected_gradient(KLEstimator.K3)
    torch.testing.assert_close(gradient, forward)
    assert not torch.allclose(gradient, reverse, rtol=1e-3)


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_exact_kl_is_the_sum_over_the_vocabulary(chunk: int) -> None:
    torch.manual_seed(0)
    hidden, head = torch.randn(7, 5, dtype=F64), torch.randn(11, 5, dtype=F64)
    other_hidden, other_head = torch.randn(7, 4, dtype=F64), torch.randn(11, 4, dtype=F64)
    log_p = torch.log_softmax(hidden @ head.T, -1)
    log_q = torch.log_softmax(other_hidden @ other_head.T, -1)
    expected = torch.nn.functional.kl_div(log_q, log_p, log_target=True, reduction="none").sum(-1)
    torch.testing.assert_close(exact_kl(hidden, head, other_hidden, other_head, chunk), expected)


def test_a_policy_has_no_kl_from_itself() -> None:
    torch.manual_seed(0)
    hidden, head = torch.randn(3, 5), torch.randn(11, 5)
    assert torch.equal(exact_kl(hidden, head, hidden, head), torch.zeros(3))

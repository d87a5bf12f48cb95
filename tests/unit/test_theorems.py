"""The paper's three theorems as exact tests of our objective on a softmax policy over six actions (float64).

Expectations over actions are sums: every action enters the loss once, weighted by its probability, so that nothing is
sampled. Proposition 3.1, Theorems 3.2 and 3.3 of PivotRL, arXiv 2603.21383.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pivotrl_core.grpo.advantages import group_advantages
from pivotrl_core.grpo.choices import AdvantageNormalisation, Baseline, KLEstimator, LossNormalisation
from pivotrl_core.grpo.kl import kl_term
from pivotrl_core.grpo.loss import ClipConfig, policy_loss
from pivotrl_core.grpo.weights import sequence_weights

F64 = torch.float64
START = torch.tensor([0.5, -1.0, 0.2, 1.5, -0.3, 0.0], dtype=F64)  # logits of pi_0
GRADED = torch.tensor([0.0, 1.0, 0.25, 0.5, 0.0, 0.8], dtype=F64)  # any rewards, for Theorem 3.2
ACCEPTED = torch.tensor([False, True, False, False, True, False])  # M(s), for Theorem 3.3
ONE_TOKEN = torch.ones(6, 1, dtype=torch.bool)


def expected_loss(logits: Tensor, rewards: Tensor, kl_weight: float = 0.0) -> Tensor:
    """Our loss in expectation over the policy; its gradient is that of -E[r] + kl_weight KL(pi || pi_0)."""
    logprobs = torch.log_softmax(logits, 0)
    probabilities = logprobs.exp().detach()
    advantages = rewards - (probabilities * rewards).sum()
    loss = policy_loss(logprobs[:, None], advantages, ONE_TOKEN, probabilities, ClipConfig()).loss
    reference = torch.log_softmax(START, 0)[:, None]
    return loss + kl_weight * kl_term(logprobs[:, None], reference, ONE_TOKEN, probabilities, KLEstimator.K2)


def gradient(logits: Tensor, rewards: Tensor, kl_weight: float = 0.0) -> Tensor:
    at = logits.clone().requires_grad_()
    return torch.autograd.grad(expected_loss(at, rewards, kl_weight), at)[0]


def fisher(logits: Tensor) -> Tensor:
    """E[grad log pi grad log pi^T], from the derivatives of the log-probabilities themselves."""
    jacobian: Tensor = torch.autograd.functional.jacobian(lambda x: torch.log_softmax(x, 0), logits)  # type: ignore[no-untyped-call]
    return jacobian.T @ torch.diag(torch.softmax(logits, 0)) @ jacobian


def fisher_norm(tangent: Tensor, logits: Tensor) -> float:
    return math.sqrt(float(tangent @ fisher(logits) @ tangent))


@pytest.mark.parametrize("baseline", list(Baseline))
@pytest.mark.parametrize("scaling", list(AdvantageNormalisation))
@pytest.mark.parametrize("normalisation", list(LossNormalisation))
@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1])
def test_proposition_3_1_equal_rewards_give_zero_advantage_and_exactly_zero_gradient(
    reward: float, normalisation: LossNormalisation, scaling: AdvantageNormalisation, baseline: Baseline
) -> None:
    logits = START.clone().requires_grad_()
    actions = torch.tensor([0, 3, 3, 5])
    advantages = group_advantages(torch.full((1, 4), reward, dtype=F64), scaling, baseline)[0]
    assert torch.equal(advantages, torch.zeros(4, dtype=F64))
    logprobs = torch.log_softmax(logits, 0)[actions][:, None]
    weights = sequence_weights(torch.ones(4, dtype=torch.long), torch.zeros(4, dtype=torch.long), normalisation, 3)
    moved = logprobs.detach() + 0.1  # an old policy that differs, so that the ratio is not 1
    loss = policy_loss(logprobs, advantages, ONE_TOKEN[:4], weights, ClipConfig(), sampled_logprobs_NT=moved).loss
    loss.backward()
    assert logits.grad is not None
    assert torch.equal(logits.grad, torch.zeros(6, dtype=F64))


@pytest.mark.parametrize("b", [0.3, 1.0, 4.0])
def test_theorem_3_2_the_natural_gradient_s_fisher_norm_is_the_reward_s_standard_deviation(b: float) -> None:
    path = START + GRADED / b  # pi_b(a) ~ pi_0(a) exp(r(a) / b)
    probabilities = torch.softmax(path, 0)
    variance = float((probabilities * GRADED.square()).sum() - (probabilities * GRADED).sum() ** 2)
    natural = torch.linalg.pinv(fisher(path), hermitian=True) @ -gradient(path, GRADED)
    assert fisher_norm(natural, path) / b**2 == pytest.approx(math.sqrt(variance) / b**2, rel=1e-9)


@pytest.mark.parametrize("b", [0.3, 1.0, 4.0])
def test_theorem_3_2_the_path_moves_along_the_natural_gradient_at_that_speed(b: float) -> None:
    path = START + GRADED / b
    speed = -GRADED / b**2  # d path / d b
    natural = torch.linalg.pinv(fisher(path), hermitian=True) @ -gradient(path, GRADED)
    assert fisher_norm(speed, path) == pytest.approx(fisher_norm(natural, path) / b**2, rel=1e-9)
    # the same direction: speed and -natural / b^2 differ by a shift of all logits, which changes no probability
    difference = speed + natural / b**2
    torch.testing.assert_close(difference, difference.mean().expand(6))


def minimiser(b: float) -> Tensor:
    """Minimise our loss by natural-gradient steps of half the Newton length; each halves the distance."""
    logits = torch.zeros(6, dtype=F64)  # not the reference policy: the end does not depend on the start
    for _ in range(80):
        step = torch.linalg.pinv(fisher(logits), hermitian=True) @ gradient(logits, ACCEPTED.to(F64), b)
        logits = logits - 0.5 / b * step
    assert gradient(logits, ACCEPTED.to(F64), b).abs().max() < 1e-12
    return torch.softmax(logits, 0)


@pytest.mark.parametrize("b", [0.3, 1.0, 4.0])
def test_theorem_3_3_the_minimiser_s_mass_on_accepted_actions_has_the_closed_form(b: float) -> None:
    rho = float(torch.softmax(START, 0)[ACCEPTED].sum())
    expected = rho * math.exp(1 / b) / (rho * math.exp(1 / b) + 1 - rho)
    assert float(minimiser(b)[ACCEPTED].sum()) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("inside", [True, False])
def test_theorem_3_3_ratios_inside_and_outside_the_accepted_set_are_kept(inside: bool) -> None:
    part = ACCEPTED if inside else ~ACCEPTED
    before, after = torch.softmax(START, 0)[part], minimiser(0.5)[part]
    torch.testing.assert_close(after / after[0], before / before[0], rtol=1e-10, atol=0.0)


def test_theorem_3_3_no_other_policy_has_a_lower_objective() -> None:
    b, reference = 0.5, torch.log_softmax(START, 0)

    def objective(policy: Tensor) -> float:
        return float(-policy[ACCEPTED].sum() + b * (policy * (policy.log() - reference)).sum())

    best = minimiser(b)
    draw = torch.Generator().manual_seed(0)
    for scale in (1e-3, 0.1, 1.0):
        noise = scale * torch.randn(6, dtype=F64, generator=draw)
        assert objective(torch.softmax(best.log() + noise, 0)) > objective(best)

"""KL divergence between the policy and the reference policy: estimators per sampled token, and the exact value.

Source: J. Schulman, 'Approximating KL divergence' (http://joschu.net/blog/kl-approx.html) for k1, k2, k3; DeepSeekMath,
arXiv 2402.03300, equation 4, uses k3. With d = log pi(a) - log pi_ref(a) for a token a sampled from pi:

    k1 = d                      unbiased, may be negative
    k2 = d^2 / 2                biased, small variance
    k3 = exp(-d) - 1 + d        unbiased, never negative

As a term of the loss, what counts is the gradient of the estimator at a token sampled on-policy (the samples themselves
are not differentiated):

    grad k1 = grad log pi                 mean 0: no pull at all; refused by `kl_term`
    grad k2 = d * grad log pi             mean = gradient of KL(pi || pi_ref), the divergence that Theorem 3.3 is about
    grad k3 = (1 - exp(-d)) grad log pi   mean = gradient of KL(pi_ref || pi), the other direction

k3's gradient is bounded above in d but grows like exp(-d) where the policy has left a token of the reference.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pivotrl_core.grpo.choices import KLEstimator
from pivotrl_core.grpo.loss import weighted_sum


def kl_estimate(
    logprobs_NT: Float[Tensor, "*shape"], reference_logprobs_NT: Float[Tensor, "*shape"], estimator: KLEstimator
) -> Float[Tensor, "*shape"]:
    """The estimator's value in nats for each sampled token; differentiable in the policy's log-probabilities."""
    difference = logprobs_NT - reference_logprobs_NT.detach()
    if estimator == KLEstimator.K1:
        return difference
    if estimator == KLEstimator.K2:
        return 0.5 * difference.square()
    # expm1 keeps the digits that exp(-d) - 1 loses where the policies nearly agree.
    return torch.expm1(-difference) + difference


def kl_term(
    logprobs_NT: Float[Tensor, "N T"],
    reference_logprobs_NT: Float[Tensor, "N T"],
    mask_NT: Bool[Tensor, "N T"],
    weights_N: Float[Tensor, " N"],
    estimator: KLEstimator,
) -> Float[Tensor, ""]:
    """sum_n w_n sum_t m_nt k_nt, to be added to the policy loss times the KL coefficient.

    Args:
        logprobs_NT: of the sampled tokens under the policy, with gradient.
        reference_logprobs_NT: of the same tokens under the frozen reference policy.
        mask_NT: true where a token is trained.
        weights_N: as for the policy loss; times the multiplicity where equal actions were merged.
        estimator: k2 or k3.

    Raises:
        ValueError: k1, whose expected gradient is zero: it would cost a reference pass and do nothing.
    """
    if estimator == KLEstimator.K1:
        raise ValueError("k1 has no expected gradient, so it cannot be a loss term; use k2 or k3")
    return weighted_sum(kl_estimate(logprobs_NT, reference_logprobs_NT, estimator), mask_NT, weights_N)


@torch.no_grad()
def exact_kl(
    hidden_SD: Float[Tensor, "S D"],
    head_VD: Float[Tensor, "V D"],
    reference_hidden_SD: Float[Tensor, "S E"],
    reference_head_VD: Float[Tensor, "V E"],
    chunk: int = 256,
) -> Float[Tensor, " S"]:
    """KL(pi || pi_ref) = sum_v pi(v) (log pi(v) - log pi_ref(v)) over the whole vocabulary at each of S positions.

    For evaluation (drift): no gradient, and at most `chunk` rows of the vocabulary at a time, in fp32 at least.

    Args:
        hidden_SD: last hidden states of the policy, after the final norm.
        head_VD: the policy's output embedding.
        reference_hidden_SD: the reference's hidden states at the same positions.
        reference_head_VD: the reference's output embedding.
        chunk: positions per piece.
    """
    pieces = []
    for start in range(0, hidden_SD.shape[0], chunk):
        part = slice(start, start + chunk)
        log_p = _log_softmax(hidden_SD[part] @ head_VD.T)
        log_q = _log_softmax(reference_hidden_SD[part] @ reference_head_VD.T)
        pieces.append((log_p.exp() * (log_p - log_q)).sum(dim=-1))
    return torch.cat(pieces) if pieces else hidden_SD.new_zeros(0)


def _log_softmax(logits: Float[Tensor, "S V"]) -> Float[Tensor, "S V"]:
    return torch.log_softmax(logits if logits.dtype == torch.float64 else logits.float(), dim=-1)

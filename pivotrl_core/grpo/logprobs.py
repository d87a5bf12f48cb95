"""Log-probability and entropy of chosen tokens from hidden states, without a tensor of positions x vocabulary.

The head runs over chunks of positions. The gradient is written out below: the backward pass computes a chunk's logits
again and needs one pass over them, where that of autograd keeps or repeats every step between them and the result.
Only positions that predict a trained token should be passed in.

Not covered: models that change logits after the head (soft-capping, a scale, a bias); the caller refuses those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Per position, in nats and at least fp32: log-probability of the target, entropy of the distribution."""

    logprobs_S: Float[Tensor, " S"]
    entropy_S: Float[Tensor, " S"]


def token_logprobs_and_entropy(
    hidden_SD: Float[Tensor, "S D"],
    head_VD: Float[Tensor, "V D"],
    targets_S: Int[Tensor, " S"],
    temperature: float = 1.0,
    chunk: int = 256,
) -> TokenScores:
    """Compute log p(target) and H(p) with p = softmax(hidden @ head^T / temperature).

    Args:
        hidden_SD: last hidden states (after the final norm) at the positions that predict the targets.
        head_VD: output embedding.
        targets_S: the token that each position should predict.
        temperature: that of sampling; the log-probabilities are those of the distribution that was sampled from.
        chunk: positions whose logits exist at once.

    Raises:
        ValueError: a temperature of 0 or below (greedy sampling has no log-probabilities to train on).
    """
    if temperature <= 0.0:
        raise ValueError(f"temperature is {temperature}, but log-probabilities need one above 0")
    return TokenScores(*_Scores.apply(hidden_SD, head_VD, targets_S, temperature, chunk))  # type: ignore[no-untyped-call]


class _Scores(torch.autograd.Function):
    """The function and its gradient, chunk by chunk.

    With z the logits over the temperature and p their softmax: d log p(y) / dz = 1_y - p, and dH / dz = -p (log p + H).
    """

    @staticmethod
    def forward(
        ctx: Any, hidden_SD: Tensor, head_VD: Tensor, targets_S: Tensor, temperature: float, chunk: int
    ) -> tuple[Tensor, Tensor]:
        size = hidden_SD.shape[0]
        dtype = torch.promote_types(hidden_SD.dtype, torch.float32)
        logprobs_S, entropy_S = (hidden_SD.new_empty(size, dtype=dtype) for _ in range(2))
        for part in _chunks(size, chunk):
            log_p_SV = _log_softmax(hidden_SD[part], head_VD, temperature)
            logprobs_S[part] = log_p_SV.gather(1, targets_S[part, None]).squeeze(1)
            entropy_S[part] = -torch.linalg.vecdot(log_p_SV.exp(), log_p_SV)
        ctx.save_for_backward(hidden_SD, head_VD, targets_S, entropy_S)
        ctx.settings = temperature, chunk
        ctx.set_materialize_grads(False)
        return logprobs_S, entropy_S

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        grad_logprobs_S, grad_entropy_S = grads
        hidden_SD, head_VD, targets_S, entropy_S = ctx.saved_tensors
        temperature, chunk = ctx.settings
        if grad_logprobs_S is None:
            grad_logprobs_S = torch.zeros_like(entropy_S)
        grad_hidden_SD = torch.empty_like(hidden_SD) if ctx.needs_input_grad[0] else None
        # Chunks add up in fp32: in bf16 a small one would be lost beside the sum of those before it.
        grad_head_VD = torch.zeros_like(head_VD, dtype=entropy_S.dtype) if ctx.needs_input_grad[1] else None
        for part in _chunks(hidden_SD.shape[0], chunk):
            log_p_SV = _log_softmax(hidden_SD[part], head_VD, temperature)
            p_SV = log_p_SV.exp()
            if grad_entropy_S is None:
                grad_SV = p_SV.mul_(-grad_logprobs_S[part, None])
            else:
                slope_SV = log_p_SV.add_(entropy_S[part, None]).mul_(grad_entropy_S[part, None])
                grad_SV = p_SV.mul_(slope_SV.add_(grad_logprobs_S[part, None]).neg_())
            grad_SV.scatter_add_(1, targets_S[part, None], grad_logprobs_S[part, None])
            grad_SV = (grad_SV if temperature == 1.0 else grad_SV.div_(temperature)).to(hidden_SD.dtype)
            if grad_hidden_SD is not None:
                grad_hidden_SD[part] = grad_SV @ head_VD
            if grad_head_VD is not None:
                grad_head_VD += grad_SV.T @ hidden_SD[part]
        return grad_hidden_SD, None if grad_head_VD is None else grad_head_VD.to(head_VD.dtype), None, None, None


def _chunks(size: int, chunk: int) -> Iterator[slice]:
    return (slice(start, start + chunk) for start in range(0, size, chunk))


def _log_softmax(hidden_SD: Tensor, head_VD: Tensor, temperature: float) -> Float[Tensor, "S V"]:
    logits_SV = hidden_SD @ head_VD.T
    # The matrix product stays in the model's dtype; sums over the vocabulary need fp32.
    logits_SV = logits_SV.to(torch.promote_types(logits_SV.dtype, torch.float32))
    return torch.log_softmax(logits_SV if temperature == 1.0 else logits_SV / temperature, dim=-1)

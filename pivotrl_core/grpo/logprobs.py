"""Log-probability and entropy of chosen tokens from hidden states, without a tensor of positions x vocabulary.

The head runs over chunks of positions. The gradient is written out below and needs one pass over a chunk's logits,
where that of autograd keeps or repeats every step between them and the result. The backward pass computes logits again,
but for the last chunk, which it begins with: those are still there, and no more memory is needed at once. Only
positions that predict a trained token should be passed in.

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

CHUNK_BYTES = 2**28  # of the logits that exist at once, in the model's dtype
CACHED = 2**18  # numbers of a block: 1 MiB in fp32


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
    chunk: int | None = None,
) -> TokenScores:
    """Compute log p(target) and H(p) with p = softmax(hidden @ head^T / temperature).

    Args:
        hidden_SD: last hidden states (after the final norm) at the positions that predict the targets.
        head_VD: output embedding.
        targets_S: the token that each position should predict.
        temperature: that of sampling; the log-probabilities are those of the distribution that was sampled from.
        chunk: positions whose logits exist at once; as many as 256 MiB hold where it is not given.

    Raises:
        ValueError: a temperature of 0 or below (greedy sampling has no log-probabilities to train on).
    """
    if temperature <= 0.0:
        raise ValueError(f"temperature is {temperature}, but log-probabilities need one above 0")
    chunk = chunk or max(1, CHUNK_BYTES // (head_VD.shape[0] * head_VD.element_size()))
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
        logprobs_S, entropy_S, log_sum_S = (hidden_SD.new_empty(size, dtype=dtype) for _ in range(3))
        logits_CV: Tensor | None = None
        for part in _chunks(0, size, chunk):
            logits_CV = None  # two chunks never exist at once
            logits_CV = hidden_SD[part] @ head_VD.T
            for rows in _blocks(part, logits_CV):
                logits_BV = _wide(logits_CV[_within(rows, part)], temperature)
                greatest_B1 = logits_BV.amax(dim=1, keepdim=True)
                shifted_BV = logits_BV.sub_(greatest_B1)
                exp_BV = shifted_BV.exp()
                sum_B = exp_BV.sum(dim=1)
                log_B = sum_B.log()
                logprobs_S[rows] = shifted_BV.gather(1, targets_S[rows, None]).squeeze(1) - log_B
                entropy_S[rows] = log_B - torch.linalg.vecdot(exp_BV, shifted_BV) / sum_B
                log_sum_S[rows] = log_B + greatest_B1.squeeze(1)
        ctx.save_for_backward(hidden_SD, head_VD, targets_S, entropy_S, log_sum_S)
        ctx.settings = temperature, chunk
        ctx.last_CV = logits_CV if any(ctx.needs_input_grad) else None
        ctx.set_materialize_grads(False)
        return logprobs_S, entropy_S

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        grad_logprobs_S, grad_entropy_S = grads
        hidden_SD, head_VD, targets_S, entropy_S, log_sum_S = ctx.saved_tensors
        temperature, chunk = ctx.settings
        if grad_logprobs_S is None:
            grad_logprobs_S = torch.zeros_like(entropy_S)
        grad_hidden_SD = torch.empty_like(hidden_SD) if ctx.needs_input_grad[0] else None
        grad_head_VD: Tensor | None = None
        last_CV, ctx.last_CV = ctx.last_CV, None  # a second backward pass computes it again
        for part in reversed(list(_chunks(0, len(hidden_SD), chunk))):
            # The logits, which their gradient takes the place of.
            grad_CV = hidden_SD[part] @ head_VD.T if last_CV is None else last_CV
            last_CV = None
            for rows in _blocks(part, grad_CV):
                block_BV = grad_CV[_within(rows, part)]
                log_p_BV = _wide(block_BV, temperature).sub_(log_sum_S[rows, None])
                slope_B1 = grad_logprobs_S[rows, None]
                if grad_entropy_S is None:
                    grad_BV = log_p_BV.exp_().mul_(-slope_B1)
                else:
                    p_BV = log_p_BV.exp()
                    lift_BV = log_p_BV.add_(entropy_S[rows, None]).mul_(grad_entropy_S[rows, None])
                    grad_BV = p_BV.mul_(lift_BV.add_(slope_B1).neg_())
                grad_BV.scatter_add_(1, targets_S[rows, None], slope_B1)
                block_BV.copy_(grad_BV if temperature == 1.0 else grad_BV.div_(temperature))
            if grad_hidden_SD is not None:
                grad_hidden_SD[part] = grad_CV @ head_VD
            if ctx.needs_input_grad[1]:
                grad_head_VD = _sum(grad_head_VD, grad_CV.T @ hidden_SD[part], entropy_S.dtype)
        return grad_hidden_SD, None if grad_head_VD is None else grad_head_VD.to(head_VD.dtype), None, None, None


def _chunks(start: int, stop: int, size: int) -> Iterator[slice]:
    return (slice(first, min(first + size, stop)) for first in range(start, stop, size))


def _blocks(part: slice, logits_CV: Tensor) -> Iterator[slice]:
    """Positions of a chunk in blocks whose logits stay in a CPU's cache from one pass over them to the next."""
    on_cpu = logits_CV.device.type == "cpu"
    rows = max(1, CACHED // logits_CV.shape[1]) if on_cpu else max(1, len(logits_CV))
    return _chunks(part.start, part.stop, rows)


def _within(rows: slice, part: slice) -> slice:
    return slice(rows.start - part.start, rows.stop - part.start)


def _wide(logits_BV: Tensor, temperature: float) -> Float[Tensor, "B V"]:
    """A copy over the temperature. The matrix product stays in the model's dtype; sums over a vocabulary need fp32."""
    wide_BV = logits_BV.to(torch.promote_types(logits_BV.dtype, torch.float32), copy=True)
    return wide_BV if temperature == 1.0 else wide_BV.div_(temperature)


def _sum(total: Tensor | None, part: Tensor, dtype: torch.dtype) -> Tensor:
    """Chunks add up in fp32: in bf16 a small one would be lost beside the sum of those before it."""
    return part if total is None else total.to(dtype).add_(part)

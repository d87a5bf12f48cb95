"""Log-probability and entropy of chosen tokens from hidden states, without a tensor of positions x vocabulary.

The head runs over chunks of positions; with gradient, each chunk is checkpointed, so that its logits are computed again
in the backward pass instead of being kept. Only positions that predict a trained token should be passed in.

Not covered: models that change logits after the head (soft-capping, a scale, a bias); the caller refuses those.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint


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
    logprobs, entropies = [], []
    for start in range(0, hidden_SD.shape[0], chunk):
        part = slice(start, start + chunk)
        inputs = (hidden_SD[part], head_VD, targets_S[part], temperature)
        if torch.is_grad_enabled():
            pair = checkpoint(_score_chunk, *inputs, use_reentrant=False, preserve_rng_state=False)
        else:
            pair = _score_chunk(*inputs)
        logprobs.append(pair[0])
        entropies.append(pair[1])
    if not logprobs:
        empty = hidden_SD.sum() * torch.zeros(0, dtype=hidden_SD.dtype, device=hidden_SD.device)
        return TokenScores(empty, empty)
    return TokenScores(torch.cat(logprobs), torch.cat(entropies))


def _score_chunk(
    hidden_SD: Float[Tensor, "S D"], head_VD: Float[Tensor, "V D"], targets_S: Int[Tensor, " S"], temperature: float
) -> tuple[Float[Tensor, " S"], Float[Tensor, " S"]]:
    logits_SV = hidden_SD @ head_VD.T
    # The matrix product stays in the model's dtype; sums over the vocabulary need fp32.
    if logits_SV.dtype != torch.float64:
        logits_SV = logits_SV.float()
    log_p_SV = torch.log_softmax(logits_SV / temperature, dim=-1)
    logprobs_S = log_p_SV.gather(1, targets_S[:, None]).squeeze(1)
    return logprobs_S, -(log_p_SV.exp() * log_p_SV).sum(dim=-1)

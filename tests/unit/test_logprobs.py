"""Chunked log-probabilities and entropies equal the naive ones, in value and gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pivotrl_core.grpo.logprobs import token_logprobs_and_entropy

POSITIONS, WIDTH, VOCABULARY = 13, 8, 50


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    hidden = torch.randn(POSITIONS, WIDTH, requires_grad=True)
    head = torch.randn(VOCABULARY, WIDTH, requires_grad=True)
    return hidden, head, torch.randint(VOCABULARY, (POSITIONS,))


# A part that is left out of the sum has no gradient at all, as the entropy has none in training.
PARTS = [("logprobs",), ("entropy",), ("logprobs", "entropy")]


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("chunk", [1, 4, 13, 100])
def test_chunks_equal_the_whole_in_value_and_gradient(chunk: int, temperature: float, parts: tuple[str, ...]) -> None:
    hidden, head, targets = inputs()
    weights = dict(zip(("logprobs", "entropy"), torch.randn(2, POSITIONS), strict=True))
    distribution = torch.distributions.Categorical(logits=hidden @ head.T / temperature)
    naive = {"logprobs": distribution.log_prob(targets), "entropy": distribution.entropy()}
    scores = token_logprobs_and_entropy(hidden, head, targets, temperature, chunk)
    chunked = {"logprobs": scores.logprobs_S, "entropy": scores.entropy_S}
    torch.testing.assert_close(chunked, naive)
    gradients = [
        torch.autograd.grad(sum((weights[part] * values[part]).sum() for part in parts), (hidden, head))
        for values in (naive, chunked)
    ]
    torch.testing.assert_close(*gradients)


def test_the_gradient_of_a_head_in_bf16_adds_up_in_fp32() -> None:
    torch.manual_seed(1)
    hidden, head = torch.randn(400, WIDTH), torch.randn(VOCABULARY, WIDTH)
    targets = torch.zeros(400, dtype=torch.long)
    found = []
    for dtype, chunk in ((torch.float64, 400), (torch.bfloat16, 1)):
        weight = head.bfloat16().to(dtype).requires_grad_()
        scores = token_logprobs_and_entropy(hidden.bfloat16().to(dtype), weight, targets, 1.0, chunk)
        scores.logprobs_S.sum().backward()
        found.append(weight.grad[0].double())
    torch.testing.assert_close(*found, rtol=0.02, atol=0.0)  # in bf16 the sum of 400 parts is off by more than that


def test_a_uniform_head_gives_the_logarithm_of_the_vocabulary() -> None:
    scores = token_logprobs_and_entropy(torch.zeros(2, 3), torch.zeros(5, 3), torch.tensor([0, 4]))
    assert scores.logprobs_S.tolist() == pytest.approx([-math.log(5)] * 2)
    assert scores.entropy_S.tolist() == pytest.approx([math.log(5)] * 2)


class LargestTensor(TorchDispatchMode):
    """Notes the largest number of elements that any operation produces."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(value, Tensor):
                self.elements = max(self.elements, value.numel())
        return out


def test_no_tensor_of_positions_by_vocabulary_exists_forward_or_backward() -> None:
    torch.manual_seed(1)
    hidden = torch.randn(40, WIDTH, requires_grad=True)
    head = torch.randn(VOCABULARY, WIDTH, requires_grad=True)
    with LargestTensor() as largest:
        scores = token_logprobs_and_entropy(hidden, head, torch.zeros(40, dtype=torch.long), chunk=4)
        (scores.logprobs_S.sum() + scores.entropy_S.sum()).backward()
    assert largest.elements == VOCABULARY * WIDTH  # the head's own gradient; the whole would be 40 * 50


def test_no_positions_give_no_scores() -> None:
    hidden = torch.zeros(0, 3, requires_grad=True)
    assert (
        token_logprobs_and_entropy(hidden, torch.zeros(5, 3), torch.zeros(0, dtype=torch.long)).logprobs_S.numel() == 0
    )


def test_greedy_sampling_has_no_logprobs() -> None:
    hidden, head, targets = inputs()
    with pytest.raises(ValueError, match="above 0"):
        token_logprobs_and_entropy(hidden, head, targets, temperature=0.0)

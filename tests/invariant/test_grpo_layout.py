"""The group-shared row gives the loss and every gradient of the padded form, on a small random Llama (fp32)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pivotrl_core.grpo.advantages import group_advantages
from pivotrl_core.grpo.choices import KLEstimator, LossNormalisation
from pivotrl_core.grpo.duplicates import merge_equal_actions
from pivotrl_core.grpo.kl import kl_term
from pivotrl_core.grpo.layout import attention_allowed, attention_bias, build_group_row, padded_group, unpack
from pivotrl_core.grpo.logprobs import token_logprobs_and_entropy
from pivotrl_core.grpo.loss import ClipConfig, policy_loss
from pivotrl_core.grpo.weights import sequence_weights

transformers = pytest.importorskip("transformers")

STATE = [3, 1, 4, 1, 5, 9, 2]
ACTIONS = [[6, 5, 3, 2], [7], [6, 5, 3, 2], [6, 5], [9, 9, 9, 2, 2], [6, 5, 3, 2]]
REWARDS = torch.tensor([[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]])
Gradients = dict[str, Tensor]


def tiny_llama(attention: str) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        attn_implementation=attention,
    )
    return transformers.LlamaForCausalLM(config).float()


def packed_logprobs(model: Any, actions: list[list[int]]) -> tuple[Tensor, Tensor]:
    row = build_group_row(STATE, actions)
    hidden = model.model(
        input_ids=row.input_ids_L[None],
        position_ids=row.position_ids_L[None],
        attention_mask=attention_bias(row),
        use_cache=False,
    ).last_hidden_state[0]
    scores = token_logprobs_and_entropy(hidden[row.predict_from_S], model.lm_head.weight, row.targets_S, chunk=4)
    return unpack(scores.logprobs_S, row), row.mask_GT


def padded_logprobs(model: Any, actions: list[list[int]]) -> tuple[Tensor, Tensor]:
    padded = padded_group(STATE, actions, pad_id=2)  # 2 is also a token of the actions
    logits = model(input_ids=padded.input_ids_GL, attention_mask=padded.attention_mask_GL, use_cache=False).logits[
        :, padded.first_predictor :
    ]
    logprobs = torch.log_softmax(logits, -1).gather(2, padded.targets_GT[..., None]).squeeze(2)
    return logprobs, padded.mask_GT


def sampled_and_reference(shape: torch.Size) -> tuple[Tensor, Tensor]:
    """Old log-probabilities that make some ratios clip; equal actions have equal ones."""
    draw = torch.Generator().manual_seed(2)
    first = {tuple(ids): index for index, ids in reversed(list(enumerate(ACTIONS)))}
    same = torch.tensor([first[tuple(ids)] for ids in ACTIONS])
    noise = 0.3 * torch.randn(2, *shape, generator=draw)
    return noise[0][same] - 3.7, noise[1][same] - 3.7


def update(model: Any, logprobs: Tensor, mask: Tensor, merged: bool = False) -> tuple[float, Gradients]:
    """Loss with clip and KL, and the gradient of every parameter."""
    advantages = group_advantages(REWARDS)[0]
    lengths = torch.tensor([len(ids) for ids in ACTIONS])
    weights = sequence_weights(lengths, torch.zeros(6, dtype=torch.long), LossNormalisation.GRPO, 5)
    sampled, reference = sampled_and_reference(torch.Size((6, 5)))
    count = torch.ones(6)
    if merged:
        unique = merge_equal_actions(ACTIONS, advantages)
        advantages, count = unique.advantages_U, unique.multiplicity_U
        weights, sampled, reference = weights[unique.first_U], sampled[unique.first_U], reference[unique.first_U]
    policy = policy_loss(
        logprobs, advantages, mask, weights, ClipConfig(), sampled_logprobs_NT=sampled, multiplicity_N=count
    )
    assert policy.ratios.tokens == float(lengths.sum())
    assert 0.0 < policy.ratios.kept_share < 1.0
    loss = policy.loss + 0.1 * kl_term(logprobs, reference, mask, weights * count, KLEstimator.K3)
    model.zero_grad()
    loss.backward()
    return loss.item(), {name: value.grad.clone() for name, value in model.named_parameters()}


def assert_same(first: tuple[float, Gradients], second: tuple[float, Gradients]) -> None:
    assert first[0] == pytest.approx(second[0], abs=1e-5)
    for name, gradient in first[1].items():
        torch.testing.assert_close(gradient, second[1][name], rtol=1e-5, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}")
    assert max(float(gradient.abs().max()) for gradient in first[1].values()) > 1e-2


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_packed_row_equals_the_padded_group(attention: str) -> None:
    model = tiny_llama(attention)
    packed = update(model, *packed_logprobs(model, ACTIONS))
    padded = update(model, *padded_logprobs(model, ACTIONS))
    assert_same(packed, padded)


def test_equal_actions_computed_once_give_the_same_loss_and_gradients() -> None:
    model = tiny_llama("sdpa")
    unique = merge_equal_actions(ACTIONS, group_advantages(REWARDS)[0])
    assert len(unique.action_ids) == 4
    merged = update(model, *packed_logprobs(model, [list(ids) for ids in unique.action_ids]), merged=True)
    assert_same(merged, update(model, *padded_logprobs(model, ACTIONS)))


def test_an_action_does_not_see_its_neighbours() -> None:
    model = tiny_llama("sdpa")
    first, _ = packed_logprobs(model, ACTIONS)
    others = [ids if index == 4 else [11, 12, 13] for index, ids in enumerate(ACTIONS)]
    second, _ = packed_logprobs(model, others)
    torch.testing.assert_close(first[4], second[4], rtol=0.0, atol=1e-6)


def test_the_row_is_what_the_drawing_says() -> None:
    # state 8 9; actions (1 2 3) and (4 5): the row leaves out the last tokens 3 and 5
    row = build_group_row([8, 9], [[1, 2, 3], [4, 5]])
    assert row.input_ids_L.tolist() == [8, 9, 1, 2, 4]
    assert row.position_ids_L.tolist() == [0, 1, 2, 3, 2]
    assert row.targets_S.tolist() == [1, 2, 3, 4, 5]
    assert row.predict_from_S.tolist() == [1, 2, 3, 1, 4]
    assert row.owner_S.tolist() == [0, 0, 0, 1, 1]
    assert row.step_S.tolist() == [0, 1, 2, 0, 1]
    assert attention_allowed(row).int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 0, 0, 1],
    ]
    assert unpack(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), row).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 0.0]]


@pytest.mark.parametrize(("state", "actions"), [([], [[1]]), ([1], []), ([1], [[2], []])])
def test_nothing_to_predict_from_or_to_predict_is_refused(state: list[int], actions: list[list[int]]) -> None:
    with pytest.raises(ValueError, match=r"token"):
        build_group_row(state, actions)
    with pytest.raises(ValueError, match=r"token"):
        padded_group(state, actions, pad_id=0)

"""A row of the prefix tree gives the loss and every gradient of each sequence computed alone (fp32)."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pivotrl_core.config.arms import FullParameters, LoRA
from pivotrl_core.grpo.advantages import group_advantages
from pivotrl_core.grpo.choices import KLEstimator, LossNormalisation
from pivotrl_core.grpo.duplicates import merge_equal_actions
from pivotrl_core.grpo.kl import kl_term
from pivotrl_core.grpo.loss import ClipConfig, policy_loss
from pivotrl_core.grpo.prefix_tree import TargetSequence, build_tree_row, plan_rows, split_sequences, unpack
from pivotrl_core.grpo.weights import sequence_weights
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.scoring import score_row
from tests.tiny_models import COMPUTE, tiny_model

STATE = (3, 1, 4, 1, 5, 9, 2)
ACTIONS = ((6, 5, 3, 2), (7,), (6, 5, 3, 2), (6, 5), (9, 9, 9, 2, 2), (6, 5, 3, 2))
REWARDS = torch.tensor([[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]])
Scores = tuple[float, dict[str, Tensor]]


def continuations(state: tuple[int, ...], actions: Any) -> list[TargetSequence]:
    return [
        TargetSequence((*state, *ids), tuple(range(len(state), len(state) + len(ids)))) for ids in map(tuple, actions)
    ]


def random_sequences(seed: int, count: int = 8) -> list[TargetSequence]:
    """Sequences over three tokens branch from one another everywhere: in states, inside actions, at their very ends."""
    draw = np.random.default_rng(seed)
    sequences: list[TargetSequence] = []
    for _ in range(count):
        ids = [int(i) for i in draw.integers(0, 3, draw.integers(2, 14))]
        if sequences and draw.random() < 0.7:
            other = sequences[draw.integers(len(sequences))].ids
            ids = [*other[: draw.integers(1, len(other) + 1)], *ids]
        chosen = draw.random(len(ids) - 1) < 0.5
        places = tuple(int(i) + 1 for i in np.flatnonzero(chosen)) or (len(ids) - 1,)
        sequences.append(TargetSequence(tuple(ids), places))
    return sequences


def alone(model: Any, sequence: TargetSequence) -> Tensor:
    """Log-probabilities of one sequence's targets by an ordinary forward pass of nothing else."""
    logits = model(input_ids=torch.tensor([sequence.ids]), use_cache=False).logits[0]
    places = torch.tensor(sequence.places)
    ids = torch.tensor(sequence.ids)
    return torch.log_softmax(logits[places - 1], -1).gather(1, ids[places][:, None])[:, 0]


def gradients(model: Any, loss: Tensor) -> Scores:
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    loss.backward()
    found = {name: value.grad.clone() for name, value in trained.items()}
    model.zero_grad()
    return loss.item(), found


def assert_same(first: Scores, second: Scores) -> None:
    assert first[0] == pytest.approx(second[0], rel=1e-5, abs=1e-5)
    assert first[1].keys() == second[1].keys()
    scale = max(float(gradient.abs().max()) for gradient in second[1].values())
    assert scale > 1e-2
    for name, gradient in first[1].items():
        torch.testing.assert_close(
            gradient, second[1][name], rtol=1e-4, atol=2e-6 * max(1.0, scale), msg=lambda m, n=name: f"{n}: {m}"
        )


def loss_alone(model: Any, sequences: list[TargetSequence], weights: Tensor) -> Tensor:
    parts = [-weight * alone(model, one).square().sum() for one, weight in zip(sequences, weights, strict=True)]
    return torch.stack(parts).sum()


def loss_in_rows(model: Any, sequences: list[TargetSequence], weights: Tensor, row_tokens: int) -> Tensor:
    parts = []
    for row_plan in plan_rows(sequences, row_tokens):
        row = build_tree_row([sequences[i] for i in row_plan])
        logprobs_NT, _ = score_row(model, row)
        parts.append(-(logprobs_NT.square() * row.mask_NT).sum(dim=1) @ weights[row_plan])
    return torch.stack(parts).sum()


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize("seed", range(3))
def test_random_trees_equal_their_sequences_alone(kind: str, seed: int) -> None:
    model = tiny_model(kind)
    sequences = random_sequences(seed)
    weights = torch.rand(len(sequences), generator=torch.Generator().manual_seed(seed)) - 0.3
    expected = gradients(model, loss_alone(model, sequences, weights))
    for row_tokens in (10_000, 20, 1):
        assert_same(gradients(model, loss_in_rows(model, sequences, weights, row_tokens)), expected)


@pytest.mark.parametrize("parameters", [LoRA(rank=4, alpha=8.0), FullParameters(kind="full")])
@pytest.mark.parametrize("folder", ["tiny_llama", "tiny_qwen3"])
def test_low_rank_and_full_parameters_get_the_same_gradients(
    folder: str, parameters: LoRA | FullParameters, request: pytest.FixtureRequest
) -> None:
    start: Path = request.getfixturevalue(folder)
    policy = TrainablePolicy(start, start, parameters, COMPUTE, seed=0)
    with torch.no_grad():  # fresh LoRA factors are zero on one side, which would hide half of the gradients
        for index, parameter in enumerate(policy.trained):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(index))
            parameter.add_(0.05 * noise)
    sequences = random_sequences(5)
    weights = torch.linspace(-0.5, 1.0, len(sequences))
    packed = gradients(policy.inner, loss_in_rows(policy.inner, sequences, weights, 30))
    assert_same(packed, gradients(policy.inner, loss_alone(policy.inner, sequences, weights)))
    assert ("lora" in next(iter(packed[1]))) == isinstance(parameters, LoRA)


def test_entropy_and_temperature_are_those_of_the_sequence_alone() -> None:
    model = tiny_model("qwen3")
    sequences = random_sequences(9)
    row = build_tree_row(sequences)
    _, entropy_NT = score_row(model, row, temperature=0.7)
    for index, sequence in enumerate(sequences):
        log_p = torch.log_softmax(model(input_ids=torch.tensor([sequence.ids])).logits[0] / 0.7, -1)
        expected = -(log_p.exp() * log_p).sum(-1)[torch.tensor(sequence.places) - 1]
        torch.testing.assert_close(entropy_NT[index][row.mask_NT[index]], expected, rtol=1e-4, atol=1e-5)


def update(model: Any, logprobs: Tensor, mask: Tensor, at_sampling: Tensor, merged: bool = False) -> Scores:
    """Loss of a group with clip and KL, and the gradient of every parameter."""
    advantages = group_advantages(REWARDS)[0]
    lengths = torch.tensor([len(ids) for ids in ACTIONS])
    weights = sequence_weights(lengths, torch.zeros(6, dtype=torch.long), LossNormalisation.GRPO, 5)
    first = {ids: index for index, ids in reversed(list(enumerate(ACTIONS)))}
    same = torch.tensor([first[ids] for ids in ACTIONS])  # equal actions were sampled with equal log-probabilities
    noise = 0.3 * torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(2))
    sampled, reference = at_sampling + noise[0][same], at_sampling + noise[1][same]
    count = torch.ones(6)
    if merged:
        unique = merge_equal_actions(ACTIONS, advantages)
        advantages, count = unique.advantages_U, torch.tensor([float(len(equal)) for equal in unique.equal])
        weights, sampled, reference = weights[unique.first_U], sampled[unique.first_U], reference[unique.first_U]
    policy = policy_loss(
        logprobs, advantages, mask, weights, ClipConfig(), sampled_logprobs_NT=sampled, multiplicity_N=count
    )
    assert policy.ratios.tokens == float(lengths.sum())
    assert 0.0 < policy.ratios.kept_share < 1.0
    loss = policy.loss + 0.1 * kl_term(logprobs, reference, mask, weights * count, KLEstimator.K3)
    return gradients(model, loss)


def test_equal_actions_computed_once_give_the_loss_and_gradients_of_the_group() -> None:
    model = tiny_model("llama")
    unique = merge_equal_actions(ACTIONS, group_advantages(REWARDS)[0])
    assert len(unique.action_ids) == 4
    mask = build_tree_row(continuations(STATE, ACTIONS)).mask_NT
    lines = [alone(model, one) for one in continuations(STATE, ACTIONS)]
    padded = torch.nn.utils.rnn.pad_sequence(lines, batch_first=True)
    expected = update(model, padded, mask, padded.detach())
    row = build_tree_row(continuations(STATE, unique.action_ids))
    packed, _ = score_row(model, row)
    assert_same(update(model, packed, row.mask_NT, padded.detach(), merged=True), expected)


def test_a_row_holds_each_shared_prefix_once() -> None:
    # state 8 9; actions (1 2 3), (1 4) and (5): the last tokens 3, 4 and 5 are targets only
    row = build_tree_row(continuations((8, 9), [(1, 2, 3), (1, 4), (5,)]))
    assert row.input_ids_L.tolist() == [8, 9, 1, 2]
    assert row.position_ids_L.tolist() == [0, 1, 2, 3]
    assert row.parent_L.tolist() == [-1, 0, 1, 2]
    assert row.targets_S.tolist() == [1, 2, 3, 1, 4, 5]
    assert row.predict_from_S.tolist() == [1, 2, 3, 1, 2, 1]
    assert row.owner_S.tolist() == [0, 0, 0, 1, 1, 2]
    assert row.step_S.tolist() == [0, 1, 2, 0, 1, 0]
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert unpack(values, row).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 0.0], [6.0, 0.0, 0.0]]


def test_nodes_are_depth_first_and_targets_in_the_order_of_the_sequences() -> None:
    # in order of ids: 8 1 (4 is a target only), 8 5 2, 9; nodes 8, 1, 5, 2, 9
    sequences = [TargetSequence((8, 5, 2, 6), (1, 3)), TargetSequence((9, 3), (1,)), TargetSequence((8, 1, 4), (2,))]
    row = build_tree_row(sequences)
    assert row.input_ids_L.tolist() == [8, 1, 5, 2, 9]
    assert row.position_ids_L.tolist() == [0, 1, 1, 2, 0]
    assert row.parent_L.tolist() == [-1, 0, 0, 2, -1]
    assert row.targets_S.tolist() == [5, 6, 3, 4]
    assert row.predict_from_S.tolist() == [0, 3, 4, 1]
    assert row.owner_S.tolist() == [0, 0, 1, 2]
    assert row.step_S.tolist() == [0, 1, 0, 0]
    assert row.lengths_N.tolist() == [2, 1, 1]


@pytest.mark.parametrize("row_tokens", [1, 6, 9, 25, 1000])
def test_rows_keep_the_order_and_the_limit(row_tokens: int) -> None:
    sequences = random_sequences(3, count=12)
    plan = plan_rows(sequences, row_tokens)
    assert [index for row in plan for index in row] == list(range(12))
    rows = split_sequences(sequences, row_tokens)
    assert [len(row) for row in rows] == [len(row) for row in plan]
    assert all(len(row) == 1 or len(build_tree_row(row).input_ids_L) <= row_tokens for row in rows)
    for row, after in itertools.pairwise(rows):  # no row ends before it has to
        assert len(build_tree_row([*row, after[0]]).input_ids_L) > row_tokens


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("row_tokens", [1, 9, 100, 4000])
def test_rows_for_lanes_keep_order_and_limit_and_are_of_a_length(row_tokens: int, parts: int) -> None:
    sequences = [TargetSequence(tuple(range(50 * n, 50 * n + 40)), (39,)) for n in range(12)]
    whole, plan = plan_rows(sequences, row_tokens), plan_rows(sequences, row_tokens, parts)
    assert [index for row in plan for index in row] == list(range(12))
    rows = [[sequences[index] for index in row] for row in plan]
    sizes = [len(build_tree_row(row).input_ids_L) for row in rows]
    assert all(len(row) == 1 or size <= row_tokens for row, size in zip(rows, sizes, strict=True))
    assert len(plan) == max(parts, len(whole))  # 12 alike: every limit here leaves a multiple of both
    assert max(sizes) - min(sizes) <= 40


def test_planning_rows_takes_memory_of_the_order_of_the_tokens() -> None:
    tracemalloc.start()
    plan_rows([TargetSequence(tuple(range(4000)), (3999,))], 2048)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4000 * 1000  # all prefixes of 4000 tokens would be 64 MB


@pytest.mark.parametrize("sequences", [[], [TargetSequence((1, 2), ())], [TargetSequence((1, 2), (0, 1))]])
def test_nothing_to_predict_or_to_predict_from_is_refused(sequences: list[TargetSequence]) -> None:
    with pytest.raises(ValueError, match=r"sequence"):
        build_tree_row(sequences)

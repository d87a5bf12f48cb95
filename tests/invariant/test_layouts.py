"""A training step in either layout has the loss and every gradient of its sequences computed alone (fp32)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pivotrl_core.config.arms import FullParameters, GRPOTrain, LoRA
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.model import load_model
from pivotrl_core.errors import ConfigError
from pivotrl_core.evaluation.drift import continuation, score_texts
from pivotrl_core.grpo.choices import BatchLayout
from pivotrl_core.grpo.layouts import build_row, fill_of
from pivotrl_core.grpo.padded_rows import build_padded_row, fill_padded_rows
from pivotrl_core.grpo.prefix_tree import TargetSequence, plan_rows
from pivotrl_core.training.checkpoint import Checkpoints, Progress
from pivotrl_core.training.groups import PivotGroup
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.policy_gradient import train_step
from pivotrl_core.training.scoring import score_row
from pivotrl_core.training.supervised import SupervisedPlan, train_supervised
from tests.tiny_models import PADDED_KINDS, save_tiny

pytestmark = [
    pytest.mark.usefixtures("deterministic"),
    # peft has a rank and a scale for a mixture's experts, which are no linear layers, and finds none of that name.
    pytest.mark.filterwarnings("ignore:The following (rank|alpha)_pattern keys did not match:RuntimeWarning"),
]

PADDED_LORA_KINDS = tuple(kind for kind in PADDED_KINDS if kind != "mamba")
TREE_KINDS = ("llama", "smollm2", "qwen3", "qwen3_moe")
LOW_RANK, FULL = LoRA(rank=4, alpha=8.0), FullParameters(kind="full")
PARAMETERS = pytest.mark.parametrize("parameters", [LOW_RANK, FULL], ids=["lora", "full"])
LAYOUTS = pytest.mark.parametrize("layout", ["tree", "padded"])
# Every averaging with both ratios; the terms beside the clipped loss take turns.
OBJECTIVES: list[dict[str, Any]] = [
    {"loss": "grpo", "ratio": "token", "kl": {"weight": 0.3, "estimator": "k3"}},
    {"loss": "grpo", "ratio": "sequence", "entropy_weight": 0.2, "temperature": 0.7},
    {"loss": "dr_grpo", "ratio": "token", "truncation_cap": 1.1},
    {"loss": "dr_grpo", "ratio": "sequence", "kl": {"weight": 0.3, "estimator": "k2"}, "entropy_weight": 0.1},
    {"loss": "dapo", "ratio": "token", "entropy_weight": 0.2, "kl": {"weight": 0.3, "estimator": "k3"}},
    {"loss": "dapo", "ratio": "sequence", "kl": {"weight": 0.3, "estimator": "k1"}},
    {"loss": "bnpo", "ratio": "token", "temperature": 1.3, "kl": {"weight": 0.1, "estimator": "k2"}},
    {"loss": "bnpo", "ratio": "sequence", "truncation_cap": 1.5, "advantage": "none"},
]
MAX_TOKENS = 6
# Sampled log-probabilities are made up here, so nothing is asked of their gap to the model's.
GROUPS_OF_5 = {"method": "grpo", "max_tokens": MAX_TOKENS, "group_size": 5, "mismatch_limit": None}
Found = tuple[float, list[Tensor]]


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a tiny model of a kind, written once."""
    folders: dict[str, Path] = {}

    def find(kind: str) -> Path:
        if kind not in folders:
            folders[kind] = save_tiny(kind, tmp_path_factory.mktemp(kind))
        return folders[kind]

    return find


def policy_of(folder: Path, parameters: LoRA | FullParameters, **compute: Any) -> TrainablePolicy:
    """A policy that has moved from its reference, fresh LoRA factors too, which are zero on one side."""
    settings = ComputeConfig.model_validate({"threads": 1, "dtype": "float32", "lanes": 1} | compute)
    policy = TrainablePolicy(folder, folder, parameters, settings, seed=3)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.trained:
            parameter.add_(0.03 * torch.randn(parameter.shape, generator=draw))
    return policy


def random_actions(seed: int) -> list[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Two states, the second one longer than any window and often with the first as its beginning, and four distinct
    actions at each: 8 sequences that branch everywhere, over three tokens."""
    draw = np.random.default_rng(seed)
    first = tuple(draw.integers(2, 5, draw.integers(2, 9)).tolist())
    second = (*(first if draw.random() < 0.7 else ()), *draw.integers(2, 5, draw.integers(9, 14)).tolist())
    groups = []
    for state in (first, second):
        actions: list[tuple[int, ...]] = []
        while len(actions) < 4:
            action = tuple(draw.integers(2, 5, draw.integers(1, MAX_TOKENS + 1)).tolist())
            actions += [action] if action not in actions else []
        groups.append((state, actions))
    return groups


def sequences_of(seed: int) -> list[TargetSequence]:
    return [continuation(state, action) for state, actions in random_actions(seed) for action in actions]


def token_scores(model: Any, one: TargetSequence, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of a sequence's targets, by an ordinary forward pass of nothing else."""
    logits = model(input_ids=torch.tensor([one.ids]), use_cache=False).logits[0, torch.tensor(one.places) - 1]
    log_p = torch.log_softmax(logits / temperature, dim=-1)
    targets = torch.tensor([one.ids[place] for place in one.places])
    return log_p.gather(1, targets[:, None])[:, 0], -(log_p.exp() * log_p).sum(dim=-1)


def sampled_groups(policy: TrainablePolicy, seed: int, temperature: float) -> list[PivotGroup]:
    """Groups with unequal rewards, as a policy sampled them that was near this one. One action was sampled twice."""
    draw = torch.Generator().manual_seed(seed)
    groups = []
    for state, actions in random_actions(seed):
        with torch.no_grad():
            now = [token_scores(policy.inner, continuation(state, ids), temperature)[0] for ids in actions]
        then = [tuple((one + 0.25 * torch.randn(one.shape, generator=draw)).tolist()) for one in now]
        groups.append(PivotGroup(state, (*actions, actions[0]), (*then, then[0]), (1.0, 0.0, 0.25, 0.0, 1.0)))
    return groups


def expected_step(policy: TrainablePolicy, reference: Any, groups: Sequence[PivotGroup], config: GRPOTrain) -> Found:
    """Loss and gradients by the equations, one sample at a time; nothing of the code under test but the groups."""
    lengths = torch.tensor([len(ids) for group in groups for ids in group.action_ids], dtype=torch.float64)
    of_group = torch.tensor([sum(map(len, group.action_ids)) for group in groups], dtype=torch.float64)
    count, total = len(lengths), float(lengths.sum())
    loss = torch.zeros(())
    at = 0
    for number, group in enumerate(groups):
        scored = [
            (*token_scores(policy.inner, one, config.temperature), before(reference, one, config.temperature))
            for one in (continuation(group.state_ids, ids) for ids in group.action_ids)
        ]
        rewards = np.array(group.rewards)
        spread = rewards.std() + 1e-6 if config.advantage == "group_std" else 1.0
        advantages = (rewards - rewards.mean()) / spread
        if config.kl.estimator == "k1":
            k1 = np.array([float((log_p.detach() - old).sum()) for log_p, _, old in scored])
            advantages = advantages - config.kl.weight * (k1 - k1.mean())
        for (log_p, entropy, before_T), advantage, sampled in zip(scored, advantages, group.logprobs, strict=True):
            weight = {
                "grpo": 1 / (count * float(lengths[at])), "dr_grpo": 1 / (count * MAX_TOKENS), "dapo": 1 / total,
                "bnpo": 1 / (len(groups) * float(of_group[number])),
            }[config.loss]  # fmt: skip
            at += 1
            tokens = -surrogate(log_p, torch.tensor(sampled), float(advantage), config)
            tokens = tokens - config.entropy_weight * entropy
            difference = log_p - before_T
            if config.kl.estimator == "k2":
                tokens = tokens + config.kl.weight * difference.square() / 2
            elif config.kl.estimator == "k3":
                tokens = tokens + config.kl.weight * ((-difference).exp() - 1 + difference)
            loss = loss + weight * tokens.sum()
    found = torch.autograd.grad(loss, policy.trained, allow_unused=True)
    return float(loss.detach()), [zero_for(one, p) for one, p in zip(found, policy.trained, strict=True)]


def before(reference: Any, one: TargetSequence, temperature: float) -> Tensor:
    with torch.no_grad():
        return token_scores(reference, one, temperature)[0]


def surrogate(log_p: Tensor, sampled: Tensor, advantage: float, config: GRPOTrain) -> Tensor:
    capped = config.truncation_cap is not None
    log_ratio = log_p - (log_p.detach() if capped else sampled)
    if config.ratio == "sequence":
        log_ratio = log_ratio.mean().expand_as(log_ratio)
    ratio = log_ratio.exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - config.clip.low, 1 + config.clip.high) * advantage)
    return gain * (log_p.detach() - sampled).exp().clamp(max=config.truncation_cap) if capped else gain


def zero_for(gradient: Tensor | None, parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if gradient is None else gradient


def found_step(policy: TrainablePolicy, groups: Sequence[PivotGroup], config: GRPOTrain, row_tokens: int) -> Found:
    """Loss and gradients of `train_step`, with the optimiser's update left out."""
    still: Any = SimpleNamespace(update=lambda _step: 0.0)
    metrics = train_step(policy, still, groups, config, row_tokens, Progress())
    return metrics["train/loss"], taken_gradients(policy)


def taken_gradients(policy: TrainablePolicy) -> list[Tensor]:
    gradients = [zero_for(master.grad, master) for master in policy.masters]
    for master in policy.masters:
        master.grad = None
    return gradients


def assert_same(found: Found, expected: Found, message: str = "") -> None:
    assert found[0] == pytest.approx(expected[0], rel=2e-5, abs=2e-6), message
    scale = max(float(gradient.abs().max()) for gradient in expected[1])
    assert scale > 1e-3
    for one, other in zip(found[1], expected[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * scale, msg=lambda text: f"{message}: {text}")


def limit_for(sequences: Sequence[TargetSequence], size: int, layout: BatchLayout) -> int:
    """The largest limit of tokens at which no row has more than `size` sequences."""
    limits = range(300, 0, -1)
    return next(one for one in limits if max(map(len, plan_rows(sequences, one, fill=fill_of(layout)))) <= size)


@PARAMETERS
@pytest.mark.parametrize(
    ("kind", "layout"), [*((kind, "tree") for kind in TREE_KINDS), ("llama", "padded"), ("qwen3_moe", "padded")]
)
def test_every_objective_has_the_loss_and_gradients_of_its_samples_alone(
    kind: str, layout: str, parameters: LoRA | FullParameters, folder_of: Callable[[str], Path]
) -> None:
    policy = policy_of(folder_of(kind), parameters, layout=layout)
    assert policy.layout == layout
    reference = load_model(folder_of(kind), policy.compute).model
    first = TREE_KINDS.index(kind) % 3
    every = kind == "llama" and layout == "tree"  # of the other models, about three objectives each
    for number, objective in list(enumerate(OBJECTIVES))[slice(None) if every else slice(first, None, 3)]:
        config = GRPOTrain.model_validate(GROUPS_OF_5 | objective)
        groups = sampled_groups(policy, number, config.temperature)
        expected = expected_step(policy, reference, groups, config)
        row_tokens = limit_for(sequences_of(number), (8, 4, 2, 1)[number % 4], policy.layout)
        assert_same(found_step(policy, groups, config, row_tokens), expected, str(objective))


@LAYOUTS
@pytest.mark.parametrize("kind", ["smollm2", "qwen3_moe"])
def test_micro_batches_of_8_4_2_and_1_have_the_gradients_of_the_whole(
    kind: str, layout: str, folder_of: Callable[[str], Path]
) -> None:
    policy = policy_of(folder_of(kind), FULL, layout=layout)
    config = GRPOTrain.model_validate(GROUPS_OF_5 | OBJECTIVES[4])
    for seed in (10, 11):
        groups = sampled_groups(policy, seed, 1.0)
        expected = expected_step(policy, load_model(folder_of(kind), policy.compute).model, groups, config)
        for size in (8, 4, 2, 1):
            limit = limit_for(sequences_of(seed), size, policy.layout)
            assert_same(found_step(policy, groups, config, limit), expected, f"micro-batch {size}")


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [*((kind, FULL) for kind in PADDED_KINDS), *((kind, LOW_RANK) for kind in PADDED_LORA_KINDS)],
)
def test_models_that_cannot_share_train_in_padded_lines_exactly(
    kind: str, parameters: LoRA | FullParameters, folder_of: Callable[[str], Path]
) -> None:
    policy = policy_of(folder_of(kind), parameters)
    assert policy.layout is BatchLayout.PADDED
    reference = load_model(folder_of(kind), policy.compute).model
    for number in (3, 4):
        objective = GROUPS_OF_5 | OBJECTIVES[number]
        config = GRPOTrain.model_validate(objective)
        groups = sampled_groups(policy, number, config.temperature)
        expected = expected_step(policy, reference, groups, config)
        row_tokens = limit_for(sequences_of(number), 5 - number, policy.layout)
        assert_same(found_step(policy, groups, config, row_tokens), expected, str(objective))


def test_a_model_that_takes_no_adapter_is_refused_with_a_remedy(folder_of: Callable[[str], Path]) -> None:
    with pytest.raises(ConfigError, match="'kind: full'"):
        policy_of(folder_of("mamba"), LOW_RANK)


def kept_bytes(compute: Callable[[], Any]) -> int:
    """Bytes that autograd keeps for a backward pass."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = compute()
    del result
    return sum(kept.values())


@pytest.mark.parametrize(
    ("kind", "layout", "parameters"),
    [("smollm2", "tree", LOW_RANK), ("smollm2", "tree", FULL), ("qwen3_moe", "tree", LOW_RANK),
     ("qwen3_moe", "tree", FULL), ("gemma3", "padded", LOW_RANK), ("mamba", "padded", FULL)],
)  # fmt: skip
def test_activation_checkpointing_changes_no_bit_of_a_step(
    kind: str, layout: str, parameters: LoRA | FullParameters, folder_of: Callable[[str], Path]
) -> None:
    config = GRPOTrain.model_validate(GROUPS_OF_5 | OBJECTIVES[4])
    results = []
    for again in (False, True):
        policy = policy_of(
            folder_of(kind), parameters, layout=layout, activation_checkpointing=again, lanes=2, threads=2
        )
        groups = sampled_groups(policy, 5, 1.0)
        results.append(found_step(policy, groups, config, 40))
    (loss, gradients), (loss_again, gradients_again) = results
    assert loss_again == loss
    assert all(torch.equal(one, other) for one, other in zip(gradients_again, gradients, strict=True))


@LAYOUTS
def test_activation_checkpointing_keeps_less_and_computes_again_as_before(
    layout: str, folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    row = build_row(sequences_of(7), BatchLayout(layout))
    kept, gradients = [], []
    for again in (False, True):
        policy = policy_of(folder_of("llama"), FULL, layout=layout, activation_checkpointing=again)
        kept.append(kept_bytes(partial(score_row, policy.inner, row)))
        # The row's attention is no longer in force when the gradient is asked for.
        gradients.append(policy.gradients(score_row(policy.inner, row)[0].sum()))
        policy.save(tmp_path / str(again))
    parameters = sum(p.untyped_storage().nbytes() for p in policy.inner.parameters())
    assert kept[1] - parameters < 0.5 * (kept[0] - parameters)
    for one, other in zip(*gradients, strict=True):
        assert one is not None
        assert other is not None
        assert torch.equal(one, other)
    saved = [[path.read_bytes() for path in sorted((tmp_path / str(again)).iterdir())] for again in (False, True)]
    assert saved[0] == saved[1]


@pytest.mark.parametrize(
    ("kind", "layout"), [("llama", "tree"), ("llama", "padded"), ("mistral", "auto"), ("qwen3_next", "auto")]
)
def test_a_supervised_step_has_the_loss_and_gradients_of_its_sequences_alone(
    kind: str, layout: str, folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    policy = policy_of(folder_of(kind), FULL, layout=layout)
    sequences = sequences_of(2)
    losses = torch.cat([-token_scores(policy.inner, one)[0] for one in sequences])
    gradients = torch.autograd.grad(losses.mean(), policy.trained, allow_unused=True)
    expected = float(losses.mean().detach()), [zero_for(g, p) for g, p in zip(gradients, policy.trained, strict=True)]
    losses_seen = []
    still: Any = SimpleNamespace(update=lambda _step: 0.0, policy=policy)
    plan = SupervisedPlan(epochs=1, batch_trajectories=2, seed=0, checkpoint_every=9, row_tokens=60)
    train_supervised(
        policy, still, [sequences[:4], sequences[4:]], plan, Checkpoints(tmp_path / "none"),
        lambda _progress, metrics: losses_seen.append(metrics["train/loss"]),
    )  # fmt: skip
    assert_same((losses_seen[0], taken_gradients(policy)), expected)


@pytest.mark.parametrize("kind", ["llama", "gemma3", "mamba"])
def test_drift_in_padded_lines_is_that_of_the_texts_alone(kind: str, folder_of: Callable[[str], Path]) -> None:
    policy = policy_of(folder_of(kind), FULL)
    base = load_model(folder_of(kind), policy.compute).model
    sequences = sequences_of(6)

    def always(model: Any) -> Callable[[], Any]:
        @contextmanager
        def inner() -> Iterator[Any]:
            yield model

        return inner

    scores = score_texts(always(policy.inner), always(base), sequences, 60, layout=BatchLayout.PADDED)
    with torch.no_grad():
        log_p, log_q = (
            torch.cat([
                torch.log_softmax(model(torch.tensor([one.ids])).logits[0, torch.tensor(one.places) - 1], dim=-1)
                for one in sequences
            ])
            for model in (policy.inner, base)
        )  # fmt: skip
        sums = [float(token_scores(policy.inner, one)[0].sum()) for one in sequences]
    assert scores.kl == pytest.approx(float((log_p.exp() * (log_p - log_q)).sum(dim=-1).mean()), rel=1e-4)
    assert scores.logprobs_N == pytest.approx(sums, rel=1e-5)


def test_a_padded_row_has_the_targets_of_the_tree_and_pads_on_the_right() -> None:
    sequences = [TargetSequence((8, 5, 2, 6), (1, 3)), TargetSequence((9, 3), (1,)), TargetSequence((8, 1, 4), (2,))]
    row = build_padded_row(sequences)
    assert row.input_ids_NL.tolist() == [[8, 5, 2], [9, 0, 0], [8, 1, 0]]
    assert row.predict_from_S.tolist() == [0, 2, 3, 7]
    assert row.computed == 9
    tree = build_row(sequences, BatchLayout.TREE)
    for name in ("targets_S", "owner_S", "step_S", "lengths_N"):
        assert torch.equal(getattr(row, name), getattr(tree, name))


def test_padded_rows_keep_the_order_and_the_limit_with_padding() -> None:
    # Lengths as inputs 3, 1, 2, 5: 3 + 3 fit 6, a third would make 9; then 2 + padding of 3 beside 5 would make 10.
    sequences = [TargetSequence(tuple(range(2, 3 + length)), (length,)) for length in (3, 1, 2, 5)]
    assert fill_padded_rows(sequences, 6) == [[0, 1], [2], [3]]
    assert fill_padded_rows(sequences, 1) == [[0], [1], [2], [3]]
    assert fill_padded_rows(sequences, 20) == [[0, 1, 2, 3]]
    longer = [TargetSequence(tuple(range(2, 3 + length)), (length,)) for length in (60, 20, 40, 100)]
    assert plan_rows(longer, 1000, 2, fill_padded_rows) == [[0, 1, 2], [3]]  # 180 and 100, one for each of two lanes


@pytest.mark.parametrize("sequences", [[], [TargetSequence((1, 2), ())], [TargetSequence((1, 2), (0, 1))]])
def test_nothing_to_predict_or_to_predict_from_is_refused(sequences: list[TargetSequence]) -> None:
    with pytest.raises(ValueError, match=r"sequence"):
        build_padded_row(sequences)

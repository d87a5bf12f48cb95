"""What all rows of a batch begin with is computed once: loss and every gradient are those of the sequences alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pivotrl_core.config.arms import FullParameters, GRPOTrain, LoRA
from pivotrl_core.engines.model import load_model
from pivotrl_core.grpo.choices import BatchLayout
from pivotrl_core.grpo.layouts import build_row
from pivotrl_core.grpo.prefix_tree import TargetSequence
from pivotrl_core.training import batches
from pivotrl_core.training.batches import build_batch
from pivotrl_core.training.checkpoint import Checkpoints, Progress
from pivotrl_core.training.groups import PivotGroup
from pivotrl_core.training.policy_gradient import train_step
from pivotrl_core.training.supervised import SupervisedPlan, train_supervised
from tests.invariant.test_layouts import (
    FULL,
    GROUPS_OF_5,
    LOW_RANK,
    OBJECTIVES,
    PARAMETERS,
    TREE_KINDS,
    assert_same,
    expected_step,
    found_step,
    policy_of,
    sampled_groups,
    taken_gradients,
    token_scores,
    zero_for,
)
from tests.tiny_models import save_tiny

pytestmark = [
    pytest.mark.usefixtures("deterministic"),
    pytest.mark.filterwarnings("ignore:The following (rank|alpha)_pattern keys did not match:RuntimeWarning"),
]
BEGINNING = (3, 2, 4, 4, 2, 3, 3)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def short_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LEAST_LEAD", 3)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a tiny model of a kind, written once."""
    folders: dict[str, Path] = {}

    def find(kind: str) -> Path:
        if kind not in folders:
            folders[kind] = save_tiny(kind, tmp_path_factory.mktemp(kind))
        return folders[kind]

    return find


def groups_of(policy: Any, seed: int, temperature: float = 1.0) -> list[PivotGroup]:
    """Groups whose states begin alike; what their sampler thought of their actions was made up for other states."""
    return [
        PivotGroup((*BEGINNING, *group.state_ids), group.action_ids, group.logprobs, group.rewards)
        for group in sampled_groups(policy, seed, temperature)
    ]


def sequences_of(groups: list[PivotGroup]) -> list[TargetSequence]:
    ones = torch.ones(len(groups[0].rewards))
    return [member.sequence for index, group in enumerate(groups) for member in group.members(index, ones)]


@PARAMETERS
@pytest.mark.parametrize("kind", TREE_KINDS)
def test_every_objective_has_the_loss_and_gradients_of_its_samples_alone(
    kind: str, parameters: LoRA | FullParameters, folder_of: Callable[[str], Path]
) -> None:
    policy = policy_of(folder_of(kind), parameters)
    reference = load_model(folder_of(kind), policy.compute).model
    first = TREE_KINDS.index(kind) % 3
    for number, objective in list(enumerate(OBJECTIVES))[slice(None) if kind == "llama" else slice(first, None, 3)]:
        config = GRPOTrain.model_validate(GROUPS_OF_5 | objective)
        groups = groups_of(policy, number, config.temperature)
        expected = expected_step(policy, reference, groups, config)
        whole = build_row(sequences_of(groups), policy.layout).computed
        row_tokens = whole // (2 + number % 3)
        batch = build_batch(sequences_of(groups), row_tokens, 1, policy.layout, CPU)
        assert len(batch.lead) >= len(BEGINNING)
        assert len(batch.rows) > 1
        assert_same(found_step(policy, groups, config, row_tokens), expected, str(objective))


@pytest.mark.parametrize("again", [False, True])
def test_with_lanes_and_activation_checkpointing_too(again: bool, folder_of: Callable[[str], Path]) -> None:
    policy = policy_of(folder_of("smollm2"), FULL, lanes=2, threads=2, activation_checkpointing=again)
    config = GRPOTrain.model_validate(GROUPS_OF_5 | OBJECTIVES[4])
    groups = groups_of(policy, 5)
    assert build_batch(sequences_of(groups), 24, 2, policy.layout, CPU).lead
    expected = expected_step(policy, load_model(folder_of("smollm2"), policy.compute).model, groups, config)
    assert_same(found_step(policy, groups, config, 24), expected)


def test_a_second_update_of_a_step_has_the_ratios_of_rows_without_a_lead(
    folder_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = GROUPS_OF_5 | {"updates_per_step": 2, "truncation_cap": 1.3, "loss": "dapo"}
    config = GRPOTrain.model_validate(settings)
    records = []
    for least in (3, 1000):
        monkeypatch.setattr(batches, "LEAST_LEAD", least)
        policy = policy_of(folder_of("llama"), FULL)
        groups = groups_of(policy, 3)

        def move(_step: int, policy: Any = policy) -> float:
            with torch.no_grad():
                for parameter, master in zip(policy.trained, policy.masters, strict=True):
                    parameter.sub_(master.grad, alpha=0.1)
                    master.grad = None
            return 0.0

        mover: Any = SimpleNamespace(update=move)
        records.append(train_step(policy, mover, groups, config, 24, Progress()))
    assert records[0].keys() == records[1].keys()
    for name, value in records[1].items():
        assert records[0][name] == pytest.approx(value, rel=1e-4, abs=1e-6), name
    assert records[0]["train/ratio_max"] > 1.01


def test_a_supervised_step_has_the_loss_and_gradients_of_its_sequences_alone(
    folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    policy = policy_of(folder_of("llama"), FULL)
    draw = torch.Generator().manual_seed(4)
    sequences = [
        TargetSequence((*BEGINNING, *torch.randint(2, 5, (9,), generator=draw).tolist()), (9, 10, 14)) for _ in range(4)
    ]
    losses = torch.cat([-token_scores(policy.inner, one)[0] for one in sequences])
    gradients = torch.autograd.grad(losses.mean(), policy.trained, allow_unused=True)
    expected = float(losses.mean().detach()), [zero_for(g, p) for g, p in zip(gradients, policy.trained, strict=True)]
    seen: list[float] = []
    still: Any = SimpleNamespace(update=lambda _step: 0.0, policy=policy)
    plan = SupervisedPlan(epochs=1, batch_trajectories=2, seed=0, checkpoint_every=9, row_tokens=20)
    progress = train_supervised(
        policy, still, [sequences[:2], sequences[2:]], plan, Checkpoints(tmp_path / "none"),
        lambda _progress, metrics: seen.append(metrics["train/loss"]),
    )  # fmt: skip
    assert_same((seen[0], taken_gradients(policy)), expected)
    alone = sum(max(one.places) for one in sequences)
    assert progress.counters["trained_tokens"] <= alone - 3 * len(BEGINNING)


def test_low_rank_factors_that_nothing_reaches_through_the_lead_keep_their_gradient(
    folder_of: Callable[[str], Path],
) -> None:
    # The last layer's output projection is no part of any key or value: only rows reach it.
    policy = policy_of(folder_of("llama"), LOW_RANK)
    config = GRPOTrain.model_validate(GROUPS_OF_5 | OBJECTIVES[2])
    loss, gradients = found_step(policy, groups_of(policy, 2), config, 24)
    assert loss != 0.0
    assert all(float(one.abs().max()) > 0.0 for one in gradients)


@pytest.mark.parametrize(
    ("states", "first_place", "lead"),
    [
        ([BEGINNING, BEGINNING], 7, 6),  # one token less than the common beginning, for it predicts the first targets
        ([(*BEGINNING, 9, 9), (*BEGINNING, 8, 8)], 10, 7),
        ([(*BEGINNING, 9, 9), (*BEGINNING, 8, 8)], 5, 4),  # the target at place 5 is predicted from place 4
        ([(5, *BEGINNING), (6, *BEGINNING)], 9, 0),
    ],
)
def test_a_lead_ends_before_what_predicts_the_first_target(
    states: list[tuple[int, ...]], first_place: int, lead: int
) -> None:
    sequences = [
        TargetSequence((*state, *range(10 + at, 30 + at)), (first_place, len(state) + 19))
        for at, state in enumerate(states)
    ]
    batch = build_batch(sequences, 30, 1, BatchLayout.TREE, CPU)
    assert len(batch.lead) == lead
    assert [len(part) for part in batch.members] == [1, 1]
    assert all(row.computed == len(one.ids) - 1 - lead for row, one in zip(batch.rows, sequences, strict=True))


def test_there_is_none_where_all_rows_are_computed_at_once_or_in_padded_lines() -> None:
    sequences = [TargetSequence((*BEGINNING, *range(10 + at, 30 + at)), (20, 26)) for at in range(4)]
    assert build_batch(sequences, 30, 1, BatchLayout.TREE, CPU).lead == BEGINNING
    assert not build_batch(sequences, 30, 4, BatchLayout.TREE, CPU).lead
    assert not build_batch(sequences, 1000, 1, BatchLayout.TREE, CPU).lead
    assert not build_batch(sequences, 30, 1, BatchLayout.PADDED, CPU).lead
    assert not build_batch(sequences, 30, 1, BatchLayout.TREE, CPU, may_lead=False).lead

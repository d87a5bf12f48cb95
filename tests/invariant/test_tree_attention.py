"""Attention in a cascade or in tiles is that of one dense mask, and of each sequence alone, in value and gradient."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pivotrl_core.grpo.cascade import Cascade, plan_calls, plan_cascade
from pivotrl_core.grpo.prefix_tree import TargetSequence, TreeRow, build_tree_row
from pivotrl_core.grpo.tree_attention import ATTENTION, TreeAttention, tree_attention
from pivotrl_core.grpo.tree_tiles import Tile, plan_tiles
from pivotrl_core.training.scoring import row_hidden
from tests.dense_attention import allowed_pairs, dense_hidden
from tests.tiny_models import tiny_model

KINDS = ("llama", "smollm2", "qwen3", "qwen3_moe")
FREE, DEAR = (0, 0), (10**9, 0)  # costs of a call and of a key: many tiles, one tile
States = tuple[Tensor, dict[str, Tensor]]

ids = st.lists(st.integers(0, 2), min_size=2, max_size=24)
costs = st.tuples(st.sampled_from([0, 30, 2000]), st.sampled_from([0, 16]))
cascades = st.booleans()


@st.composite
def trees(draw: st.DrawFn) -> list[TargetSequence]:
    """Sequences over three tokens that branch everywhere, or equal one another, or go on from another's end."""
    sequences: list[TargetSequence] = []
    for own in draw(st.lists(ids, min_size=1, max_size=7)):
        start = draw(st.sampled_from(sequences)).ids if sequences and draw(st.booleans()) else ()
        path = (*start[: draw(st.integers(0, len(start)))], *own)
        places = draw(st.sets(st.integers(1, len(path) - 1), min_size=1))
        sequences.append(TargetSequence(path, tuple(sorted(places))))
    return sequences


@st.composite
def shapes(draw: st.DrawFn) -> Tensor:
    """Nodes in depth-first order: each is a child of the one before, or of an ancestor of it, or a root."""
    chosen: list[int] = []
    path: list[int] = []
    for steps, climb in draw(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 60)), min_size=1, max_size=12)):
        path = path[: max(len(path) - climb, 0)]
        for _ in range(steps):
            chosen.append(path[-1] if path else -1)
            path.append(len(chosen) - 1)
    return torch.tensor(chosen)


def paths(shared: int, branches: int, length: int, leaves: int = 0, leaf: int = 0) -> Tensor:
    """Parents of a row: a shared path, branches that follow it, and leaves that follow each branch."""
    chosen: list[int] = []

    def follow(parent: int, steps: int) -> int:
        for _ in range(steps):
            chosen.append(parent)
            parent = len(chosen) - 1
        return parent

    root = follow(-1, shared)
    for _ in range(branches):
        branch = follow(root, length)
        for index in range(leaves):
            follow(branch, leaf + index % 5 - 2)
    return torch.tensor(chosen)


def pairs_of(tiles: list[Tile], size: int) -> Tensor:
    """How often the tiles compute each pair of query and key without a mask on it [L, L]."""
    count_LL = torch.zeros(size, size, dtype=torch.int)
    for tile in tiles:
        key_K = torch.tensor([key for part in tile.keys for key in part])
        seen_QK = torch.ones(len(tile.queries), len(key_K), dtype=torch.bool)
        seen_QK = seen_QK.tril() if tile.causal else seen_QK
        seen_QK = seen_QK if tile.allowed_QK is None else tile.allowed_QK
        count_LL[torch.tensor(tile.queries)[:, None], key_K] += seen_QK.int()
    return count_LL


@cache
def model_of(kind: str) -> Any:
    return tiny_model(kind)


def tiled_hidden(model: Any, row: TreeRow, cost: tuple[int, int], cascade: bool = True) -> Tensor:
    """`row_hidden` with other calls: small rows are one call where calls cost what they do."""
    plan = plan_cascade(row.parent_L, cost[0]) if cascade else Cascade(plan_tiles(row.parent_L, *cost), [])
    return planned_hidden(model, row, plan)


def planned_hidden(model: Any, row: TreeRow, plan: Cascade | list[Tile]) -> Tensor:
    """`row_hidden` with these calls; a list of tiles is differentiated by autograd, as on a GPU."""
    tree = TreeAttention(row.parent_L, model.dtype, row.parent_L.device, plan=plan)
    with tree_attention(model):
        output = model.model(
            input_ids=row.input_ids_L[None], position_ids=row.position_ids_L[None], tree=tree, use_cache=False
        )
    hidden: Tensor = output.last_hidden_state[0][row.predict_from_S]
    return hidden


def hidden_alone(model: Any, sequences: list[TargetSequence]) -> Tensor:
    states = []
    for one in sequences:
        output = model.model(input_ids=torch.tensor([one.ids]), use_cache=False)
        states.append(output.last_hidden_state[0][torch.tensor(one.places) - 1])
    return torch.cat(states)


def with_gradients(model: Any, hidden_SD: Tensor) -> States:
    """Hidden states, and the gradient of every parameter of a sum that weighs each of them differently."""
    weights = torch.randn(hidden_SD.shape, generator=torch.Generator().manual_seed(1)) / len(hidden_SD)
    (hidden_SD * weights).sum().backward()
    found = {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}
    model.zero_grad()
    return hidden_SD.detach(), found


def assert_same(first: States, second: States) -> None:
    torch.testing.assert_close(first[0], second[0], rtol=1e-4, atol=2e-5)
    assert first[1].keys() == second[1].keys()
    scale = max(float(gradient.abs().max()) for gradient in second[1].values())
    assert scale > 1e-2
    for name, gradient in first[1].items():
        torch.testing.assert_close(
            gradient, second[1][name], rtol=1e-4, atol=5e-6 * max(1.0, scale), msg=lambda m, n=name: f"{n}: {m}"
        )


def row_of(parent_L: Tensor) -> tuple[TreeRow, list[TargetSequence]]:
    """A row of that shape, with sequences that end at its leaves; siblings have different ids."""
    token, lines, sequences = [], [], []
    ends = set(range(len(parent_L))) - set(parent_L.tolist())
    for node, parent in enumerate(parent_L.tolist()):
        token.append(2 + node % 300)
        lines.append([*(lines[parent] if parent >= 0 else []), token[-1]])
        if node in ends:
            sequences.append(TargetSequence((*lines[-1], 1), (1, len(lines[-1]) // 2 + 1, len(lines[-1]))))
    row = build_tree_row(sequences)
    assert torch.equal(row.parent_L, parent_L)
    return row, sequences


@settings(max_examples=40)
@given(sequences=trees(), cost=costs, kind=st.sampled_from(["llama", "qwen3"]), cascade=cascades)
def test_random_trees_equal_a_dense_mask_and_their_sequences_alone(
    sequences: list[TargetSequence], cost: tuple[int, int], kind: str, cascade: bool
) -> None:
    model = model_of(kind)
    row = build_tree_row(sequences)
    tiled = with_gradients(model, tiled_hidden(model, row, cost, cascade))
    assert_same(tiled, with_gradients(model, dense_hidden(model, row)))
    assert_same(tiled, with_gradients(model, hidden_alone(model, sequences)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "parent_L",
    [paths(40, 3, 25, leaves=6, leaf=5), paths(60, 3, 70), paths(0, 4, 60), paths(90, 1, 10)],
    ids=["groups", "trajectories", "texts", "path"],
)
def test_rows_of_every_architecture_equal_a_dense_mask_and_their_sequences_alone(kind: str, parent_L: Tensor) -> None:
    model = model_of(kind)
    row, sequences = row_of(parent_L)
    expected = with_gradients(model, dense_hidden(model, row))
    assert_same(with_gradients(model, hidden_alone(model, sequences)), expected)
    assert_same(with_gradients(model, row_hidden(model, row)), expected)
    for cascade in (True, False):
        assert_same(with_gradients(model, tiled_hidden(model, row, FREE, cascade)), expected)
    assert_same(with_gradients(model, planned_hidden(model, row, plan_tiles(parent_L, *FREE))), expected)


def test_half_precision_is_as_near_to_full_as_a_dense_mask_is() -> None:
    row, _ = row_of(paths(60, 3, 40, leaves=4, leaf=6))
    exact = row_hidden(model_of("smollm2"), row)
    model = tiny_model("smollm2").bfloat16()
    tiled, dense = tiled_hidden(model, row, FREE), dense_hidden(model, row)
    assert tiled.dtype == torch.bfloat16
    error, expected = ((states.detach() - exact.detach()).abs().mean() for states in (tiled, dense))
    assert float(error) < 1.1 * float(expected)
    tiled.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.model.parameters())


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_gradients_the_states_are_the_same(context: Any) -> None:
    row, _ = row_of(paths(20, 3, 30, leaves=3, leaf=4))
    model = model_of("qwen3")
    with context():
        hidden = row_hidden(model, row)
    assert not hidden.requires_grad
    torch.testing.assert_close(hidden, dense_hidden(model, row).detach(), rtol=1e-4, atol=2e-5)


def test_the_model_s_own_attention_comes_back_even_after_an_error() -> None:
    model = model_of("llama")
    with tree_attention(model):
        assert model.config._attn_implementation == ATTENTION
    with pytest.raises(KeyError, match="tree"), tree_attention(model):
        model(input_ids=torch.tensor([[1, 2]]))  # without its tree
    assert model.config._attn_implementation == "sdpa"


@given(parent_L=shapes(), cost=st.one_of(costs, st.just(DEAR)))
def test_tiles_hold_every_pair_of_a_node_and_its_ancestor_once_and_no_other(
    parent_L: Tensor, cost: tuple[int, int]
) -> None:
    tiles = plan_tiles(parent_L, *cost)
    assert torch.equal(pairs_of(tiles, len(parent_L)), allowed_pairs(parent_L).int())
    assert [node for tile in tiles for node in tile.queries] == list(range(len(parent_L)))


@given(parent_L=shapes(), cost=st.sampled_from([0, 30, 2000, 10**9]), lead=st.sampled_from([0, 7]))
def test_a_cascade_holds_every_pair_once_and_no_other(parent_L: Tensor, cost: int, lead: int) -> None:
    plan = plan_cascade(parent_L, cost, lead)
    size = len(parent_L)
    led = torch.cat([torch.arange(-1, lead - 1), parent_L.where(parent_L >= 0, torch.tensor(-1)) + lead])
    calls = [
        replace(tile, queries=range(lead + tile.queries.start, lead + tile.queries.stop))
        for tile in (*plan.own, *plan.shared)
    ]
    assert torch.equal(pairs_of(calls, lead + size)[lead:], allowed_pairs(led).int()[lead:])
    assert [node for tile in plan.own for node in tile.queries] == list(range(size))
    assert all(tile.allowed_QK is None and not tile.causal for tile in plan.shared)


@given(parent_L=shapes())
def test_a_dear_cascade_is_one_call(parent_L: Tensor) -> None:
    plan = plan_cascade(parent_L, 1e9)
    assert [tile.queries for tile in (*plan.own, *plan.shared)] == [range(len(parent_L))]


def test_a_cascade_is_taken_where_a_large_call_is_shared() -> None:
    large, small = paths(1024, 16, 64), paths(200, 8, 100, leaves=8, leaf=15)
    assert plan_calls(large) == plan_cascade(large)
    taken, tiles = plan_calls(small, lead=5), plan_tiles(small, lead=5)
    assert [(tile.queries, tile.keys) for tile in taken.own] == [(tile.queries, tile.keys) for tile in tiles]
    assert taken.shared == []


def test_a_cascade_of_long_runs_masks_nothing() -> None:
    # 0-99 are shared; 100-179 and 180-259 follow them, and four leaves of 40 each of these
    plan = plan_cascade(paths(100, 2, 80, leaves=4, leaf=40), 0)
    assert all(tile.allowed_QK is None for tile in (*plan.own, *plan.shared))
    keys = [(tile.queries.start, tile.keys[0]) for tile in plan.shared]
    assert sorted(keys)[:2] == [(100, range(100)), (180, range(100, 180))]


@given(parent_L=shapes())
def test_free_calls_cut_at_every_branch_and_dear_ones_nowhere(parent_L: Tensor) -> None:
    tiles = plan_tiles(parent_L, *FREE)
    parents = parent_L.tolist()
    assert all(parents[node] == node - 1 for tile in tiles for node in tile.queries[1:])
    (whole,) = plan_tiles(parent_L, *DEAR)
    assert (whole.queries, whole.keys) == (range(len(parent_L)), (range(len(parent_L)),))
    assert sum(tile.pairs for tile in tiles) <= whole.pairs


@pytest.mark.parametrize(
    ("parent_L", "share", "calls"),
    [
        # A prompt of 200 tokens, 8 states of 100 more, 8 actions of 13 to 17 after each: 1,936 nodes.
        (paths(200, 8, 100, leaves=8, leaf=15), 0.2, 20),
        # A prompt of 200 tokens, 4 trajectories of 250 more: 1,200 nodes.
        (paths(200, 4, 250), 0.36, 10),
        # Unrelated texts of 100 tokens.
        (paths(0, 12, 100), 0.09, 12),
    ],
    ids=["groups", "trajectories", "texts"],
)
def test_a_typical_row_computes_a_small_part_of_its_pairs_in_few_calls(
    parent_L: Tensor, share: float, calls: int
) -> None:
    tiles = plan_tiles(parent_L)
    assert sum(tile.pairs for tile in tiles) < share * len(parent_L) ** 2
    assert len(tiles) <= calls
    cascade = plan_cascade(parent_L)
    cascaded = [*cascade.own, *cascade.shared]
    assert sum(tile.pairs for tile in cascaded) < 1.01 * sum(tile.pairs for tile in tiles)
    assert len(cascaded) <= 2 * calls


@pytest.mark.parametrize("size", [1, 2, 15, 100, 3000])
def test_a_single_path_is_plain_causal_attention(size: int) -> None:
    (tile,) = plan_tiles(torch.arange(-1, size - 1))
    assert tile == Tile(range(size), (range(size),), causal=True, allowed_QK=None)
    assert plan_cascade(torch.arange(-1, size - 1)) == Cascade([tile], [])


def test_the_keys_of_a_tile_are_its_ancestors_and_itself() -> None:
    # 0 1 are shared, 2 3 and 4 5 follow them: the second branch does not see the first one
    first, second = plan_tiles(torch.tensor([-1, 0, 1, 2, 1, 4]), *FREE)
    assert first == Tile(range(4), (range(4),), causal=True, allowed_QK=None)
    assert (second.queries, second.keys, second.causal) == (range(4, 6), (range(2), range(4, 6)), False)
    assert second.allowed_QK is not None
    assert second.allowed_QK.int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]


@pytest.mark.parametrize(
    "sequences",
    [
        [TargetSequence((5, 6), (1,))],
        [TargetSequence((5, 6, 7, 8), (1, 3))],
        [TargetSequence((token, 6), (1,)) for token in range(9, 0, -1)],
        [TargetSequence((5, 6, 7), (2,))] * 3,
        [TargetSequence((5, 6, 7, 8, 9), (4,)), TargetSequence((5, 6, 7), (1, 2))],
    ],
    ids=["one token", "one path", "many roots", "duplicates", "a prefix of another"],
)
@pytest.mark.parametrize("cost", [FREE, DEAR])
def test_degenerate_rows_equal_their_sequences_alone(sequences: list[TargetSequence], cost: tuple[int, int]) -> None:
    model = model_of("llama")
    row = build_tree_row(sequences)
    tiled = with_gradients(model, tiled_hidden(model, row, cost))
    assert_same(tiled, with_gradients(model, hidden_alone(model, sequences)))


def test_attention_is_its_equation_with_grouped_heads_and_the_model_s_scale() -> None:
    # softmax(scale q k^T) v over the ancestors; query heads 0 and 1 use the first head of keys, 2 and 3 the second
    parent_L = paths(5, 3, 4)
    query, keys, values = torch.randn(3, 1, 4, 17, 8, generator=torch.Generator().manual_seed(0))
    wide_keys, wide_values = (part[:, :2].repeat_interleave(2, dim=1) for part in (keys, values))
    scores = (0.7 * query @ wide_keys.transpose(-1, -2)).masked_fill(~allowed_pairs(parent_L), -torch.inf)
    for plan in (plan_cascade(parent_L, 0), plan_cascade(parent_L, 1e9), plan_tiles(parent_L, *FREE)):
        tree = TreeAttention(parent_L, torch.float32, parent_L.device, plan=plan)
        found = tree.attend(0, query, keys[:, :2], values[:, :2], 0.7)
        torch.testing.assert_close(found, (scores.softmax(-1) @ wide_values).transpose(1, 2))


@pytest.mark.parametrize("parent_L", [[-1, 0, 0, 1], [-1, -1, 0], [-1, 2, 0]])
def test_nodes_out_of_depth_first_order_are_refused(parent_L: list[int]) -> None:
    for plan in (plan_tiles, plan_cascade):
        with pytest.raises(ValueError, match=r"node \d"):
            plan(torch.tensor(parent_L))

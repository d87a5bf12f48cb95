"""Drift: how far a policy has moved from the base policy where it was not trained to move.

KL(pi || pi_0), exact over the vocabulary, in nats per token, on three kinds of text: instructions with reference
answers (benchmark prompts), neutral prose, and turns outside of the pool with the base policy's own samples. At those
turns also: do alternative actions keep their order? The paper's claim (Theorem 3.3) is that they do.

The change in log-probability of reference answers is confounded by style: a warm-up or SFT that makes answers shorter
raises or lowers it without anything being forgotten. It is reported, and KL is the measure to trust.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.sharing import head_weight
from pivotrl_core.evaluation.ordering import order_agreement
from pivotrl_core.evaluation.protocol import Benchmark
from pivotrl_core.grpo.choices import BatchLayout
from pivotrl_core.grpo.kl import exact_kl
from pivotrl_core.grpo.layouts import Row, build_row, fill_of, row_attention
from pivotrl_core.grpo.logprobs import token_logprobs_and_entropy
from pivotrl_core.grpo.prefix_tree import TargetSequence, split_sequences
from pivotrl_core.lanes import ONE_LANE, Lanes
from pivotrl_core.training.scoring import row_hidden
from pivotrl_core.types import Message, Role

ModelContext = Callable[[], AbstractContextManager[Any]]  # gives a causal language model for the time of a block


@dataclass(frozen=True, slots=True)
class TextScores:
    """Of some sequences under the policy and the base: mean KL per token, and each sequence's log-probabilities."""

    kl: float
    logprobs_N: list[float]
    base_logprobs_N: list[float]


def neutral_sequences(renderer: ChatRenderer, count: int) -> list[TargetSequence]:
    """Neutral prose as plain text: every token but the first is a target."""
    text = files("pivotrl_core.evaluation").joinpath("data/neutral.txt").read_text(encoding="utf-8")
    paragraphs = [part.strip() for part in text.split("\n\n") if part.strip()][:count]
    encoded = [renderer.encode(paragraph) for paragraph in paragraphs]
    return [TargetSequence(ids, tuple(range(1, len(ids)))) for ids in encoded]


def instruction_sequences(renderer: ChatRenderer, benchmarks: Sequence[Benchmark], count: int) -> list[TargetSequence]:
    """Benchmark prompts with their reference answers as targets, taken in turn from each benchmark."""
    items = [(benchmark, benchmark.items()) for benchmark in benchmarks]
    chosen = [(b, rows[i]) for i in range(count) for b, rows in items if i < len(rows)][:count]
    sequences = []
    for benchmark, item in chosen:
        state = renderer.state_ids(item.messages, ())
        answer = renderer.action_ids(Message(Role.ASSISTANT, benchmark.reference(item)))
        sequences.append(continuation(state, answer))
    return sequences


def continuation(state: Sequence[int], action: Sequence[int]) -> TargetSequence:
    """A state with an action's tokens as targets."""
    return TargetSequence((*state, *action), tuple(range(len(state), len(state) + len(action))))


def score_texts(
    policy: ModelContext,
    base: ModelContext,
    sequences: Sequence[TargetSequence],
    row_tokens: int,
    lanes: Lanes = ONE_LANE,
    layout: BatchLayout = BatchLayout.TREE,
) -> TextScores:
    """Score sequences under both models.

    Args:
        policy: gives the policy's inner model (`with policy() as model`).
        base: the same for the base policy.
        sequences: what is scored at its targets.
        row_tokens: tokens of one row.
        lanes: how rows are cut and run.
        layout: of the rows.
    """
    parts = split_sequences(sequences, row_tokens, lanes.parts, fill_of(layout))
    rows = [build_row(part, layout) for part in parts]
    with policy() as model:
        own, head = _score_rows(model, rows, lanes, layout), head_weight(model)
    with base() as model:
        bases, base_head = _score_rows(model, rows, lanes, layout), head_weight(model)

    @torch.inference_mode()
    def divergence(pair: tuple[_Scored, _Scored]) -> float:
        return float(exact_kl(pair[0].hidden_SD, head, pair[1].hidden_SD, base_head).double().sum())

    kl_sum = sum(lanes.map(divergence, list(zip(own, bases, strict=True))))
    tokens = sum(len(row.targets_S) for row in rows)
    return TextScores(kl_sum / max(tokens, 1), *([sum_ for one in side for sum_ in one.sums] for side in (own, bases)))


@dataclass(frozen=True, slots=True)
class _Scored:
    """One row under one model: hidden states [S, D] at its targets, and each sequence's log-probability."""

    hidden_SD: Tensor
    sums: list[float]


def _score_rows(model: Any, rows: Sequence[Row], lanes: Lanes, layout: BatchLayout) -> list[_Scored]:
    @torch.inference_mode()
    def score(row: Row) -> _Scored:
        row = row.to(model.device)
        hidden_SD = row_hidden(model, row)
        scores_S = token_logprobs_and_entropy(hidden_SD, head_weight(model), row.targets_S).logprobs_S.double()
        sums_N = scores_S.new_zeros(len(row.lengths_N)).index_add(0, row.owner_S, scores_S)
        return _Scored(hidden_SD, sums_N.tolist())

    with row_attention(model, layout):
        return list(lanes.map(score, rows))


def action_order(scores: TextScores, groups: Sequence[int]) -> dict[str, float | None]:
    """Agreement of the order of alternative actions; `groups` counts the actions of each state, in order."""
    rows, base_rows = [], []
    start = 0
    for size in groups:
        rows.append(scores.logprobs_N[start : start + size])
        base_rows.append(scores.base_logprobs_N[start : start + size])
        start += size
    if not rows:
        return {"eval/drift/order_agreement": None, "eval/drift/kendall_tau": None}
    agreement = order_agreement(rows, base_rows)
    return {"eval/drift/order_agreement": agreement.same_order, "eval/drift/kendall_tau": agreement.kendall_tau}

"""Drift: how far a policy has moved from the base policy where it was not trained to move.

KL(pi || pi_0), exact over the vocabulary, in nats per token, on three kinds of text: instructions with reference
answers (benchmark prompts), neutral prose, and turns outside of the pool with the base policy's own samples. At those
turns also: do alternative actions keep their order? The paper's claim (Theorem 3.3) is that they do.

The change in log-probability of reference answers is confounded by style: a warm-up or SFT that makes answers shorter
raises or lowers it without anything being forgotten. It is reported, and KL is the measure to trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.evaluation.ordering import order_agreement
from pivotrl_core.evaluation.protocol import Benchmark
from pivotrl_core.grpo.kl import exact_kl
from pivotrl_core.grpo.logprobs import token_logprobs_and_entropy
from pivotrl_core.grpo.prefix_tree import TargetSequence, build_tree_row, split_sequences
from pivotrl_core.training.scoring import row_hidden
from pivotrl_core.types import Message, Role


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


@torch.inference_mode()
def score_texts(policy: Any, base: Any, sequences: Sequence[TargetSequence], row_tokens: int) -> TextScores:
    """Score sequences under both models.

    Args:
        policy: callable context giving the policy's inner model (`with policy() as model`).
        base: the same for the base policy.
        sequences: what is scored at its targets.
        row_tokens: nodes of one packed row.
    """
    kl_sum, tokens = 0.0, 0
    logprobs: list[float] = []
    base_logprobs: list[float] = []
    for part in split_sequences(sequences, row_tokens):
        packed = build_tree_row(part)
        with policy() as model:
            row = packed.to(model.device)
            hidden, head = row_hidden(model, row), model.lm_head.weight
            logprobs += _sums(hidden, head, row.targets_S, row.owner_S, len(part))
        with base() as model:
            base_hidden, base_head = row_hidden(model, row), model.lm_head.weight
            base_logprobs += _sums(base_hidden, base_head, row.targets_S, row.owner_S, len(part))
        kl_sum += float(exact_kl(hidden, head, base_hidden, base_head).double().sum())
        tokens += len(row.targets_S)
    return TextScores(kl_sum / max(tokens, 1), logprobs, base_logprobs)


def _sums(hidden: Tensor, head: Tensor, targets_S: Tensor, owner_S: Tensor, count: int) -> list[float]:
    scores = token_logprobs_and_entropy(hidden, head, targets_S).logprobs_S
    return torch.zeros(count, dtype=torch.float64, device=scores.device).index_add(0, owner_S, scores.double()).tolist()


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

"""Equal actions of one group computed once.

Actions with equal ids at one state have equal log-probabilities, so that the batch's loss needs them once, with their
advantages summed: min(rho A, clip(rho) A) is positively homogeneous in A, hence

    sum_i -min(rho A_i, clip(rho) A_i) = -min(rho sum_i A_i, clip(rho) sum_i A_i)    where all A_i have one sign.

Merging is by ids and by the sign of the advantage: then it is exact with any clipping, also where a verifier gave
equal actions different rewards. It assumes one sampled log-probability for equal actions at one state; an engine's
batching noise makes them differ in the last digits, and the first one's are used. Terms without an advantage (KL,
entropy) count each merged action as often as it occurs: multiply their weights with its multiplicity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class MergedActions:
    """U unique actions of a group: their ids, who came first, and the sum of their advantages.

    `equal` lists the originals that each stands for, as many as its multiplicity. `first_U` picks anything kept per
    original action: sampled log-probabilities, and the weights of `sequence_weights` (equal for merged actions: they
    depend on length and group only).
    """

    action_ids: tuple[tuple[int, ...], ...]
    first_U: Int[Tensor, " U"]
    equal: tuple[tuple[int, ...], ...]
    advantages_U: Float[Tensor, " U"]


def merge_equal_actions(action_ids: Sequence[Sequence[int]], advantages_G: Float[Tensor, " G"]) -> MergedActions:
    """Merge the equal actions of one group, in order of first appearance.

    Args:
        action_ids: the token ids of G actions at one state.
        advantages_G: their advantages.
    """
    place: dict[tuple[tuple[int, ...], int], int] = {}
    first: list[int] = []
    unique_G: list[int] = []
    for index, (ids, sign) in enumerate(zip(action_ids, advantages_G.sign().int().tolist(), strict=True)):
        key = (tuple(ids), sign)
        if key not in place:
            place[key] = len(first)
            first.append(index)
        unique_G.append(place[key])
    slots = torch.tensor(unique_G, dtype=torch.long, device=advantages_G.device)
    return MergedActions(
        tuple(tuple(action_ids[index]) for index in first),
        torch.tensor(first, dtype=torch.long, device=advantages_G.device),
        tuple(tuple(i for i, unique in enumerate(unique_G) if unique == slot) for slot in range(len(first))),
        advantages_G.new_zeros(len(first)).index_add(0, slots, advantages_G),
    )

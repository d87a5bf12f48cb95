"""The group-shared row: the state of a pivot once, followed by all actions of its group, as one sequence.

    row        s_1 .. s_T | a1_1 .. a1_(n-1) | a2_1 .. | ..
    position   0 .. T - 1 | T .. T + n - 2   | T ..    | ..

Every action continues at position T and sees the state and itself, never another action. The hidden state at the last
state token predicts the first token of every action. An action's last token predicts nothing, so it is a target but not
part of the row. Tokens computed: T + sum(n_g - 1) instead of G T + sum(n_g - 1).

Invariant: the loss and all gradients equal those of the padded form (`padded_group`) to fp32 tolerance. It holds for
models with full causal attention and positions given by `position_ids` (rotary); not for sliding windows that count
tokens of the row instead of positions, nor for recurrent layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One packed row of L input tokens with S target tokens of G actions.

    `segment_L` is 0 in the state and g + 1 in action g. Per target: the row index whose hidden state predicts it, its
    id, its action, and its place in the action.
    """

    input_ids_L: Int[Tensor, " L"]
    position_ids_L: Int[Tensor, " L"]
    segment_L: Int[Tensor, " L"]
    predict_from_S: Int[Tensor, " S"]
    targets_S: Int[Tensor, " S"]
    owner_S: Int[Tensor, " S"]
    step_S: Int[Tensor, " S"]
    lengths_G: Int[Tensor, " G"]

    @property
    def mask_GT(self) -> Bool[Tensor, "G T"]:
        """True where `unpack` places a target token; T is the longest action of the group."""
        steps_T = torch.arange(int(self.lengths_G.max()), device=self.lengths_G.device)
        return steps_T[None, :] < self.lengths_G[:, None]


@dataclass(frozen=True, slots=True)
class PaddedGroup:
    """The reference form: G rows of state, action and padding on the right; the last target is not an input."""

    input_ids_GL: Int[Tensor, "G L"]
    attention_mask_GL: Int[Tensor, "G L"]
    targets_GT: Int[Tensor, "G T"]
    mask_GT: Bool[Tensor, "G T"]
    first_predictor: int


def build_group_row(state_ids: Sequence[int], action_ids: Sequence[Sequence[int]]) -> GroupRow:
    """Pack a state and its actions.

    Args:
        state_ids: T >= 1 token ids, the prompt as it was given to the sampler.
        action_ids: G >= 1 actions of at least one id each, as they were sampled (end-of-turn id included).

    Raises:
        ValueError: an empty state, no action, or an empty action.
    """
    _check(state_ids, action_ids)
    state = len(state_ids)
    ids, positions, segments = list(state_ids), list(range(state)), [0] * state
    predict_from: list[int] = []
    targets: list[int] = []
    owners: list[int] = []
    steps: list[int] = []
    for owner, action in enumerate(action_ids):
        start, inputs = len(ids), len(action) - 1
        predict_from += [state - 1, *range(start, start + inputs)]
        targets += action
        owners += [owner] * len(action)
        steps += range(len(action))
        ids += action[:-1]
        positions += range(state, state + inputs)
        segments += [owner + 1] * inputs
    lists = (ids, positions, segments, predict_from, targets, owners, steps, [len(action) for action in action_ids])
    return GroupRow(*(torch.tensor(values, dtype=torch.long) for values in lists))


def attention_allowed(row: GroupRow) -> Bool[Tensor, "L L"]:
    """allowed[query, key]: the key is not later in the row, and it is in the state or in the query's own action."""
    segment_L = row.segment_L
    index_L = torch.arange(segment_L.shape[0], device=segment_L.device)
    causal_LL = index_L[None, :] <= index_L[:, None]
    return causal_LL & ((segment_L[None, :] == 0) | (segment_L[None, :] == segment_L[:, None]))


def attention_bias(row: GroupRow, dtype: torch.dtype = torch.float32) -> Float[Tensor, "1 1 L L"]:
    """Additive mask for the stock attention of transformers (sdpa, eager): 0 where allowed, else the dtype's lowest.

    `dtype` must be the one that attention computes in.
    """
    allowed_LL = attention_allowed(row)
    bias_LL = torch.zeros(allowed_LL.shape, dtype=dtype, device=allowed_LL.device)
    return bias_LL.masked_fill(~allowed_LL, torch.finfo(dtype).min)[None, None]


def unpack(values_S: Float[Tensor, " S"], row: GroupRow) -> Float[Tensor, "G T"]:
    """Values per target token as one padded line per action (0 at padding); differentiable."""
    shape = row.mask_GT.shape
    return values_S.new_zeros(shape).index_put((row.owner_S, row.step_S), values_S)


def padded_group(state_ids: Sequence[int], action_ids: Sequence[Sequence[int]], pad_id: int) -> PaddedGroup:
    """The same group as G padded rows. Padding is known by the mask, never by the id, so pad may equal end of turn.

    Raises:
        ValueError: an empty state, no action, or an empty action.
    """
    _check(state_ids, action_ids)
    longest = max(len(action) for action in action_ids)
    rows = [[*state_ids, *action[:-1]] + [pad_id] * (longest - len(action)) for action in action_ids]
    targets = [[*action] + [pad_id] * (longest - len(action)) for action in action_ids]
    lengths_G = torch.tensor([len(action) for action in action_ids])
    inputs_GL = torch.tensor(rows, dtype=torch.long)
    attention_GL = torch.arange(inputs_GL.shape[1])[None, :] < (len(state_ids) + lengths_G - 1)[:, None]
    mask_GT = torch.arange(longest)[None, :] < lengths_G[:, None]
    targets_GT = torch.tensor(targets, dtype=torch.long)
    return PaddedGroup(inputs_GL, attention_GL.long(), targets_GT, mask_GT, len(state_ids) - 1)


def _check(state_ids: Sequence[int], action_ids: Sequence[Sequence[int]]) -> None:
    if not state_ids:
        raise ValueError("the state has no tokens; the first token of an action needs one to be predicted from")
    if not action_ids or any(not action for action in action_ids):
        raise ValueError("a group needs at least one action, and every action at least one token")

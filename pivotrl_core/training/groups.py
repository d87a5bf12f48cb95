"""Groups: G samples that are compared with one another, and their members as sequences to train on.

A pivot's samples share its state; an episode is a sequence with the tokens of all its turns as targets. Members of any
groups share rows, of a prefix tree or of padded lines, up to a limit of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pivotrl_core.environments.episodes import Episode
from pivotrl_core.grpo.duplicates import merge_equal_actions
from pivotrl_core.grpo.prefix_tree import TargetSequence


@dataclass(frozen=True, slots=True)
class Member:
    """One distinct sample of a group as it is trained on.

    Attributes:
        sequence: state and action ids, with the sampled tokens as targets.
        group: index of its group in the batch, and `first` its own index in the group (of the first of equal ones).
        equal: indices in the group of all equal samples that it stands for; `advantage` is the sum of theirs.
        logprobs: at sampling, one a target; none where it was not sampled now, and the ratio begins at 1.
    """

    sequence: TargetSequence
    group: int
    first: int
    equal: tuple[int, ...]
    advantage: float
    logprobs: tuple[float, ...]

    @property
    def multiplicity(self) -> float:
        """How many equal samples it stands for."""
        return float(len(self.equal))


class Group(Protocol):
    """G samples with rewards."""

    @property
    def rewards(self) -> tuple[float, ...]:
        """Reward of each."""
        ...

    @property
    def replayed(self) -> bool:
        """Whether the last one was sampled when the profile was made, not now."""
        ...

    @property
    def demonstrated(self) -> bool:
        """Whether the last one is the expert's."""
        ...

    @property
    def replaced(self) -> float | None:
        """Reward of the policy's own sample, where the last one took its place."""
        ...

    @property
    def lengths(self) -> list[int]:
        """Trained tokens of each."""
        ...

    def members(self, index: int, advantages_G: Tensor) -> Iterator[Member]:
        """What is trained on; `index` is the group's place in the batch."""
        ...


@dataclass(frozen=True, slots=True)
class PivotGroup:
    """G actions at one state, sampled from the policy but for the last where it is `replayed` or `demonstrated`."""

    state_ids: tuple[int, ...]
    action_ids: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float, ...], ...]
    rewards: tuple[float, ...]
    replayed: bool = False
    demonstrated: bool = False
    replaced: float | None = None

    @property
    def lengths(self) -> list[int]:
        """Tokens of each action."""
        return [len(ids) for ids in self.action_ids]

    def members(self, index: int, advantages_G: Tensor) -> Iterator[Member]:
        """Each distinct action once."""
        merged = merge_equal_actions(self.action_ids, advantages_G)
        start = len(self.state_ids)
        columns = (merged.first_U.tolist(), merged.equal, merged.advantages_U.tolist())
        for ids, first, equal, advantage in zip(merged.action_ids, *columns, strict=True):
            sequence = TargetSequence((*self.state_ids, *ids), tuple(range(start, start + len(ids))))
            yield Member(sequence, index, first, equal, advantage, self.logprobs[first])


@dataclass(frozen=True, slots=True)
class EpisodeGroup:
    """G whole episodes of one task."""

    episodes: tuple[Episode, ...]

    @property
    def rewards(self) -> tuple[float, ...]:
        """Success of each episode."""
        return tuple(episode.score.success for episode in self.episodes)

    @property
    def replayed(self) -> bool:
        """Never: episodes are sampled."""
        return False

    @property
    def demonstrated(self) -> bool:
        """Never."""
        return False

    @property
    def replaced(self) -> None:
        """Nothing."""
        return None

    @property
    def lengths(self) -> list[int]:
        """Tokens that the policy wrote in each episode."""
        return [sum(len(sample.ids) for sample in episode.samples) for episode in self.episodes]

    def members(self, index: int, advantages_G: Tensor) -> Iterator[Member]:
        """Each episode, with the ids of all its turns as targets: exactly the ids that were read and sampled."""
        for first, (episode, advantage) in enumerate(zip(self.episodes, advantages_G.tolist(), strict=True)):
            ids = (*episode.contexts[-1], *episode.samples[-1].ids)
            places = [
                len(context) + offset
                for context, sample in zip(episode.contexts, episode.samples, strict=True)
                for offset in range(len(sample.ids))
            ]
            logprobs = tuple(logprob for sample in episode.samples for logprob in sample.logprobs)
            yield Member(TargetSequence(ids, tuple(places)), index, first, (first,), advantage, logprobs)


def padded_lines(lines: Sequence[Sequence[float]], mask_NT: Tensor) -> Tensor:
    """Numbers per member as one padded line each (0 at padding), on the mask's device."""
    padded = torch.zeros(mask_NT.shape, device="cpu")
    for index, line in enumerate(lines):
        padded[index, : len(line)] = torch.tensor(line, device="cpu")
    return padded.to(mask_NT.device)

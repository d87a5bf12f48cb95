"""Conversations that grow turn by turn in one batch: episodes of an environment.

What all conversations begin with (system prompt and tools) is one stem; each keeps the keys and values of its own
turns, so that every token is computed once. Positions of a conversation are its own; padding is masked, never seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pivotrl_core.engines.branches import Branches, Own, Stems, branch_attention
from pivotrl_core.engines.protocol import Sample, SamplingConfig
from pivotrl_core.engines.transformers_engine import Row, TransformersEngine, new_row


class EpisodeSession:
    """Implements `ChatSession` on the embedded engine.

    Args:
        engine: where tokens come from.
        opening: ids that every conversation begins with.
        samplings: one a conversation: how its turns are sampled. All have the same `max_tokens`.
    """

    def __init__(self, engine: TransformersEngine, opening: Sequence[int], samplings: Sequence[SamplingConfig]) -> None:
        self.engine = engine
        self.samplings = samplings
        self.max_tokens = max(sampling.max_tokens for sampling in samplings)
        rows = len(samplings)
        self.opening = len(opening)
        self.context: list[list[int]] = [list(opening) for _ in range(rows)]
        self.computed = [len(opening)] * rows
        self.history = engine.own(rows, 0)
        with torch.inference_mode(), branch_attention(engine.model):
            self.stem = engine.prefill([tuple(opening)])

    def reply(self, appended: Sequence[Sequence[int] | None], seeds: Sequence[int]) -> list[Sample | None]:
        """For each conversation, append these ids (at least one) and sample the next turn; None: it is over."""
        live = [i for i, ids in enumerate(appended) if ids is not None]
        results: list[Sample | None] = [None] * len(appended)
        if not live:
            return results
        # The last id of a turn was sampled, not computed: it goes in front of what follows it.
        new = [[*self.context[i][self.computed[i] :], *(appended[i] or ())] for i in live]
        rows = [new_row(seeds[i], self.samplings[i]) for i in live]
        with torch.inference_mode(), branch_attention(self.engine.model):
            tail = self._read(live, new)
            self._write(live, tail, new, rows)
        for at, i in enumerate(live):
            self.context[i] += [*(appended[i] or ()), *rows[at].ids]
            self.computed[i] = len(self.context[i]) - 1
            results[i] = rows[at].sample()
        return results

    def _branches(self, live: Sequence[int], tail: Own) -> Branches:
        history = self.engine.own(0, 0)
        history.keys, history.values = self.history.keys, self.history.values
        history.valid_RS, history.length = self.history.valid_RS, self.history.length
        if len(live) < len(self.context):
            history.keep(self.engine.tensor(live))
        count = len(live)
        stems = Stems(*self.stem, self.engine.tensor([0] * count), self.engine.tensor([self.opening] * count))
        return Branches(tail, stems, history)

    def _read(self, live: Sequence[int], new: Sequence[Sequence[int]]) -> Tensor:
        """Compute all but the last of the new ids of each conversation, into its history. Returns next positions."""
        starts = self.engine.tensor([self.computed[i] for i in live])
        width = max(len(ids) for ids in new) - 1
        counts = self.engine.tensor([len(ids) - 1 for ids in new])
        if width > 0:
            tail = self.engine.own(len(live), width)
            steps = self.engine.tensor(range(width))
            tail.valid_RS = steps[None, :] < counts[:, None]
            ids = self.engine.tensor([list(row[:-1]) + [0] * (width + 1 - len(row)) for row in new])
            self.engine.forward(self._branches(live, tail), ids, starts[:, None] + steps)
            self.engine.count.prefilled += int(counts.sum())
            tail.length = width
            self._remember(live, tail)
        return starts + counts

    def _write(self, live: Sequence[int], positions: Tensor, new: Sequence[Sequence[int]], rows: Sequence[Row]) -> None:
        """Decode the turn; the tokens it computed go into the history (finished rows leave the batch meanwhile)."""
        tail = _Recorded.wrap(self.engine.own(len(live), self.max_tokens))
        last = self.engine.tensor([[ids[-1]] for ids in new])
        self.engine.decode(self._branches(live, tail), rows, last, positions, self.max_tokens)
        self._remember(live, tail.whole([len(row.ids) for row in rows]))

    def _remember(self, live: Sequence[int], tail: Own) -> None:
        """Put a tail behind the history of all conversations (padding for those that are over)."""
        count, width = len(self.context), tail.length
        index = self.engine.tensor(live)
        for store, new in ((self.history.keys, tail.keys), (self.history.values, tail.values)):
            for layer, grown in enumerate(new):
                wide = grown.new_zeros(count, grown.shape[1], width, grown.shape[3])
                wide[index] = grown[:, :, :width]
                store[layer] = torch.cat([store[layer], wide], dim=2)
        valid = self.history.valid_RS.new_zeros(count, width)
        valid[index] = tail.valid_RS[:, :width]
        self.history.valid_RS = torch.cat([self.history.valid_RS, valid], dim=1)
        self.history.length += width


class _Recorded(Own):
    """A tail that remembers the rows that left it, so that a whole turn can be kept."""

    rows: Tensor
    left: list[tuple[Tensor, list[Tensor], list[Tensor]]]

    @classmethod
    def wrap(cls, own: Own) -> _Recorded:
        """The same storage, remembering."""
        recorded = cls(own.keys, own.values, own.valid_RS, own.length)
        recorded.rows = torch.arange(len(own.valid_RS), device=own.valid_RS.device)
        recorded.left = []
        return recorded

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these, and put the dropped ones aside."""
        gone = torch.ones_like(self.rows, dtype=torch.bool)
        gone[rows] = False
        self.left.append((self.rows[gone], [k[gone] for k in self.keys], [v[gone] for v in self.values]))
        self.rows = self.rows[rows]
        super().keep(rows)

    def whole(self, lengths: Sequence[int]) -> Own:
        """All rows in their first order; the first `lengths` tokens of a row are real (its last id is not computed)."""
        parts = [*self.left, (self.rows, self.keys, self.values)]
        order = torch.argsort(torch.cat([rows for rows, _, _ in parts]))
        layers = range(len(self.keys))
        keys = [torch.cat([part[1][layer] for part in parts])[order] for layer in layers]
        values = [torch.cat([part[2][layer] for part in parts])[order] for layer in layers]
        device = self.rows.device
        steps = torch.arange(keys[0].shape[2], device=device)
        valid = steps[None, :] < torch.tensor(lengths, device=device)[:, None]
        return Own(keys, values, valid, max(lengths))

"""Conversations that grow turn by turn in one batch: episodes of an environment.

What all conversations begin with (system prompt and tools) is one stem; each keeps the keys and values of its own
turns, so that every token is computed once. Positions of a conversation are its own; padding is masked, never seen.

The histories of the conversations that are still going stand in one store, each from its left edge without gaps, so
that its width is that of the longest one; what a conversation needed is given back when it ends. New texts differ in
length by a factor of ten (a tool's answer, a short reply), so they are read in batches of similar ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pivotrl_core.engines.branches import Branches, Own, Stems, few_by_many
from pivotrl_core.engines.protocol import Sample, SamplingConfig
from pivotrl_core.engines.transformers_engine import Row, TransformersEngine, batches_by_length, new_row

ROOM = 64  # tokens by which the store of histories grows


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
        self.opening = len(opening)
        self.context: list[list[int]] = [list(opening) for _ in samplings]
        self.going = list(range(len(samplings)))
        self.store = engine.own(len(samplings), 0)
        self.kept = [0] * len(samplings)
        with engine.sampling():
            self.stem = engine.prefill([tuple(opening)])

    def reply(self, appended: Sequence[Sequence[int] | None], seeds: Sequence[int]) -> list[Sample | None]:
        """For each conversation, append these ids (at least one) and sample the next turn; None: it is over."""
        results: list[Sample | None] = [None] * len(appended)
        with self.engine.sampling():
            self._end([i for i in self.going if appended[i] is None])
            if not self.going:
                return results
            # The last id of a turn was sampled, not computed: it goes in front of what follows it.
            new = []
            for at, i in enumerate(self.going):
                new.append([*self.context[i][self.opening + self.kept[at] :], *(appended[i] or ())])
                self.context[i] += appended[i] or ()
            self._read(new)
            rows = [new_row(seeds[i], self.samplings[i]) for i in self.going]
            self._write([ids[-1] for ids in new], rows)
        for i, row in zip(self.going, rows, strict=True):
            self.context[i] += row.ids
            results[i] = row.sample()
        return results

    def _end(self, over: Sequence[int]) -> None:
        """Give back what the conversations that are over needed."""
        if not over:
            return
        gone = set(over)
        # Those with much behind them stand together, so that no others wait while theirs is read.
        stay = sorted((at for at, i in enumerate(self.going) if i not in gone), key=lambda at: self.kept[at])
        self.going = [self.going[at] for at in stay]
        self.kept = [self.kept[at] for at in stay]
        self.store.keep(self.engine.tensor(stay))
        self.store.length = max(self.kept, default=0)

    def _branches(self, tail: Own, rows: Sequence[int] | None = None) -> Branches:
        """What the conversations at `rows` (default: all that are going) see, with an empty tail."""
        history = _Histories.of(self.store, self.kept)
        count = len(self.going) if rows is None else len(rows)
        if rows is not None and list(rows) != list(range(len(self.going))):
            history.keep(self.engine.tensor(rows))
        stems = Stems(*self.stem, self.engine.tensor([0] * count), self.engine.tensor([self.opening] * count))
        return Branches(tail, stems, history)

    def _read(self, new: Sequence[Sequence[int]]) -> None:
        """Compute all but the last of the new ids of each conversation, into its history."""
        for rows in batches_by_length([len(ids) - 1 for ids in new]):
            counts = [len(new[at]) - 1 for at in rows]
            width = max(counts)
            if width == 0:
                continue
            tail = self.engine.own(len(rows), width)
            steps = self.engine.tensor(range(width))
            tail.valid_RS = steps[None, :] < self.engine.tensor(counts)[:, None]
            ids = self.engine.tensor(
                [[*new[at][:-1], *[0] * (width - count)] for at, count in zip(rows, counts, strict=True)]
            )
            starts = self.engine.tensor([self.opening + self.kept[at] for at in rows])
            self.engine.forward(self._branches(tail, rows), ids, starts[:, None] + steps)
            self.engine.count.prefilled += sum(counts)
            self._keep(rows, tail, counts)

    def _write(self, last: Sequence[int], rows: Sequence[Row]) -> None:
        """Decode the turn; the tokens it computed go into the history (finished rows leave the batch meanwhile)."""
        tail = _Recorded.wrap(self.engine.own(len(rows), self.max_tokens))
        positions = self.engine.tensor([self.opening + kept for kept in self.kept])
        ids = self.engine.tensor(last)[:, None]
        self.engine.decode(self._branches(tail), rows, range(len(rows)), ids, positions, self.max_tokens)
        # Of a turn's ids the last one is not computed; the last one of what was read before it is.
        self._keep(range(len(rows)), tail.whole(), [len(row.ids) for row in rows])

    def _keep(self, rows: Sequence[int], tail: Own, counts: Sequence[int]) -> None:
        """Put the first `counts` tokens of a tail behind the histories of the conversations at `rows`."""
        self._make_room(max(self.kept[at] + count for at, count in zip(rows, counts, strict=True)))
        pairs = [(line, step) for line, count in enumerate(counts) for step in range(count)]
        line_M, step_M = self.engine.tensor(pairs).unbind(dim=1)
        row_M = self.engine.tensor(list(rows))[line_M]
        slot_M = self.engine.tensor([self.kept[at] for at in rows])[line_M] + step_M
        for store, grown in ((self.store.keys, tail.keys), (self.store.values, tail.values)):
            for layer in range(len(store)):
                store[layer][row_M, :, slot_M] = grown[layer][line_M, :, step_M]
        self.store.valid_RS[row_M, slot_M] = True
        for at, count in zip(rows, counts, strict=True):
            self.kept[at] += count
        self.store.length = max(self.kept)

    def _make_room(self, needed: int) -> None:
        missing = needed - self.store.valid_RS.shape[1]
        if missing <= 0:
            return
        grown = -(-missing // ROOM) * ROOM
        pad = torch.nn.functional.pad
        for store in (self.store.keys, self.store.values):
            for layer in range(len(store)):
                store[layer] = pad(store[layer], (0, 0, 0, grown))
        self.store.valid_RS = pad(self.store.valid_RS, (0, grown))


class _Histories(Own):
    """Histories of unequal lengths: rows side by side whose lengths are alike are read as far as the longest of them.

    Reading them all as far as the longest one is most of what a decoding step costs.
    """

    lengths: list[int]
    blocks: list[range]

    @classmethod
    def of(cls, store: Own, lengths: Sequence[int]) -> _Histories:
        """The store's rows, with how many tokens each has."""
        histories = cls(list(store.keys), list(store.values), store.valid_RS, store.length)
        histories.lengths = list(lengths)
        histories.blocks = runs_by_length(histories.lengths)
        return histories

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows."""
        self.lengths = [self.lengths[at] for at in rows.tolist()]
        self.blocks = runs_by_length(self.lengths)
        super().keep(rows)

    def scores(self, layer: int, query: Tensor, width: int) -> Tensor:
        """Scores [R, H_kv, rep * w, S]; what is behind a row's block is not written: the mask covers it."""
        if width or len(self.blocks) == 1:
            return super().scores(layer, query, width)
        found = query.new_empty(*query.shape[:-1], self.length)
        for block, part in self._parts():
            found[part, ..., :block] = few_by_many(query[part], self.keys[layer][part, :, :block])
        return found

    def mix(self, layer: int, weights: Tensor) -> Tensor:
        """Weighted values [R, H_kv, rep * w, D]."""
        if len(self.blocks) == 1:
            return super().mix(layer, weights)
        values = self.values[layer]
        return torch.cat([weights[part, ..., :block] @ values[part, :, :block] for block, part in self._parts()])

    def _parts(self) -> Iterator[tuple[int, slice]]:
        for block in self.blocks:
            yield max(self.lengths[block.start : block.stop]), slice(block.start, block.stop)


def runs_by_length(lengths: Sequence[int], overhead: int = 400) -> list[range]:
    """Neighbours in runs, each as long as its longest, so that little is padding: the cheapest cut of the given order.

    A run costs its rows times its longest length, and `overhead` tokens for being one more.

    >>> runs_by_length([5, 6, 900, 890], overhead=48)
    [range(0, 2), range(2, 4)]
    """
    best: list[tuple[int, int]] = [(0, 0)]  # cost of the first n, and where their last run begins
    for end in range(1, len(lengths) + 1):
        longest, found = 0, (best[end - 1][0] + lengths[end - 1] + overhead, end - 1)
        for begin in range(end - 1, -1, -1):
            longest = max(longest, lengths[begin])
            found = min(found, (best[begin][0] + (end - begin) * longest + overhead, begin))
        best.append(found)
    runs = []
    end = len(lengths)
    while end:
        begin = best[end][1]
        runs.append(range(begin, end))
        end = begin
    return runs[::-1]


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

    def whole(self) -> Own:
        """All rows in their first order."""
        parts = [*self.left, (self.rows, self.keys, self.values)]
        order = torch.argsort(torch.cat([rows for rows, _, _ in parts]))
        layers = range(len(self.keys))
        keys = [torch.cat([part[1][layer] for part in parts])[order] for layer in layers]
        values = [torch.cat([part[2][layer] for part in parts])[order] for layer in layers]
        return Own(keys, values, self.valid_RS, keys[0].shape[2])

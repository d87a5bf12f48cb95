"""Conversations that grow turn by turn in one batch: episodes of an environment.

What all conversations begin with (system prompt and tools) is one stem; each keeps the keys and values of its own
turns, so that every token is computed once. None waits for the slowest: whoever has ended a turn is given its answer,
and takes up its next turn while the others write on. New texts differ in length by a factor of ten (a tool's answer, a
short reply), and one alone would be read as slowly as many: they are read together, in batches of similar ones, once
enough conversations wait for it. What happens when depends on the samples alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pivotrl_core.engines.batching import batches_by_length, runs_by_length
from pivotrl_core.engines.branched_model import BranchedModel
from pivotrl_core.engines.branches import Branches, StemCache
from pivotrl_core.engines.histories import Histories
from pivotrl_core.engines.protocol import Sample, SamplingConfig
from pivotrl_core.engines.rows import Row, new_row

WAITING_SHARE = 8  # new texts are read once a slot in so many waits
SLOT_COST = 200  # what a row costs in a decoding step, in tokens of history
WORTH_MOVING = 1.2  # how much dearer rows as they stand must be, before they are arranged anew


@dataclass(slots=True)
class _Conversation:
    """One conversation. `context` begins behind the opening, and its first `kept` ids are computed."""

    name: int
    context: list[int] = field(default_factory=list)
    kept: int = 0
    next_turn: Row | None = None  # the turn that begins once its text has been read
    turn: Row | None = None  # the turn that is being written
    max_tokens: int = 0


class EpisodeSession:
    """Implements `ChatSession` on the embedded engine.

    Args:
        model: where tokens come from.
        opening: ids that every conversation begins with.
    """

    def __init__(self, model: BranchedModel, opening: Sequence[int]) -> None:
        self.model = model
        self.opening = len(opening)
        self.conversations: dict[int, _Conversation] = {}
        self.slots: list[_Conversation | None] = []  # by row of the histories; None: who was there has left
        self.histories = Histories(model.tail_cache(0, 0))
        with model.sampling():
            stems = model.prefill([tuple(opening)])
        self.stem = stems.lead or (stems.keys, stems.values)

    def say(self, name: int, ids: Sequence[int], sampling: SamplingConfig, seed: int) -> None:
        """Put ids (at least one) behind conversation `name`, new or known, and let its next turn be sampled."""
        one = self.conversations.setdefault(name, _Conversation(name))
        one.context += ids
        one.next_turn, one.max_tokens = new_row(seed, sampling), sampling.max_tokens
        self.model.count.turns += 1

    def end(self, name: int) -> None:
        """Conversation `name` is over: give back what it needed."""
        one = self.conversations.pop(name)
        self.slots = [None if other is one else other for other in self.slots]

    def advance(self) -> list[tuple[int, Sample]]:
        """Compute until at least one turn is finished: names and turns, in the order of their slots.

        Empty where nothing is being written and nothing was said.
        """
        with self.model.sampling():
            while True:
                self._read_if_due()
                if not any(one is not None and one.turn is not None for one in self.slots):
                    return []
                finished = self._write_token()
                if finished:
                    return finished

    def _read_if_due(self) -> None:
        """Let those to whom something was said begin their turn, where enough of them wait or nobody is writing."""
        waiting = [one for one in self.conversations.values() if one.next_turn is not None]
        if not waiting:
            return
        writing = sum(one.turn is not None for one in self.conversations.values())
        if writing and len(waiting) * WAITING_SHARE < len(self.conversations):
            return
        self._place(waiting)
        self._read()

    def _place(self, waiting: Sequence[_Conversation]) -> None:
        """A row for each conversation: free ones as they stand, or all arranged anew where that is much cheaper."""
        placed = {id(one) for one in self.slots if one is not None}
        entering = [one for one in waiting if id(one) not in placed]
        free = [row for row, one in enumerate(self.slots) if one is None]
        arranged = sorted(self.conversations.values(), key=lambda one: (one.kept, one.name))
        stay = [one.kept if one is not None else 0 for one in self.slots]
        if len(entering) <= len(free) and _cost(stay) <= WORTH_MOVING * _cost([one.kept for one in arranged]):
            for row, one in zip(free, entering, strict=False):
                self.slots[row] = one
                self.histories.lengths[row] = 0
            return
        rows = {id(one): row for row, one in enumerate(self.slots) if one is not None}
        self.histories.arrange([rows.get(id(one)) for one in arranged])
        self.slots = list(arranged)

    def _read(self) -> None:
        """Compute all but the last of the ids that each waiting conversation has not computed; its turn begins.

        The last id of a turn was sampled, not computed: it goes in front of what follows it.
        """
        rows = [row for row, one in enumerate(self.slots) if one is not None and one.next_turn is not None]
        new = [self._one(row).context[self._one(row).kept : -1] for row in rows]
        for batch in batches_by_length([len(ids) for ids in new]):
            counts = [len(new[at]) for at in batch]
            width = max(counts)
            if width == 0:
                continue
            padded = [[*new[at], *[0] * (width - len(new[at]))] for at in batch]
            starts = [self.opening + self._one(rows[at]).kept for at in batch]
            positions = [[start + step for step in range(width)] for start in starts]
            reading = self.histories.prefill_step([rows[at] for at in batch], counts, self.stem)
            self.model.forward(reading, self.model.tensor(padded), self.model.tensor(positions))
            self.model.count.prefilled += sum(counts)
            for at, count in zip(batch, counts, strict=True):
                self._keep(rows[at], count)
        for row in rows:
            one = self._one(row)
            one.turn, one.next_turn = one.next_turn, None
        self.histories.measure()

    def _write_token(self) -> list[tuple[int, Sample]]:
        """One more token of every turn that is being written; the turns that ended with it.

        Seats without such a turn are computed too and count for nothing: soon somebody sits there again.
        """
        turns = {row: one.turn for row, one in enumerate(self.slots) if one is not None and one.turn is not None}
        last = [self._one(row).context[-1] if row in turns else 0 for row in range(len(self.slots))]
        positions = [self.opening + length for length in self.histories.lengths]
        tensor, slots = self.model.tensor, len(self.slots)
        stems = StemCache(*self.stem)
        stems.assign([0] * slots, [self.opening] * slots, self.model.query_groups)
        branches = Branches(self.histories.decode_step(), stems)
        hidden = self.model.forward(branches, tensor(last)[:, None], tensor(positions)[:, None])[:, -1]
        self.model.choose(list(turns.values()), range(len(turns)), hidden[tensor(list(turns))])
        self.model.count.generated += len(turns)
        finished = []
        for row, turn in turns.items():
            self._keep(row, 1)
            one = self._one(row)
            one.context.append(turn.ids[-1])
            if turn.done or len(turn.ids) == one.max_tokens:
                one.turn = None
                finished.append((one.name, turn.sample()))
        return finished

    def _one(self, row: int) -> _Conversation:
        one = self.slots[row]
        assert one is not None
        return one

    def _keep(self, row: int, count: int) -> None:
        self._one(row).kept += count
        self.histories.lengths[row] += count


def _cost(lengths: Sequence[int]) -> int:
    """What a decoding step costs for rows of these lengths in this order, in tokens of history."""
    return sum((SLOT_COST + max(lengths[run.start : run.stop])) * len(run) for run in runs_by_length(lengths))

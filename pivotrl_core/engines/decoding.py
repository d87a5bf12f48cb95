"""Writing continuations: what is computed at each step, and which rows it serves.

A *line* of the batch is what has been written so far behind one state, and serves all rows that have written the same:
samples of one state begin as one line, and part where they differ. A row's random numbers are its own, so that rows
which nobody has asked for yet can go along on lines that are computed anyway. Where such a row leaves them, its line is
put aside with its keys and values, and goes on from there once the row is asked for. So what is computed for some
samples of a state is computed once, however few of them are asked for at a time.

A request's next rows begin as soon as the ones before them have ended, in whatever step that is; where the batch has
become small, rows that may be asked for next are written ahead of it, as another step costs more than another line. All
of this depends on the samples alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from pivotrl_core.engines.branched_model import BranchedModel
from pivotrl_core.engines.branches import Branches, StemCache, TailCache
from pivotrl_core.engines.protocol import Sample
from pivotrl_core.engines.rows import Row

COMPACT_BELOW = 0.75  # share of live lines under which finished ones are taken out of the batch
ROOM = 8  # tokens by which lines are given room
AHEAD_BELOW = 128  # rows that are written at once, under which others are written ahead of being asked for


@dataclass(slots=True)
class Continuations:
    """The continuations of one state.

    Attributes:
        stem: whose keys and values hold the state, and `visible`, how many of its tokens are the state's.
        opening: the state's ids behind those, at least its last one, which are read step by step.
        rows: all that may be asked for, in order: the first `asked` are, and the first `begun` are written.
        more: how many more rows to ask for, given the samples of all that were; None: all are asked for from the start.
    """

    stem: int
    visible: int
    opening: tuple[int, ...]
    rows: list[Row]
    asked: int
    more: Callable[[Sequence[Sample]], int] | None
    begun: int = field(init=False)
    over: bool = field(init=False)

    def __post_init__(self) -> None:
        self.begun, self.over = self.asked, self.asked == 0

    def ask(self) -> None:
        """Ask for more rows as long as all that were asked for have ended."""
        while not self.over and all(row.ended for row in self.rows[: self.asked]):
            own = self.samples() if self.more and self.asked < len(self.rows) else []
            more = self.more(own) if self.more and own else 0
            self.over = more <= 0
            self.asked = min(self.asked + max(more, 0), len(self.rows))
        self.begun = max(self.begun, self.asked)

    def samples(self) -> list[Sample]:
        """Of the rows that were asked for."""
        return [row.sample() for row in self.rows[: self.asked]]

    @property
    def unfinished(self) -> int:
        """Rows that are being written."""
        return 0 if self.over else sum(not row.ended for row in self.rows[: self.begun])


@dataclass(slots=True)
class Line:
    """What some rows of one state have written alike.

    Attributes:
        place: of the state in the batch, and `path`: the ids behind the first of its opening, read or written.
        rows: places of the rows among the state's, ascending.
        store: who has the keys and values of the tokens before the newest one, and `slot`: in which row of it.
    """

    place: int
    path: tuple[int, ...]
    rows: list[int]
    store: TailCache
    slot: int


class Decoder:
    """Writes the continuations of several states in one batch, to their ends.

    Args:
        model: computes and chooses.
        states: what is written behind which state, in the order of their stems.
        stems: keys and values of the states.
    """

    def __init__(self, model: BranchedModel, states: Sequence[Continuations], stems: StemCache) -> None:
        self.model = model
        self.states = states
        self.stems = stems
        self.aside: list[Line] = []
        self.tail = model.tail_cache(len(states), 0)
        # By slot, those of lines that have ended among them: what a forward pass reads, and where.
        self.ids: list[int] = []
        self.positions: list[int] = []

    def write(self) -> None:
        """Write all rows that are asked for."""
        lines = [
            Line(at, (), list(range(len(state.rows))), self.tail, at)
            for at, state in enumerate(self.states)
            if not state.over
        ]
        while lines:
            if not self._may_stay(lines):
                self._place(lines)
            self._compute(lines)
            lines = self._going_on(lines)
        for state in self.states:
            self.model.count.prefilled += len(state.opening) - 1 if state.asked else 0
            self.model.count.turns += state.asked
            self.model.count.generated += sum(len(row.ids) for row in state.rows[: state.begun])

    def _may_stay(self, lines: Sequence[Line]) -> bool:
        """Where none parts or comes in and few have ended, those stay, unread: leaving costs a copy of all others."""
        alone = len({line.slot for line in lines}) == len(lines) >= COMPACT_BELOW * len(self.ids) > 0
        return alone and all(line.store is self.tail for line in lines)

    def _place(self, lines: list[Line]) -> None:
        """Lines in their order in a new store; they know their slots."""
        lines.sort(key=lambda line: (line.place, line.path))
        tensor = self.model.tensor
        stores = {id(line.store): line.store for line in lines}
        parts: list[tuple[TailCache, Tensor, Tensor | slice]] = []
        for store in stores.values():
            places = [at for at, line in enumerate(lines) if line.store is store]
            slots = tensor([lines[at].slot for at in places])
            parts.append((store, slots, slice(None) if len(stores) == 1 else tensor(places)))
        lengths = [len(line.path) for line in lines]
        self.tail = TailCache.gather(parts, lengths, max(lengths) + ROOM)
        for at, line in enumerate(lines):
            line.store, line.slot = self.tail, at
        self.ids, self.positions = [0] * len(lines), [0] * len(lines)
        states = [self.states[line.place] for line in lines]
        self.stems.assign(
            [state.stem for state in states], [state.visible for state in states], self.model.query_groups
        )

    def _compute(self, lines: Sequence[Line]) -> None:
        """One more token of every line: its rows choose, once its state's opening is read."""
        for line in lines:
            state = self.states[line.place]
            self.ids[line.slot] = line.path[-1] if line.path else state.opening[0]
            self.positions[line.slot] = state.visible + len(line.path)
        tensor = self.model.tensor
        self.tail.open(ROOM)
        branches = Branches(self.tail, self.stems)
        hidden = self.model.forward(branches, tensor(self.ids)[:, None], tensor(self.positions)[:, None])[:, -1]
        self.tail.close()
        rows = [
            (self.states[line.place].rows[at], line.slot)
            for line in lines
            if self._unread(line) is None
            for at in line.rows
        ]
        if rows:
            self.model.choose([row for row, _ in rows], [slot for _, slot in rows], hidden)

    def _unread(self, line: Line) -> int | None:
        """The next id of the state's opening, where it is not read yet."""
        opening = self.states[line.place].opening
        return opening[len(line.path) + 1] if len(line.path) + 1 < len(opening) else None

    def _going_on(self, lines: Sequence[Line]) -> list[Line]:
        """The lines of the next step; those that only serve rows which nobody asked for wait aside."""
        grown = [part for line in lines for part in self._parts(line)]
        self._ask()
        live = [line for line in (*self.aside, *grown) if not self.states[line.place].over]
        self.aside = [line for line in live if line.rows[0] >= self.states[line.place].begun]
        self._keep([line for line in self.aside if line.store is self.tail])
        return [line for line in live if line.rows[0] < self.states[line.place].begun]

    def _parts(self, line: Line) -> list[Line]:
        """The lines that one becomes: one for each token that some of its rows chose and go on from.

        A line whose opening is not read yet goes on with all its rows.
        """
        unread = self._unread(line)
        if unread is not None:
            return [Line(line.place, (*line.path, unread), line.rows, line.store, line.slot)]
        rows = self.states[line.place].rows
        parts: dict[int, list[int]] = {}
        for at in line.rows:
            if not rows[at].ended:
                parts.setdefault(rows[at].ids[-1], []).append(at)
        return [Line(line.place, (*line.path, token), parts[token], line.store, line.slot) for token in sorted(parts)]

    def _ask(self) -> None:
        """Ask for what is due, and write ahead what may be due next where the batch has become small."""
        for state in self.states:
            state.ask()
        going = [state for state in self.states if not state.over and state.begun < len(state.rows)]
        room = AHEAD_BELOW - sum(state.unfinished for state in self.states) if going else 0
        while going and room > 0:
            for state in going:
                state.begun += 1
                room -= not state.rows[state.begun - 1].ended
            going = [state for state in going if state.begun < len(state.rows)]

    def _keep(self, lines: Sequence[Line]) -> None:
        """Copy what lines have written out of the batch, which goes on without them."""
        if not lines:
            return
        lengths = [len(line.path) for line in lines]
        slots = self.model.tensor([line.slot for line in lines])
        store = TailCache.gather([(self.tail, slots, slice(None))], lengths, max(lengths))
        for at, line in enumerate(lines):
            line.store, line.slot = store, at

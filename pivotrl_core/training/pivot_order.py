"""Which pivots each step takes: passes over the pool, each in an order of the seed's own, that run into one another.

A pivot whose group had full reward throughout has nothing to teach for now. It may sit out the next passes, so that the
steps go to what is not mastered yet; then it comes back, and what was forgotten meanwhile is learned again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pivotrl_core.seeding import generator


@dataclass(slots=True)
class PivotOrder:
    """The order of one training. A function of the seed and of which groups were mastered when.

    Attributes:
        size: pivots in the pool.
        seed: of the training.
        rest: passes that a mastered pivot sits out; 0: every pass has the whole pool.
        passes: passes begun so far.
        waiting: pivots (places in the pool) that the pass in hand has not had yet, the next one first.
        back: of each pivot that sits out, the first pass that has it again.
    """

    size: int
    seed: int
    rest: int = 0
    passes: int = 0
    waiting: list[int] = field(default_factory=list)
    back: dict[int, int] = field(default_factory=dict)

    def take(self, count: int) -> list[int]:
        """The next `count` pivots; one may come twice where a pass has fewer."""
        taken: list[int] = []
        while len(taken) < count:
            if not self.waiting:
                self._begin()
            missing = count - len(taken)
            taken += self.waiting[:missing]
            self.waiting = self.waiting[missing:]
        return taken

    def note_mastered(self, pivots: Iterable[int]) -> None:
        """These are mastered: they sit out `rest` passes, from the next one that begins."""
        if self.rest:
            for pivot in pivots:
                self.back[pivot] = self.passes + self.rest

    def state(self) -> dict[str, Any]:
        """What `resume` needs to go on from here; plain JSON."""
        return {"passes": self.passes, "waiting": list(self.waiting), "back": sorted(self.back.items())}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a state; an empty one is the beginning."""
        self.passes = state.get("passes", 0)
        self.waiting = list(state.get("waiting", ()))
        self.back = dict(state.get("back", ()))

    def _begin(self) -> None:
        """The next pass. Where all would sit out, none does: there is no step without pivots."""
        order = [int(pivot) for pivot in generator(self.seed, "pivot-order", self.passes).permutation(self.size)]
        self.back = {pivot: due for pivot, due in self.back.items() if due > self.passes}
        self.waiting = [pivot for pivot in order if pivot not in self.back] or order
        self.passes += 1

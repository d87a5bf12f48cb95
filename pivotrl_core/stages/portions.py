"""What an evaluation has measured so far, portion by portion, so that one that is killed goes on from there.

A portion is a batch of episodes, a benchmark, a temperature at the held-out turns. It is kept as its rows and as the
tokens it cost, in the stage's scratch folder, whose name says everything that they depend on. Portions are measured
side by side (see lanes.py): none depends on another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pivotrl_core.engines.protocol import ChatEngine, TokenCount
from pivotrl_core.files import read_json, write_json

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Portion:
    """A name, and how its rows are measured with an engine of its own."""

    name: str
    measure: Callable[[ChatEngine], Rows]


@dataclass(frozen=True, slots=True)
class Portions:
    """Rows that were measured before come from `folder`; others are computed. Tokens of all count in the engine's."""

    folder: Path
    engine: ChatEngine

    def rows(self, portions: Sequence[Portion]) -> list[Rows]:
        """The rows of each portion, in order; each is told, for it may be minutes' work."""
        results = []
        with self.engine.sampling():
            for portion, (rows, count) in zip(portions, self.engine.lanes.map(self._rows, portions), strict=True):
                self.engine.count.add(count)
                results.append(rows)
                print(f"evaluate: {portion.name} measured, {len(results)} of {len(portions)}", flush=True)
        return results

    def _rows(self, portion: Portion) -> tuple[Rows, TokenCount]:
        """JSON keeps every number exactly."""
        path = self.folder / f"{portion.name}.json"
        if path.exists():
            kept = read_json(path)
            return kept["rows"], TokenCount(**kept["tokens"])
        engine = self.engine.beside()
        rows = portion.measure(engine)
        write_json(path, {"rows": rows, "tokens": asdict(engine.count)})
        return rows, engine.count

"""What an evaluation has measured so far, portion by portion, so that one that is killed goes on from there.

A portion is a batch of episodes, a benchmark, a temperature at the held-out turns. It is kept as its rows and as the
tokens it cost, in the stage's scratch folder, whose name says everything that they depend on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pivotrl_core.engines.protocol import TokenCount
from pivotrl_core.files import read_json, write_json

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Portions:
    """Rows that were measured before come from `folder`, with their tokens added to `count`; others are computed."""

    folder: Path
    count: TokenCount

    def rows(self, name: str, measure: Callable[[], Rows]) -> Rows:
        """The rows of one portion, in order. JSON keeps every number exactly."""
        path = self.folder / f"{name}.json"
        if path.exists():
            kept = read_json(path)
            self.count.add(TokenCount(**kept["tokens"]))
            rows: Rows = kept["rows"]
            return rows
        before = replace(self.count)
        rows = measure()
        write_json(path, {"rows": rows, "tokens": asdict(self.count.since(before))})
        return rows

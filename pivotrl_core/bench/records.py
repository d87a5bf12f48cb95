"""What a benchmark tells: one record a comparison, as a line of JSON and as a line of a table.

Ratios are theirs divided by ours: above 1 is better for ours. On a GPU there is no processor time: what is told of it
elsewhere is told of time, under keys that begin with `wall_`.

The token-count limit of a group of G actions of C tokens at a state of P is G (P + C) / (P + G C): tokens of the
repeated form over tokens of the shared one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pivotrl_core.bench.measuring import Measured

COLUMNS = (
    "cpu_ratio",
    "wall_ratio",
    "memory_ratio",
    "of_limit",
    "wall_of_limit",
    "changed_decisions",
    "saved_share",
    "ms_per_candidate",
    "wall_ms_per_candidate",
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison, or why there is none.

    Attributes:
        bench: train, profile, curtail or iterate.
        against: the other side; None where ours is only told, not compared.
        setting: what was done: sizes, model, dtype, threads.
        cpu_ratio: processor time, wall_ratio: time, memory_ratio: peak above the loaded model; theirs / ours.
        of_limit: cpu_ratio over the token-count limit; wall_of_limit: wall_ratio over it, on a GPU.
        changed_decisions: of a curtailed profile beside the full one; saved_share: samples that it left out.
        ms_per_candidate: processor milliseconds, wall_ms_per_candidate: milliseconds, on a GPU; `shares` says what part
            of it each part takes.
        skipped: why the other side is not there.
        ours, theirs: what was measured, for the table.
    """

    bench: str
    against: str | None
    setting: Mapping[str, Any]
    cpu_ratio: float | None = None
    wall_ratio: float | None = None
    memory_ratio: float | None = None
    of_limit: float | None = None
    changed_decisions: int | None = None
    saved_share: float | None = None
    ms_per_candidate: float | None = None
    wall_of_limit: float | None = None
    wall_ms_per_candidate: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    skipped: str = ""
    ours: Measured | None = None
    theirs: Measured | None = None

    def line(self) -> str:
        """One line of JSON: what was not measured is left out."""
        values: dict[str, Any] = {"bench": self.bench, "against": self.against, "setting": dict(self.setting)}
        for name in COLUMNS:
            value = getattr(self, name)
            if value is not None:
                values[name] = round(value, 4) if isinstance(value, float) else value
        if self.shares:
            values["shares"] = {name: round(share, 4) for name, share in self.shares.items()}
        if self.skipped:
            values["skipped"] = self.skipped
        return json.dumps(values, allow_nan=False)

    def text(self) -> str:
        """The same for people, with seconds and bytes."""
        title = f"{self.bench} against {self.against}" if self.against else f"{self.bench}, ours alone"
        lines = [title, "  " + ", ".join(f"{name} {value}" for name, value in self.setting.items())]
        if self.skipped:
            return "\n".join([*lines, f"  skipped: {self.skipped}"])
        for name, measured in (("ours", self.ours), ("theirs", self.theirs)):
            if measured is not None:
                memory = f", {measured.memory / 2**20:.0f} MiB above the model" if self.memory_ratio else ""
                cpu = "" if measured.cpu is None else f"{measured.cpu:.3f} processor s, "
                lines.append(f"  {name}: {cpu}{measured.wall:.3f} s{memory}, runs: {len(measured.readings)}")
        lines += [f"  {name} {getattr(self, name):.4g}" for name in COLUMNS if getattr(self, name) is not None]
        lines += [f"  {name} {share:.1%}" for name, share in self.shares.items()]
        return "\n".join(lines)

    def amounts(self) -> dict[str, dict[str, float]]:
        """What was measured of each side, for records that outlive the machine: runs, median seconds, peaks in bytes.

        `peak` is above the loaded model, `reserved` all that torch took of a GPU.
        """
        sides = {"ours": self.ours, "theirs": self.theirs}
        return {name: _amounts(measured) for name, measured in sides.items() if measured is not None}


def _amounts(measured: Measured) -> dict[str, float]:
    told = {
        "runs": len(measured.readings), "seconds": round(measured.wall, 6), "peak": measured.memory,
        "cpu_seconds": measured.cpu, "reserved": measured.reserved,
    }  # fmt: skip
    return {name: value for name, value in told.items() if value is not None}


def compare(
    bench: str, against: str, setting: Mapping[str, Any], ours: Measured, theirs: Measured, limit: float | None = None
) -> Comparison:
    """Ratios of two sides that did the same.

    Args:
        bench: name of the benchmark.
        against: name of the other side.
        setting: what was done.
        ours: our runs.
        theirs: the other side's.
        limit: of the ratio of what is computed, where it is known.
    """
    wall_ratio = theirs.wall / ours.wall
    cpu_ratio = None if ours.cpu is None or theirs.cpu is None else theirs.cpu / ours.cpu
    told = Comparison(
        bench,
        against=against,
        setting=setting,
        cpu_ratio=cpu_ratio,
        wall_ratio=wall_ratio,
        memory_ratio=theirs.memory / max(1, ours.memory),
        ours=ours,
        theirs=theirs,
    )
    if limit is None:
        return told
    if cpu_ratio is None:
        return replace(told, wall_of_limit=wall_ratio / limit)
    return replace(told, of_limit=cpu_ratio / limit)


def token_limit(group: int, state: int, action: int) -> float:
    """G (P + C) / (P + G C), in tokens.

    >>> token_limit(16, 1024, 64)
    8.5
    """
    return group * (state + action) / (state + group * action)


def skip(bench: str, against: str, setting: Mapping[str, Any], reason: str) -> Comparison:
    """A comparison with a side that is not there."""
    return Comparison(bench, against, setting, skipped=reason)

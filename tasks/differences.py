"""What differs between a recorded run and its reproduction, by name: parameters, inputs, outputs, metrics.

Wall clock and machine (`reports/timings/`) are apart: they differ always and are never compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pivotrl_core.config.folders import TIMINGS
from tasks.dvc_lock import LockedStage


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same. `None` stands for missing."""

    kind: str
    name: str
    recorded: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: recorded {_word(self.recorded)}, now {_word(self.found)}"


def _word(value: Any) -> str:
    return "missing" if value is None else str(value)


def compare_locks(recorded: Mapping[str, LockedStage], found: Mapping[str, LockedStage]) -> list[Difference]:
    """Differences of two dvc.lock files, stage by stage."""
    out: list[Difference] = []
    for name in sorted({*recorded, *found}):
        if name not in recorded or name not in found:
            out.append(Difference("stage", name, name if name in recorded else None, name if name in found else None))
            continue
        one, two = recorded[name], found[name]
        if one.command != two.command:
            out.append(Difference("command of", name, one.command, two.command))
        for kind, left, right in (
            ("parameter", one.params, two.params),
            ("input", one.deps, two.deps),
            ("output", one.outs, two.outs),
        ):
            out.extend(_compare(kind, name, left, right))
    return out


def _compare(kind: str, stage: str, one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[Difference]:
    for key in sorted({*one, *two}):
        if not key.startswith(TIMINGS) and one.get(key) != two.get(key):
            yield Difference(kind, f"{key} of {stage}", one.get(key), two.get(key))


def compare_reports(recorded: Mapping[str, Any], found: Mapping[str, Any]) -> list[Difference]:
    """Differences of report files, down to the value: `reports/compare/report.json rows.0.cells.x.mean`."""
    out: list[Difference] = []
    for path in sorted({*recorded, *found}):
        if path.startswith(TIMINGS):
            continue
        one, two = dict(_leaves(recorded.get(path))), dict(_leaves(found.get(path)))
        out.extend(
            Difference("value", f"{path} {key}".rstrip(), one.get(key), two.get(key))
            for key in sorted({*one, *two})
            if one.get(key) != two.get(key)
        )
    return out


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{key}.{number}")
    else:
        yield key, value

"""Trajectories from files: each row is read, checked and de-duplicated as it goes by, or dropped with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pivotrl_core.trajectories.drops import Drop, DropReason, DropReport
from pivotrl_core.trajectories.fields import InvalidRowError
from pivotrl_core.trajectories.protocol import TrajectoryReader
from pivotrl_core.trajectories.registry import READERS, detect_reader
from pivotrl_core.trajectories.rows import Row, read_rows
from pivotrl_core.trajectories.validation import Limits, validate
from pivotrl_core.types import Trajectory

SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz")
"""How names of trajectory files end; a pull takes the same."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was kept, and the account of what was read."""

    trajectories: tuple[Trajectory, ...]
    report: DropReport


def trajectory_files(path: Path) -> list[Path]:
    """The file itself, or every `.jsonl` and `.json` file (also `.gz`) below a folder, in the order of their names."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and file.name.endswith(SUFFIXES))


def load_trajectories(paths: Iterable[Path], limits: Limits | None = None, max_drop_share: float = 1.0) -> Loaded:
    """Read files to their end.

    Args:
        paths: files in a fixed order: of equal rows the first is kept. Drops name them as they are given here.
        limits: bounds on one row.
        max_drop_share: share of rows that may be unusable, in [0, 1]; equal rows are dropped beside it.

    Raises:
        DataError: nothing was read, or a gzip is broken.
        TooManyDropsError: more rows than that are unusable.
    """
    report = DropReport()
    kept = tuple(iterate_trajectories(paths, report, limits))
    report.check(max_drop_share)
    return Loaded(kept, report)


def iterate_trajectories(
    paths: Iterable[Path], report: DropReport, limits: Limits | None = None
) -> Iterator[Trajectory]:
    """Trajectories one by one; `report` is filled on the way and adds up once the iterator has ended."""
    seen = _Seen()
    for path in paths:
        seen.row_ids.clear()
        reader: TrajectoryReader | None = None
        for row in read_rows(path, limits or Limits()):
            report.read += 1
            if isinstance(row, Drop):
                report.drops.append(row)
                continue
            # A row that lost its decisive field belongs to the format of the rows before it.
            reader = detect_reader(row.value) or reader
            result = _read_row(path, row, reader, limits or Limits(), seen)
            if isinstance(result, Drop):
                report.drops.append(result)
            else:
                report.kept += 1
                yield result


@dataclass(slots=True)
class _Seen:
    """Content ids over all files (id -> place), and explicit row ids of the present file (id -> line)."""

    contents: dict[str, str] = field(default_factory=dict)
    row_ids: dict[str, int] = field(default_factory=dict)


def _read_row(path: Path, row: Row, reader: TrajectoryReader | None, limits: Limits, seen: _Seen) -> Trajectory | Drop:
    file = path.as_posix()
    if not isinstance(row.value, dict):
        detail = f"expected an object, found {type(row.value).__name__}"
        return Drop(file, row.line, DropReason.WRONG_TYPE, "", detail)
    if reader is None:
        names = ", ".join(known.name for known in READERS)
        detail = f"none of {names}; keys: {', '.join(sorted(map(str, row.value))[:8])}"
        return Drop(file, row.line, DropReason.UNKNOWN_FORMAT, "", detail)
    try:
        trajectory = reader.read_row(row.value, f"{file}:{row.line}")
        validate(trajectory, limits)
    except InvalidRowError as error:
        return Drop(file, row.line, error.reason, error.field, error.detail)
    return _deduplicate(file, row.line, trajectory, seen)


def _deduplicate(file: str, line: int, trajectory: Trajectory, seen: _Seen) -> Trajectory | Drop:
    identity = trajectory.id
    if identity in seen.contents:
        return Drop(file, line, DropReason.DUPLICATE_CONTENT, "", f"equals {seen.contents[identity]}")
    row_id = trajectory.metadata.get("row_id")
    if row_id is not None and row_id in seen.row_ids:
        return Drop(file, line, DropReason.DUPLICATE_ID, "id", f"{row_id[:80]}, first on line {seen.row_ids[row_id]}")
    seen.contents[identity] = trajectory.source
    if row_id is not None:
        seen.row_ids[row_id] = line
    return trajectory

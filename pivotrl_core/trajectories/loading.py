"""Trajectories from files: each row is read, checked and de-duplicated as it goes by, or dropped with its reason.

What is kept for all files read is numbers: 16 hex digits for each trajectory and turn, and a place: no row is held.
Files with rows that have no tools are read twice, since tools are inferred from the calls of all such rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pivotrl_core.trajectories.continuations import Continuations
from pivotrl_core.trajectories.drops import Drop, DropReason, DropReport
from pivotrl_core.trajectories.fields import InvalidRowError
from pivotrl_core.trajectories.marks import ONLY_LAST_TURN, TOOLS_INFERRED
from pivotrl_core.trajectories.places import files_below
from pivotrl_core.trajectories.protocol import DocumentReader, TrajectoryReader
from pivotrl_core.trajectories.registry import READERS, as_row, detect_reader
from pivotrl_core.trajectories.rows import Row, is_trajectory_name, read_rows
from pivotrl_core.trajectories.tool_inference import CalledTools, infer_tools
from pivotrl_core.trajectories.turns import candidate_positions, in_order_of_calls
from pivotrl_core.trajectories.validation import Limits, validate
from pivotrl_core.types import Json, Tool, Trajectory


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was kept, and the account of what was read."""

    trajectories: tuple[Trajectory, ...]
    report: DropReport


def trajectory_files(path: Path) -> list[Path]:
    """The file itself, or every file below a folder that bears such a name, in the order of their names."""
    if path.is_file():
        return [path]
    return [file for file in files_below(path) if is_trajectory_name(file.name)]


def load_trajectories(paths: Iterable[Path], limits: Limits | None = None, max_drop_share: float = 1.0) -> Loaded:
    """Read files to their end.

    Args:
        paths: files in a fixed order: of equal rows the first is kept. Drops name them as they are given here.
        limits: bounds on one row.
        max_drop_share: share of rows that may be unusable, in [0, 1]; equal rows are dropped beside it.

    Raises:
        DataError: nothing was read, or a packed file is broken.
        TooManyDropsError: more rows than that are unusable.
    """
    report = DropReport()
    kept = tuple(iterate_trajectories(paths, report, limits))
    report.check(max_drop_share)
    return Loaded(kept, report)


def iterate_trajectories(
    paths: Iterable[Path],
    report: DropReport,
    limits: Limits | None = None,
    name_of: Callable[[Path], str] = Path.as_posix,
) -> Iterator[Trajectory]:
    """Trajectories one by one; `report` is filled on the way and adds up once the iterator has ended.

    A row counts for each trajectory in it: a result file of ten simulations is ten rows.

    Args:
        paths: files in a fixed order: of equal rows the first is kept.
        report: receives counts and drops.
        limits: bounds on one row.
        name_of: how drops name a file.
    """
    files, bounds, seen = list(paths), limits or Limits(), _Seen()
    tools: _Inferred | None = None
    for path, reader, results in _read_all(files, bounds):
        if tools is None and any(_is_bare(one) for _, one in results):
            tools = _infer_all(files, bounds)
        for place, read in results:
            report.read += 1
            if isinstance(read, Trajectory):
                result = _checked(_with_tools(read, reader, tools or {}), place, name_of(path), bounds, seen)
            else:
                result = replace(read, file=name_of(path))
            if isinstance(result, Drop):
                report.drops.append(result)
            else:
                report.kept += 1
                yield result


def _read_all(paths: Iterable[Path], limits: Limits) -> Iterator[tuple[Path, str, list[_Result]]]:
    """Each row's file, the name of its reader, and what became of its trajectories."""
    for path in paths:
        reader: TrajectoryReader | None = None
        for row in read_rows(path, limits, lambda value: detect_reader(value) is not None):
            if isinstance(row, Drop):
                yield path, "", [("", row)]
            else:
                # A row that lost its decisive field belongs to the format of the rows before it.
                reader = detect_reader(row.value) or reader
                yield path, reader.name if reader else "", _read_row(path, row, reader)


_FILE = 2**40
_Result = tuple[str, Trajectory | Drop]
"""What became of one trajectory of a row, with its path inside of the row."""
_Inferred = Mapping[tuple[str, str], tuple[Tool, ...]]
"""Tools that rows of a format call in a domain."""


@dataclass(slots=True)
class _Seen:
    """Content ids over all files, each with its place as `_FILE` * file + line, and row ids of the present one."""

    files: list[str] = field(default_factory=list)
    contents: dict[int, int] = field(default_factory=dict)
    row_ids: dict[str, int] = field(default_factory=dict)
    conversations: Continuations = field(default_factory=Continuations)

    def place(self, at: int) -> str:
        file, line = divmod(at, _FILE)
        return f"{self.files[file]}:{line}"

    def open(self, file: str) -> None:
        if not self.files or self.files[-1] != file:
            self.files.append(file)
            self.row_ids.clear()


def _read_row(path: Path, row: Row, reader: TrajectoryReader | None) -> list[_Result]:
    """The trajectories of a row, or the reason why there is none."""
    value, file = as_row(row.value), path.as_posix()
    if value is None or (isinstance(row.value, list) and (reader is None or not reader.recognises(value))):
        detail = f"expected an object, found {type(row.value).__name__}"
        return [("", Drop(file, row.line, DropReason.WRONG_TYPE, "", detail))]
    if reader is None:
        names = ", ".join(known.name for known in READERS)
        detail = f"none of {names}; keys: {', '.join(sorted(map(str, value))[:8])}"
        return [("", Drop(file, row.line, DropReason.UNKNOWN_FORMAT, "", detail))]
    try:
        parts = reader.split(value) if isinstance(reader, DocumentReader) else [("", value)]
    except InvalidRowError as error:
        return [("", _drop(file, row.line, "", error))]
    results = [(place, _read_part(file, row.line, place, part, reader)) for place, part in parts]
    return _share_tools(results) if len(results) > 1 else results


def _read_part(
    file: str, line: int, place: str, part: Mapping[str, Json], reader: TrajectoryReader
) -> Trajectory | Drop:
    try:
        return reader.read_row(part, f"{file}:{line}")
    except InvalidRowError as error:
        return _drop(file, line, place, error)


def _drop(file: str, line: int, place: str, error: InvalidRowError) -> Drop:
    return Drop(file, line, error.reason, f"{place}.{error.field}" if place else error.field, error.detail)


def _is_bare(one: Trajectory | Drop) -> bool:
    """Whether tools are to be inferred: a pivot row without any has none."""
    return isinstance(one, Trajectory) and not one.tools and not one.metadata.get(ONLY_LAST_TURN)


def _share_tools(results: list[_Result]) -> list[_Result]:
    """Runs of one result file have one another's tools, and not those of other files."""
    bare = [one for _, one in results if isinstance(one, Trajectory) and _is_bare(one)]
    tools = infer_tools(message for one in bare for message in one.messages)
    return [(at, _marked(one, tools) if isinstance(one, Trajectory) and _is_bare(one) else one) for at, one in results]


def _infer_all(paths: Iterable[Path], limits: Limits) -> _Inferred:
    """Tools of all rows without any, by format and domain: a row's own calls alone would tell which it will need."""
    called: defaultdict[tuple[str, str], CalledTools] = defaultdict(CalledTools)
    for _, reader, results in _read_all(paths, limits):
        for _, one in results:
            if isinstance(one, Trajectory) and _is_bare(one):
                called[reader, one.domain].add(one.messages)
    return {key: one.tools() for key, one in called.items()}


def _with_tools(trajectory: Trajectory, reader: str, inferred: _Inferred) -> Trajectory:
    return _marked(trajectory, inferred.get((reader, trajectory.domain), ())) if _is_bare(trajectory) else trajectory


def _marked(trajectory: Trajectory, tools: tuple[Tool, ...]) -> Trajectory:
    if not tools:
        return trajectory
    return replace(trajectory, tools=tools, metadata={**trajectory.metadata, TOOLS_INFERRED: True})


def _checked(trajectory: Trajectory, place: str, file: str, limits: Limits, seen: _Seen) -> Trajectory | Drop:
    line = int(trajectory.source.rpartition(":")[2])
    seen.open(file)
    trajectory = replace(trajectory, messages=in_order_of_calls(trajectory.messages))
    try:
        validate(trajectory, limits)
    except InvalidRowError as error:
        return _drop(file, line, place, error)
    return _deduplicate(file, line, trajectory, seen)


def _deduplicate(file: str, line: int, trajectory: Trajectory, seen: _Seen) -> Trajectory | Drop:
    identity = int(trajectory.id, 16)
    if identity in seen.contents:
        return Drop(file, line, DropReason.DUPLICATE_CONTENT, "", f"equals {seen.place(seen.contents[identity])}")
    row_id = trajectory.metadata.get("row_id")
    # A log of model calls may give all rows of a conversation its id.
    if row_id is not None and row_id in seen.row_ids and not seen.conversations.goes_on(trajectory):
        return Drop(file, line, DropReason.DUPLICATE_ID, "id", f"{row_id[:80]}, first on line {seen.row_ids[row_id]}")
    linked = seen.conversations.link(trajectory)
    if not candidate_positions(linked):
        return Drop(file, line, DropReason.DUPLICATE_CONTENT, "", "a longer row before it has all of its turns")
    seen.contents[identity] = (len(seen.files) - 1) * _FILE + line
    if row_id is not None:
        seen.row_ids[row_id] = line
    return linked

"""Rows of a file, one at a time: JSON a line, or one JSON document. What cannot be decoded is a drop in its place.

A gzip (`.gz`) or Zstandard file (`.zst`) is unpacked on the way, and no more of it is held than a line may be long,
whatever it unpacks to. Rows behind a break in it cannot be counted, so a broken one is an error and no drop.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pivotrl_core.errors import DataError
from pivotrl_core.trajectories.decoding import decode_json, has_lone_surrogate, nesting_depth
from pivotrl_core.trajectories.drops import Drop, DropReason
from pivotrl_core.trajectories.validation import Limits
from pivotrl_core.types import Json

PACKED = (".gz", ".zst")
LINES = (".jsonl", ".ndjson")
DOCUMENTS = (".json", ".traj")
"""How names end of files that are one JSON value; all others are JSON a line."""
SUFFIXES = tuple(kind + packed for packed in ("", *PACKED) for kind in (*LINES, *DOCUMENTS))
"""How names of trajectory files end, in whatever case."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Row:
    """One decoded row; `line` counts from 1."""

    line: int
    value: Json


def is_trajectory_name(name: str) -> bool:
    """Whether a file of this name holds trajectories: one rule for whatever reads, pulls or looks at them."""
    return name.lower().endswith(SUFFIXES)


def read_rows(path: Path, limits: Limits, is_row: Callable[[Json], bool] = lambda _: False) -> Iterator[Row | Drop]:
    """Rows of one file in order. A document holds a list of rows, or is a single row; all else is JSON a line.

    Args:
        path: the file.
        limits: bounds on one row.
        is_row: whether a document that is a list is one row as it stands (a list of messages, say).

    Raises:
        DataError: a packed file that is broken or cut short, or that unpacks to a longer JSON list than a line may be.
    """
    if _is_document(path):
        data = _whole(path, limits.max_line_bytes)
        try:
            value = None if data is None else _decode(data)
        except (ValueError, RecursionError) as error:
            if data is not None and not _begins_with_a_row(data):
                yield _broken(path, error)
                return
            data = None  # some publish JSON lines under this name
        if data is not None:
            values = value if isinstance(value, list) and not is_row(value) else [value]
            for index, item in enumerate(values, start=1):
                yield _bounded(path, Row(index, item), limits, may_hold_surrogates=True)
            return
    with open_unpacked(path) as file:
        for number, line in enumerate(_lines(file, limits.max_line_bytes), start=1):
            if line is None:
                yield Drop(
                    path.as_posix(), number, DropReason.OVERSIZED_LINE, "", f"over {limits.max_line_bytes} bytes"
                )
            elif line.strip():
                yield _decode_line(path, number, line, limits)


def _is_document(path: Path) -> bool:
    name = path.name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return name.endswith(DOCUMENTS)


def _begins_with_a_row(data: bytes) -> bool:
    """Whether the first line that is not blank is a JSON value of its own."""
    try:
        _decode(data.lstrip().partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return True


def _broken(path: Path, error: ValueError | RecursionError) -> Drop:
    """The one drop of a document that cannot be decoded, at the line where decoding ended."""
    file = path.as_posix()
    if isinstance(error, json.JSONDecodeError):
        return Drop(file, error.lineno, DropReason.BROKEN_JSON, "", f"column {error.colno}: {error.msg}")
    if isinstance(error, UnicodeDecodeError):
        return Drop(file, 1, DropReason.NOT_UTF8, "", f"byte {error.start} of the file")
    if isinstance(error, RecursionError):
        return Drop(file, 1, DropReason.TOO_DEEP)
    return Drop(file, 1, DropReason.BROKEN_JSON, "", str(error)[:200])


@contextmanager
def open_unpacked(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked where it is packed.

    Raises:
        DataError: while it is read: a packed file that is broken or cut short.
    """
    with path.open("rb") as file:
        suffix = path.suffix.lower()
        if suffix not in PACKED:
            yield file
            return
        try:
            yield gzip.GzipFile(fileobj=file) if suffix == ".gz" else _zstd(file)  # type: ignore[misc]
        except (OSError, zlib.error, EOFError) as error:
            kind = "gzip" if suffix == ".gz" else "Zstandard file"
            raise DataError(f"{path}: a broken or truncated {kind} ({error}); bring the file again, whole") from error


def _zstd(file: BinaryIO) -> BinaryIO:
    """A Zstandard file's bytes. Arrow brings the decoder, and notices where a file is cut short."""
    import pyarrow as pa

    return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))


def _whole(path: Path, limit: int) -> bytes | None:
    """All bytes of a file that may be one value. Of a packed one, whose size says little, at most `limit` are held.

    None for a packed file with more, which is no value to be held at once.

    Raises:
        DataError: that, and what it begins with is a list.
    """
    with open_unpacked(path) as file:
        if path.suffix.lower() not in PACKED:
            return file.read()
        data = file.read(limit + 1)
    if len(data) <= limit:
        return data
    if data.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
        raise DataError(f"{path}: a JSON list that unpacks to over {limit} bytes; write JSON a line, as .jsonl.gz")
    return None


def _lines(file: BinaryIO, limit: int) -> Iterator[bytes | None]:
    """Lines of at most `limit` bytes; None for a longer one, which is never held in memory whole."""
    while line := file.readline(limit + 1):
        if len(line) <= limit:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(limit + 1)
        yield None


def _decode_line(path: Path, number: int, line: bytes, limits: Limits) -> Row | Drop:
    file = path.as_posix()
    try:
        value = _decode(line)
    except UnicodeDecodeError as error:
        return Drop(file, number, DropReason.NOT_UTF8, "", f"byte {error.start} of the line")
    except RecursionError:
        return Drop(file, number, DropReason.TOO_DEEP)
    except ValueError as error:
        return Drop(file, number, DropReason.BROKEN_JSON, "", str(error)[:200])
    return _bounded(path, Row(number, value), limits, bool(_SURROGATE.search(line.decode("utf-8"))))


def _decode(data: bytes) -> Json:
    return decode_json(data.decode("utf-8-sig"))


def _bounded(path: Path, row: Row, limits: Limits, may_hold_surrogates: bool) -> Row | Drop:
    """The row, unless it nests too deeply to be written again, or holds text that UTF-8 cannot carry."""
    if nesting_depth(row.value, limits.max_depth) > limits.max_depth:
        return Drop(path.as_posix(), row.line, DropReason.TOO_DEEP, "", f"more than {limits.max_depth} levels")
    if may_hold_surrogates and has_lone_surrogate(row.value):
        return Drop(path.as_posix(), row.line, DropReason.LONE_SURROGATE)
    return row

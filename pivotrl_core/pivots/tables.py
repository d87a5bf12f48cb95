"""Parquet files of the pipeline: an explicit schema, a version, equal bytes for equal rows, and never half a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pivotrl_core.errors import DataError
from pivotrl_core.files import atomic_file
from pivotrl_core.types import Json

SCHEMA_VERSION = 2
PART_CHARS = 16_000_000
"""Characters of text of one part (row group) of a file: what is held in memory while a file is written."""


def write_table(path: Path, kind: str, schema: pa.Schema, rows: Iterable[Mapping[str, Json]]) -> None:
    """Write rows under a schema, in their order. `kind` says what the file is: candidates, profile, pool, drops.

    Rows are taken as they come, and no more of them is held than a part of the file.
    """
    own = schema.with_metadata({"schema_version": str(SCHEMA_VERSION), "kind": kind})
    with (
        atomic_file(path) as file,
        pq.ParquetWriter(file, own, compression="zstd", version="2.6") as writer,
    ):
        for part in _parts(rows):
            writer.write_table(pa.Table.from_pylist(part, schema=own))


def _parts(rows: Iterable[Mapping[str, Json]]) -> Iterator[list[dict[str, Json]]]:
    """The rows in parts of about `PART_CHARS` characters of text; no rows at all are one part."""
    part: list[dict[str, Json]] = []
    size, first = 0, True
    for row in rows:
        part.append(dict(row))
        size += sum(len(value) for value in row.values() if isinstance(value, str))
        if size >= PART_CHARS:
            yield part
            part, size, first = [], 0, False
    if part or first:
        yield part


def read_table(path: Path, kind: str) -> pd.DataFrame:
    """Read a file that `write_table` wrote.

    Raises:
        DataError: the file is missing, is no Parquet, or is of another kind or version.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{path}: cannot be read as Parquet ({error}); run the stage that writes it again") from error
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    found = (metadata.get("kind"), metadata.get("schema_version"))
    if found != (kind, str(SCHEMA_VERSION)):
        raise DataError(
            f"{path}: expected {kind} of schema version {SCHEMA_VERSION}, found {found[0]} of {found[1]}; "
            "run the stage that writes it again with this version"
        )
    frame: pd.DataFrame = table.to_pandas()
    return frame


def records(frame: pd.DataFrame) -> list[dict[str, Json]]:
    """The rows of a data frame as Python values, in order."""
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]

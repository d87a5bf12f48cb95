"""Files written so that a reader never sees half of one: temporary file, fsync, rename.

JSON is canonical (sorted keys, two-space indent, final newline), so that equal content is equal bytes.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A name to write to; the file appears at `path`, whole, when the block ends without an error, not otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    try:
        yield Path(name)
        _sync(Path(name))
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync(path.parent)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a binary file that appears at `path`, whole, when the block ends without an error, and not otherwise."""
    with atomic_path(path) as name, name.open("wb") as file:
        yield file


def remove_unfinished(path: Path) -> None:
    """Remove what processes that were killed while they wrote `path` left beside it. No one may be writing it now."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
        left.unlink()


def _sync(place: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write `text` atomically as UTF-8."""
    with atomic_file(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write `value` atomically as canonical JSON. NaN and infinity raise ValueError: never written silently."""
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def read_json(path: Path) -> Any:
    """Read one JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_jsonl(path: Path, rows: Iterable[Any]) -> int:
    """Write one JSON value a line, atomically, keys in the order they have. Returns the number of lines."""
    count = 0
    with atomic_file(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n")
            count += 1
    return count


def read_jsonl(path: Path) -> list[Any]:
    """Read a file of one JSON value a line that we wrote ourselves."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def code_digest(*places: Path) -> str:
    """SHA-256 over source files (of a folder: all of its own), for versions that nobody has to remember to raise."""
    files = [file for place in places for file in (sorted(place.glob("*.py")) if place.is_dir() else [place])]
    return hashlib.sha256("".join(f"{file.name} {file_digest(file)}\n" for file in files).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_digest(folder: Path) -> str:
    """SHA-256 over all files of a folder and those below it: their names there, and their bytes."""
    files = sorted((path.relative_to(folder).as_posix(), path) for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256("".join(f"{name} {file_digest(path)}\n" for name, path in files).encode()).hexdigest()

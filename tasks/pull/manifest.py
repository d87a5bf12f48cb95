"""The manifest: what one pull brought, from where, with size and hash of every file. Deterministic by construction.

It holds no time stamp, no host and no secret, and its files are sorted, so the same source state gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pivotrl_core.errors import DataError
from pivotrl_core.files import file_digest, read_json, write_json

MANIFEST_NAME = "manifest.json"
SCHEMA_VERSION = 1


class PullSplit(StrEnum):
    """Which folder a file lands in.

    Warm-up data make the base policy, training data make candidates, and their rows may name workspaces.
    """

    TRAIN = "train"
    WARMUP = "warmup"
    WORKSPACES = "workspaces"


@dataclass(frozen=True, slots=True)
class PulledFile:
    """One file of a pull.

    Attributes:
        path: POSIX path relative to the pulled folder; of data, it contains the first 12 hex digits of the hash.
        bytes: Size in bytes.
        sha256: Hash of the bytes, hex.
        origin_key: The object's key relative to the source's root.
        origin_version: The source's name for this version (S3: the ETag); empty where content is all there is.
        split: Folder the file is in.
        gone: True when the source no longer has it. The file is kept and used until a pull with `prune`.
    """

    path: str
    bytes: int
    sha256: str
    origin_key: str
    origin_version: str
    split: PullSplit
    gone: bool = False

    def is_intact(self, folder: Path) -> bool:
        """Whether the file lies in `folder` with the size and hash recorded here."""
        path = folder / self.path
        return path.is_file() and path.stat().st_size == self.bytes and file_digest(path) == self.sha256


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a pulled folder holds. `source` identifies the origin; `revision` is its resolved state where it has one."""

    source: Mapping[str, str]
    revision: str
    files: tuple[PulledFile, ...]

    def write(self, folder: Path) -> None:
        """Write `folder/manifest.json` in one step; left untouched when it already says the same."""
        if read_manifest(folder) != self:
            value = {"schema_version": SCHEMA_VERSION, "source": dict(self.source), "revision": self.revision}
            write_json(folder / MANIFEST_NAME, {**value, "files": [asdict(file) for file in self.files]})


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a pulled folder, or None where no pull has finished yet.

    Raises:
        DataError: The file is there but is not a manifest of this version.
    """
    path = folder / MANIFEST_NAME
    if not path.is_file():
        return None
    try:
        return _manifest_from_json(read_json(path))
    except (KeyError, TypeError, ValueError) as error:
        message = f"{path}: not a pull manifest of schema {SCHEMA_VERSION} ({error}). Remove the folder and pull again."
        raise DataError(message) from error


def _manifest_from_json(value: Mapping[str, Any]) -> Manifest:
    if value["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"schema_version is {value['schema_version']!r}")
    files = (PulledFile(**{**file, "split": PullSplit(file["split"])}) for file in value["files"])
    return Manifest(dict(value["source"]), value["revision"], tuple(files))

"""The seam between pulling and the places data come from, and the rules for keys that hold for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from pivotrl_core.errors import DataError, TemporaryError
from pivotrl_core.trajectories.rows import SUFFIXES, is_trajectory_name
from tasks.pull.manifest import Manifest, PullSplit

# What a pulled folder itself holds beside data.
OWN_FILES = ("manifest.json", "model.json", "warmup.json", "workspaces.json")
_LONGEST_STEM = 120  # bytes; a file system allows 255 bytes a name and we add hash and suffix


class SourceChangedError(TemporaryError):
    """The source changed between listing and reading: a new pull sees the new state, repeating the request does not."""


@dataclass(frozen=True, slots=True)
class SourceObject:
    """One object at the source. `bytes` is -1 where unknown; `version` is empty where the source names none."""

    key: str
    bytes: int = -1
    version: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything a source offers now, and its revision where it has one."""

    objects: tuple[SourceObject, ...]
    revision: str = ""


class Origin(Protocol):
    """A source that has been opened."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What makes it this source and no other; goes into the manifest, so it holds no secret."""

    def list_objects(self, previous: Manifest | None, /) -> Listing:
        """All data objects now. `previous` is the last manifest of the same source."""

    def fetch(self, item: SourceObject, destination: Path, /) -> None:
        """Write the object's bytes to `destination`; may go on from what a killed fetch left beside it."""


class Source(Protocol):
    """Settings of a source."""

    def open(self) -> Origin:
        """Make it ready for use. Raises ConfigError where settings or credentials cannot work."""


def is_data_key(key: str) -> bool:
    """Whether a key looks like trajectories: right suffix, not hidden, not a pulled folder's own files."""
    hidden = any(part.startswith(".") and part.strip(".") for part in key.split("/"))
    return is_trajectory_name(key) and not hidden and key not in OWN_FILES


def is_workspace_key(key: str) -> bool:
    """Whether a key is part of a workspace: of any name, for what lies in one belongs to it."""
    return split_of(key) is PullSplit.WORKSPACES


def check_key(key: str) -> None:
    """Refuse a key that would leave the folder it is written to.

    Raises:
        DataError: Absolute, with `..`, empty parts, a backslash or control characters.
    """
    parts = key.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in key or not key.isprintable():
        raise DataError(f"source key {key!r} is not a plain relative path; rename it or narrow the source")


def split_of(key: str) -> PullSplit:
    """`warmup/...` is warm-up data, `workspaces/...` is what rows name; everything else is training data."""
    apart = (PullSplit.WARMUP, PullSplit.WORKSPACES)
    return next((split for split in apart if key.startswith(f"{split}/")), PullSplit.TRAIN)


def landing_path(key: str, sha256: str) -> str:
    """Where an object lies in the pulled folder: `<split>/<flattened key>.<12 hex of its hash><suffix>`.

    What is part of a workspace keeps its key, for rows name it.

    >>> landing_path("warmup/2026/a.jsonl", "f" * 64)
    'warmup/2026--a.ffffffffffff.jsonl'
    """
    split = split_of(key)
    if split is PullSplit.WORKSPACES:
        return key
    inner = key.removeprefix(f"{split}/")
    suffix = max((s for s in SUFFIXES if key.lower().endswith(s)), key=len)
    stem = "--".join(PurePosixPath(inner[: -len(suffix)]).parts).encode()[-_LONGEST_STEM:].decode(errors="ignore")
    return f"{split}/{stem}.{sha256[:12]}{suffix}"

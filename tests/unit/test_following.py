"""Metrics are passed on live, each step once, from files that are replaced under the follower."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tasks import following
from tasks.following import LineFollower, MetricsFollower


def _line(step: int, value: float) -> str:
    return json.dumps({"step": step, "metrics": {"m": value}}) + "\n"


def test_only_whole_lines_are_read_and_each_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = LineFollower(path)
    assert follower.read() == []
    path.write_text("one\ntw")
    assert follower.read() == ["one"]
    with path.open("a") as file:
        file.write("o\nthree\n")
    assert follower.read() == ["two", "three"]
    assert follower.read() == []


def test_steps_arrive_once_from_a_file_that_a_resumed_stage_writes_anew(tmp_path: Path) -> None:
    path, seen = tmp_path / "metrics.jsonl", list[tuple[int, float]]()
    path.write_text(_line(0, 9.0) + _line(1, 9.0) + _line(2, 9.0))  # an earlier run's: not of this one

    def log(step: int, metrics: Mapping[str, float]) -> None:
        seen.append((step, metrics["m"]))

    follower = MetricsFollower([tmp_path], log)
    follower.poll()
    assert seen == []
    path.unlink()
    path.write_text(_line(0, 0.0) + _line(1, 0.1))
    follower.poll()
    path.unlink()
    path.write_text(_line(0, 0.0))
    follower.poll()
    path.write_text(_line(0, 0.0) + _line(1, 0.1) + _line(2, 0.2) + "no json\n" + '{"step": 3}\n')
    follower.poll()
    assert seen == [(0, 0.0), (1, 0.1), (2, 0.2)]


def test_a_file_that_is_removed_while_it_is_looked_at_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.jsonl"
    follower = LineFollower(path)
    path.write_text("one\n")
    looked = path.stat()
    monkeypatch.setattr(following, "_identity", lambda _: (looked.st_ino, looked.st_mtime_ns, looked.st_size))
    path.unlink()
    assert follower.read() == []
    path.write_text("one\n")
    assert follower.read() == ["one"]

"""dvc.lock is read while DVC may be writing it, in place."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tasks.dvc_lock import LockFileError, read_lock

WHOLE = "schema: '2.0'\nstages:\n  candidates:\n    cmd: run it\n"


@pytest.mark.parametrize("half", ["", WHOLE[:30]])
def test_a_lock_that_is_being_written_is_read_once_it_is_whole(half: str, tmp_path: Path) -> None:
    lock = tmp_path / "dvc.lock"
    lock.write_text(half)
    writer = threading.Timer(0.15, lock.write_text, [WHOLE])
    writer.start()
    assert read_lock(lock)["candidates"].command == "run it"
    writer.join()


def test_a_lock_that_stays_half_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "dvc.lock").write_text("")
    with pytest.raises(LockFileError, match=r"dvc.lock: not as DVC writes it \(it is empty\)"):
        read_lock(tmp_path / "dvc.lock")

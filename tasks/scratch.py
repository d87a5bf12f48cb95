"""Scratch folders: what a stage that was killed goes on from.

DVC deletes a stage's outputs before it runs it, so resumable checkpoints lie outside of them, keyed by the digest of
what the stage runs with (code, inputs, parameters).
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pivotrl_core.errors import TemporaryError
from tasks.dvc_lock import LOCK_NAME, read_lock
from tasks.graph import stage_digest
from tasks.settings import State


class ScratchBusyError(TemporaryError):
    """Another process runs the same stage with the same inputs."""


@contextmanager
def stage_scratch(root: Path, state: State, name: str) -> Iterator[Path]:
    """The scratch folder of a stage as it would run now, held by this process while the block runs."""
    folder = state.scratch / name / stage_digest(root, name)
    with _held(folder):
        folder.mkdir(exist_ok=True)
        yield folder


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the lock beside a scratch folder. Raises ScratchBusyError where another process does."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            name = folder.parent.name
            raise ScratchBusyError(f"{name}: another process is running it on the same inputs ({folder})") from error
        yield


def clear_scratch(state: State) -> None:
    """Remove the scratch folders of all stages but those that a process runs. Lock files stay: they are empty."""
    for folder in sorted(path for path in state.scratch.glob("*/*") if path.is_dir()):
        with suppress(ScratchBusyError), _held(folder):
            shutil.rmtree(folder, ignore_errors=True)


def prune_scratch(root: Path, state: State) -> None:
    """Remove scratch folders of stages whose result dvc.lock holds: they are finished, whatever they were killed at."""
    for name, stage in read_lock(root / LOCK_NAME).items():
        folder = state.scratch / name / stage.digest
        shutil.rmtree(folder, ignore_errors=True)
        (folder.parent / f"{folder.name}.lock").unlink(missing_ok=True)

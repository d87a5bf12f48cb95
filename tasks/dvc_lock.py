"""What dvc.lock says: which stage was last run with which command, inputs and parameters, and what came out.

Read as plain YAML, without DVC: the record of a run keeps its dvc.lock, and comparing two of them needs no repository.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pivotrl_core.errors import DataError
from pivotrl_core.types import canonical_json

LOCK_NAME = "dvc.lock"
READ_AGAIN, READ_PAUSE = 20, 0.05  # times, and seconds before each


# DVC writes the file in place.
HALF_WRITTEN = (
    "a full disk or a killed process leaves half a dvc.lock: remove it, and what it named comes back from DVC's cache"
)


class LockFileError(DataError):
    """A dvc.lock file is not whole."""


@dataclass(frozen=True, slots=True)
class LockedStage:
    """One stage's entry. `deps` and `outs` map paths to MD5, `params` maps `file:key` to the value used."""

    command: str
    deps: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    outs: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Hash of all that decides the outputs: command, inputs and parameters."""
        value = {"command": self.command, "deps": dict(self.deps), "params": dict(self.params)}
        return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:32]


def read_lock(path: Path) -> dict[str, LockedStage]:
    """All entries of a dvc.lock file; empty where there is none. Raises LockFileError where it is not whole.

    While DVC writes it, it is not whole either, for a few milliseconds: so it is read again for a second before that.
    """
    for _ in range(READ_AGAIN):
        try:
            return _read_once(path)
        except LockFileError:
            time.sleep(READ_PAUSE)
    return _read_once(path)


def _read_once(path: Path) -> dict[str, LockedStage]:
    from ruamel.yaml.error import YAMLError

    if not path.is_file():
        return {}
    try:
        text = path.read_text(encoding="utf-8")
        if not text.strip():
            raise ValueError("it is empty")
        return parse_lock(text)
    except (YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise LockFileError(f"{path}: not as DVC writes it ({error}); {HALF_WRITTEN}") from error


def parse_lock(text: str) -> dict[str, LockedStage]:
    """All entries of a dvc.lock text, in its order."""
    from ruamel.yaml import YAML  # as DVC reads it: YAML 1.2, in which 1e-5 is a number

    value = YAML(typ="safe", pure=True).load(text) or {}
    return {str(name): _locked_stage(entry) for name, entry in (value.get("stages") or {}).items()}


def parse_pointer(text: str, name: str) -> LockedStage:
    """A `.dvc` file, which names data that no stage makes, as a stage without a command.

    Raises:
        LockFileError: It is not readable; `name` says which.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        value = YAML(typ="safe", pure=True).load(text)
        return LockedStage("", outs=_hashes(value.get("outs") or []))
    except (YAMLError, AttributeError, KeyError, TypeError) as error:
        raise LockFileError(f"{name}: not as DVC writes it ({error}); correct or remove it") from error


def _locked_stage(entry: Mapping[str, Any]) -> LockedStage:
    params = {f"{file}:{key}": v for file, values in (entry.get("params") or {}).items() for key, v in values.items()}
    command = entry.get("cmd", "")
    return LockedStage(
        command if isinstance(command, str) else "\n".join(command),
        _hashes(entry.get("deps") or []),
        params,
        _hashes(entry.get("outs") or []),
    )


def _hashes(entries: list[Mapping[str, Any]]) -> dict[str, str]:
    return {str(entry["path"]): str(entry.get("md5") or entry.get("etag") or "") for entry in entries}


def results_digest(lock: Mapping[str, LockedStage], names: Iterable[str]) -> str:
    """Hash of what the named stages ran with and what came out: one for each distinct result of a graph."""
    entries = {name: [lock[name].digest, dict(lock[name].outs)] for name in names if name in lock}
    return hashlib.sha256(canonical_json(entries).encode()).hexdigest()[:32]

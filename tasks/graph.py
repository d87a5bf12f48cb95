"""The DVC adapter: one question for the whole graph, and one child process for each stage that has to run.

DVC alone decides whether a stage runs. Its in-process API has no lock between threads, so whoever calls this module
holds the project lock (`tasks/project_lock.py`), but for a reproduction, whose worktree and cache are its own, and a
stage's program, which asks for its digest alone. What writes outputs runs as `dvc` in a supervised process tree.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pivotrl_core.errors import ConfigError, TemporaryError
from pivotrl_core.guardian import TIMED_OUT
from pivotrl_core.processes import last_lines
from tasks.confidential import without_keys
from tasks.dvc_lock import HALF_WRITTEN, LOCK_NAME, LockedStage
from tasks.supervision import (
    DISK_FULL,
    NOT_STORED,
    StageFailedError,
    describe_exit,
    run_supervised,
)

LOCK_SECONDS = 600.0  # that a command of somebody's own may take; DVC gives its lock back while a stage runs
_EXIT = re.compile(r"exited with (-?[0-9]+)")
_NOT_STORED = re.compile(r"^ERROR: failed to transfer", re.MULTILINE)  # so says DVC, and ends with 0


class GraphError(ConfigError):
    """DVC cannot make sense of dvc.yaml, graph.yaml or params.yaml."""


class DvcBusyError(TemporaryError):
    """Another process of DVC's holds its lock on the repository."""


class DataTransferError(TemporaryError):
    """DVC could not bring data to or from a remote."""


class Outcome(StrEnum):
    """What became of a stage."""

    RAN = "ran"
    RESTORED = "restored"  # DVC's run cache knew the result
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class StageStatus:
    """One stage of the graph. `deps` are names of stages, `outs` are paths; `frozen` is never run by DVC itself."""

    name: str
    deps: tuple[str, ...]
    outs: tuple[str, ...]
    changed: bool
    frozen: bool


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where and how DVC is called: a checkout or worktree, the environment of its children, and a folder for logs."""

    root: Path
    environment: Mapping[str, str]
    logs: Path


@contextmanager
def _locked_repo(root: Path) -> Iterator[Any]:
    """DVC's view of a repository under its own lock, which somebody's `dvc` by hand may hold: it is waited for.

    Raises:
        GraphError: dvc.yaml or what it refers to makes no sense.
        DvcBusyError: The lock has not become free.
    """
    from dvc.lock import LockError

    end = time.monotonic() + LOCK_SECONDS
    with _translated(root), _open_repo(root) as repo:
        while True:
            try:
                repo.lock.lock()  # tries for three seconds itself
                break
            except LockError as error:
                if time.monotonic() >= end:
                    raise DvcBusyError(
                        f"{root}: another DVC process is at work there; wait for it, or end it"
                    ) from error
        try:
            yield repo
        finally:
            repo.lock.unlock()


@contextmanager
def _open_repo(root: Path) -> Iterator[Any]:
    from dvc.repo import Repo

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # DVC's dependencies deprecate what DVC uses; nothing of ours
        with Repo(str(root)) as repo:
            yield repo


def _load_stage(repo: Any, root: Path, name: str) -> Any:
    """DVC takes a bare name for one of the working folder's dvc.yaml, so the file is named."""
    return repo.stage.load_one(path=str(root / "dvc.yaml"), name=name)


def query_graph(root: Path) -> list[StageStatus]:
    """Every stage in topological order, with whether DVC would run it as things stand.

    A stage is not called changed because a stage before it is: whoever runs one asks again for those that follow.
    """
    with _locked_repo(root) as repo:
        graph = repo.index.graph
        return [_status(graph, stage, root) for stage in _in_order(graph, list(repo.index.stages)) if _name(stage)]


@contextmanager
def _translated(root: Path) -> Iterator[None]:
    """An error of DVC's as one of ours, with what to do."""
    from dvc.exceptions import DvcException

    try:
        yield
    except DvcException as error:
        half = LOCK_NAME in str(error)
        remedy = HALF_WRITTEN if half else "`pivotrl graph` writes graph.yaml anew from params.yaml"
        raise GraphError(f"{root / (LOCK_NAME if half else 'dvc.yaml')}: {error}; {remedy}") from error


def _in_order(graph: Any, stages: Sequence[Any]) -> list[Any]:
    """Every stage after those that it depends on, otherwise as dvc.yaml has them. DVC has refused cycles already."""
    order: list[Any] = []

    def visit(stage: Any) -> None:
        if stage not in order:
            for dep in sorted(graph.successors(stage), key=stages.index):
                visit(dep)
            order.append(stage)

    for stage in stages:
        visit(stage)
    return order


def _name(stage: Any) -> str:
    """Name in dvc.yaml; empty for a `.dvc` file, which only points to data and never runs."""
    return str(getattr(stage, "name", "") or "")


def _status(graph: Any, stage: Any, root: Path) -> StageStatus:
    deps = tuple(sorted(_name(dep) for dep in graph.successors(stage) if _name(dep)))
    outs = tuple(Path(out.fs_path).relative_to(root).as_posix() for out in stage.outs)
    return StageStatus(_name(stage), deps, outs, bool(stage.changed()), bool(stage.frozen))


def missing_parameters(root: Path) -> dict[str, list[str]]:
    """Keys that stages depend on and params.yaml lacks, each with the names of those stages (a group's name once)."""
    from dvc.dependency.param import ParamsDependency

    missing: dict[str, list[str]] = {}
    with _locked_repo(root) as repo:
        for stage in repo.index.stages:
            for dep in stage.deps:
                if isinstance(dep, ParamsDependency) and dep.def_path == "params.yaml":
                    found, group = dep.read_params(), _name(stage).partition("@")[0]
                    for key in (key for key in dep.params if key not in found):
                        missing[key] = list(dict.fromkeys([*missing.get(key, []), group]))
    return missing


def is_changed(root: Path, name: str) -> bool:
    """Whether DVC would run this one stage now."""
    with _locked_repo(root) as repo:
        return bool(_load_stage(repo, root, name).changed())


def run_stage(place: Workplace, name: str, force: bool = False, poll: Callable[[], None] | None = None) -> Outcome:
    """Bring one stage up to date with `dvc repro -s`.

    Args:
        place: Where.
        name: The stage as DVC calls it (`train@pivotrl-0`).
        force: Execute it whatever DVC and its run cache know.
        poll: Called a few times a second while it runs.

    Raises:
        StageFailedError: With the exit code of the stage's own program where it ran.
    """
    log = place.logs / f"{name}.log"
    start = log.stat().st_size if log.is_file() else 0
    flags = ["--force"] if force else []  # the run cache is not asked then, but learns what came out
    command = dvc_command("repro", "--single-item", *flags, name)
    code = run_supervised(command, place.root, place.environment, log, poll=poll)
    text = _written_since(log, start)
    if _NOT_STORED.search(text):  # of a single file DVC then says something else, and ends with an error
        code = NOT_STORED
    if code != 0:
        raise StageFailedError(name, _program_exit(code, text), log, last_lines(log))
    if f"Running stage '{name}'" in text:
        return Outcome.RAN
    return Outcome.RESTORED if f"Stage '{name}' is cached" in text else Outcome.UNCHANGED


def _written_since(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        return file.read().decode("utf-8", "replace")


def _program_exit(code: int, text: str) -> int:
    """DVC says in words how the stage's program ended; its own exit code is 255 for all of them."""
    found = _EXIT.findall(text)
    if code in (TIMED_OUT, DISK_FULL, NOT_STORED, 137, 143) or not found:
        return code
    inner = int(found[-1])
    return inner if inner >= 0 else 128 - inner


def dvc_command(*arguments: str) -> list[str]:
    """DVC of this interpreter, waiting for its own repository lock instead of failing."""
    return [sys.executable, "-m", "dvc", "--wait-for-lock", *arguments]


def commit_pull(place: Workplace) -> bool:
    """Make what `pull` brought the result of the stage `pull`. Returns whether anything was new."""
    if not is_changed(place.root, "pull"):
        return False
    _call(place, "commit", "commit", "--force", "pull")
    return True


def push(place: Workplace, targets: Sequence[str] = ()) -> None:
    """Copy outputs to the default remote: those of `targets`, all where empty."""
    _call(place, "push", "push", *targets)


def add(place: Workplace, paths: Sequence[str]) -> None:
    """Let DVC keep folders that no stage makes (`PATH.dvc` points to each)."""
    _call(place, "add", "add", *paths)


def fetch_outputs(place: Workplace, targets: Sequence[str]) -> None:
    """Bring outputs as dvc.lock names them from the default remote into the workspace."""
    _call(place, "pull", "pull", "--force", *targets)


def restore(place: Workplace) -> None:
    """Check out all that dvc.lock names and the cache has; what is missing there is left to the stages."""
    run_supervised(
        dvc_command("checkout", "--force", "--allow-missing"),
        place.root,
        place.environment,
        place.logs / "checkout.log",
    )


def default_remote(root: Path) -> str | None:
    """Address of the default remote, None where there is none."""
    with _open_repo(root) as repo:
        name = repo.config["core"].get("remote")
        return str(repo.config["remote"][name]["url"]) if name else None


def stage_digest(root: Path, name: str) -> str:
    """Digest of what a stage is about to run with; equals `LockedStage.digest` once it has.

    Raises:
        ConfigError: params.yaml lacks a key that it depends on, or another of its inputs is not there.
    """
    from dvc.dependency.base import DependencyDoesNotExistError
    from dvc.dependency.param import MissingParamsError, ParamsDependency

    with _open_repo(root) as repo:
        stage = _load_stage(repo, root, name)
        try:
            stage.save_deps()
        except MissingParamsError as error:
            raise ConfigError(f"stage {name}: {error} Add them; `pivotrl run` says what to add.") from error
        except DependencyDoesNotExistError as error:
            raise ConfigError(f"stage {name}: {error}; run the stage that makes it first, or `pivotrl run`") from error
        params = {
            f"{dep.def_path}:{key}": value
            for dep in stage.deps
            if isinstance(dep, ParamsDependency)
            for key, value in (dep.hash_info.value or {}).items()
        }
        deps = {dep.def_path: str(dep.hash_info.value) for dep in stage.deps if not isinstance(dep, ParamsDependency)}
        command = stage.cmd if isinstance(stage.cmd, str) else "\n".join(stage.cmd or ())
    return LockedStage(command, deps, params).digest


def _call(place: Workplace, name: str, *arguments: str) -> None:
    log = place.logs / f"{name}.log"
    start = log.stat().st_size if log.is_file() else 0
    code = run_supervised(dvc_command(*arguments), place.root, place.environment, log)
    if _NOT_STORED.search(_written_since(log, start)):
        code = NOT_STORED
    if code != 0:
        detail = without_keys("\n".join(last_lines(log, 5)))
        raise DataTransferError(
            f"dvc {' '.join(arguments)}: {describe_exit(code)}; the whole output is in {log}\n{detail}"
        )

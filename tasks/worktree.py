"""Private git worktrees: a run that overrides anything works in one, so the user's checkout stays as it is.

A worktree stands on a commit, carries the uncommitted changes of the checkout over, has parameters of its own, and
shares DVC's cache (a reproduction has a cache of its own, so that nothing is compared with itself). Beside each lies
the lock file of the process that owns it; one whose owner is dead is swept.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pivotrl_core.config.folders import PULLED
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import write_json, write_text
from tasks.dvc_lock import LOCK_NAME, read_lock
from tasks.processes import this_process
from tasks.project_lock import read_holder
from tasks.provenance import Snapshot
from tasks.repository import GitError, Repository
from tasks.settings import State, dvc_cache


@contextmanager
def private_worktree(
    checkout: Path,
    state: State,
    run_id: str,
    snapshot: Snapshot,
    files: Mapping[str, str],
    cache: Path | None = None,
) -> Iterator[Path]:
    """A worktree that exists while the block runs.

    Args:
        checkout: Any checkout of the repository.
        state: Its state folder.
        run_id: Names the worktree.
        snapshot: Commit to stand on, and changes to apply.
        files: Texts written over what the commit has, by path (params.yaml, graph.yaml, dvc.lock).
        cache: DVC cache to use instead of the shared one.

    Raises:
        ConfigError: The run id leads out of the folder of worktrees.
    """
    root = state.worktrees / run_id
    _require_inside(state, root)
    owner = _owner_file(root)
    state.worktrees.mkdir(parents=True, exist_ok=True)
    write_json(owner, {**this_process().to_json(), "run_id": run_id})
    try:
        _create(checkout, root, snapshot)
        for name, text in files.items():
            write_text(root / name, text)
        _configure_dvc(checkout, root, cache or dvc_cache(checkout))
        yield root
    finally:
        remove_worktree(checkout, state, root)


def _create(checkout: Path, root: Path, snapshot: Snapshot) -> None:
    repository = Repository(checkout)
    # Hooks are the user's: a worktree of ours is no checkout of theirs.
    repository.git(
        "-c", "core.hooksPath=/dev/null", "worktree", "add", "--quiet", "--detach", str(root), snapshot.commit
    )
    if snapshot.diff:
        Repository(root).git("apply", "--binary", "--whitespace=nowarn", "-", data=snapshot.diff)


def _configure_dvc(checkout: Path, root: Path, cache: Path) -> None:
    """Local settings: the cache, links instead of copies, and all of the checkout's own, folder remotes made absolute.

    Those of `.dvc/config` too: a change of it that brings keys is not in the worktree's own.
    """
    from configobj import ConfigObj  # type: ignore[import-untyped] # what DVC itself reads its settings with

    shared, local = ConfigObj(str(checkout / ".dvc" / "config")), checkout / ".dvc" / "config.local"
    settings = ConfigObj(str(local)) if local.is_file() else ConfigObj()
    for section, values in shared.items():
        settings[section] = {**values, **settings.get(section, {})}
    for section, values in settings.items():
        url = values.get("url", "") if section.startswith("remote") else ""
        if url and "://" not in url and not Path(url).is_absolute():
            values["url"] = str((checkout / ".dvc" / url).resolve())
    settings.setdefault("cache", {}).update({"dir": str(cache), "type": "reflink,hardlink,copy"})
    settings.filename = str(root / ".dvc" / "config.local")
    (root / ".dvc").mkdir(exist_ok=True)
    Path(settings.filename).touch(mode=0o600)  # it may hold keys of a remote
    settings.write()


def set_remote(root: Path, url: str) -> None:
    """Make `url` the default remote of a worktree, in its local settings."""
    from configobj import ConfigObj

    settings = ConfigObj(str(root / ".dvc" / "config.local"))
    settings.setdefault("core", {})["remote"] = "data-source"
    settings['remote "data-source"'] = {"url": url}
    settings.write()


def seed_from(checkout: Path, root: Path) -> None:
    """Give a worktree what the checkout has already: its dvc.lock and the pulled data, so that only news is fetched."""
    if read_lock(checkout / LOCK_NAME):
        write_text(root / LOCK_NAME, (checkout / LOCK_NAME).read_text(encoding="utf-8"))
    if (checkout / PULLED).is_dir():
        shutil.rmtree(root / PULLED, ignore_errors=True)  # the nightly's seed is the same folder every night
        shutil.copytree(checkout / PULLED, root / PULLED, dirs_exist_ok=True)


def remove_worktree(checkout: Path, state: State, root: Path) -> None:
    """Remove a worktree and its registration, in whatever state it is.

    Raises:
        ConfigError: `root` is no folder directly inside the folder of worktrees; nothing is removed.
    """
    _require_inside(state, root)
    shutil.rmtree(root, ignore_errors=True)
    shutil.rmtree(own_state_folder(root), ignore_errors=True)
    try:
        _unregister(Repository(checkout), root)
    except (GitError, subprocess.SubprocessError):
        return  # the owner file stays, so the next sweep tries again
    _owner_file(root).unlink(missing_ok=True)


def _unregister(repository: Repository, root: Path) -> None:
    """Let git forget a worktree that is gone.

    Not `git worktree prune`, which forgets whatever it does not see here: the repository may be shared with another
    machine or container, whose worktrees lie elsewhere.
    """
    listed = repository.git("worktree", "list", "--porcelain", "-z").decode("utf-8", "surrogateescape").split("\0")
    for name in {root, root.resolve()}:
        if f"worktree {name}" in listed:
            repository.git("worktree", "remove", "--force", "--force", str(name))  # twice: also a locked one


def sweep_worktrees(checkout: Path, state: State) -> list[str]:
    """Remove worktrees whose owner is dead. Returns their names."""
    swept = []
    for owner in sorted(state.worktrees.glob("*.owner.json")):
        holder = read_holder(owner)
        if holder is None or holder.process.is_dead():
            root = state.worktrees / owner.name.removesuffix(".owner.json")
            remove_worktree(checkout, state, root)
            swept.append(root.name)
    return swept


def own_state_folder(root: Path) -> Path:
    """Where a worktree that shares nothing (a reproduction) has its state; goes with the worktree."""
    return root.with_name(f"{root.name}.state")


def _require_inside(state: State, root: Path) -> None:
    if ".." in root.parts or root.parent != state.worktrees:
        raise ConfigError(f"{root}: not directly inside {state.worktrees}, so it is no worktree of ours; left alone")


def _owner_file(root: Path) -> Path:
    return root.with_name(f"{root.name}.owner.json")

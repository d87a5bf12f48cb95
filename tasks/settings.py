"""Where a checkout keeps its state, and the environment that our processes run in.

Everything that is ours and not git's lies in one folder, `.state/` of the main checkout: private worktrees find it
through git's common folder, and PIVOTRL_STATE moves it; DVC's cache stays where DVC's settings have it. The defaults of
other tools' variables are set here; a variable for one thing alone (PIVOTRL_WEBHOOK, AWS_*) is read where that is done.
Invariant: a variable that the user has set is never overridden; PIVOTRL_STATE is made absolute, so that it means one
folder wherever it is read.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.errors import ConfigError

STATE_VARIABLE = "PIVOTRL_STATE"

TELEMETRY_OFF = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DVC_NO_ANALYTICS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


@dataclass(frozen=True, slots=True)
class State:
    """The state folder. Paths are absolute; nothing is created by asking for one."""

    root: Path

    @property
    def lock(self) -> Path:
        """The project lock: one run at a time works on the checkout and the shared DVC cache."""
        return self.root / "lock"

    @property
    def models(self) -> Path:
        """Converted models that came as packages."""
        return self.root / "models"

    @property
    def cache(self) -> Path:
        """DVC's cache of a worktree that shares nothing; a checkout's is where its settings say (`dvc_cache`)."""
        return self.root / "dvc-cache"

    @property
    def scratch(self) -> Path:
        """Resumable checkpoints, keyed by stage and digest."""
        return self.root / "scratch"

    @property
    def store(self) -> Path:
        """Profile blocks, named by their content and shared by all runs."""
        return self.root / "store"

    @property
    def runs(self) -> Path:
        """One folder per flow run: logs, HTML report, figures."""
        return self.root / "runs"

    @property
    def nightly(self) -> Path:
        """What one night leaves for the next: dvc.lock, pulled data, good models."""
        return self.root / "nightly"

    @property
    def prune_mark(self) -> Path:
        """A file that is there from a pruning pull on until a night has dropped what is gone from the source, too."""
        return self.nightly / "prune"

    @property
    def staging(self) -> Path:
        """What a killed pull into a private worktree had fetched; on the file system of the worktrees."""
        return self.root / "pull-staging"

    @property
    def worktrees(self) -> Path:
        """Private git worktrees, each with the lock file of its owner beside it."""
        return self.root / "worktrees"

    @property
    def tracking_uri(self) -> str:
        """MLflow's store where MLFLOW_TRACKING_URI does not name another."""
        return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.root / 'mlflow.db'}"


def find_checkout(start: Path | None = None) -> Path:
    """The folder with dvc.yaml at or above `start` (default: the working folder). Raises ConfigError for none."""
    place = (start or Path.cwd()).resolve()
    for folder in (place, *place.parents):
        if (folder / "dvc.yaml").is_file() and (folder / "params.yaml").is_file():
            return folder
    raise ConfigError(f"{place}: no dvc.yaml and params.yaml here or above; run inside a checkout of the project")


def find_state(checkout: Path) -> State:
    """State of a checkout or of any of its worktrees."""
    named = os.environ.get(STATE_VARIABLE)
    if named:
        return State(Path(named).resolve())
    return State(main_checkout(checkout) / ".state")


def dvc_cache(checkout: Path) -> Path:
    """DVC's cache, shared by a checkout and its private worktrees: what DVC's settings of that checkout name."""
    from configobj import ConfigObj  # type: ignore[import-untyped] # what DVC itself reads its settings with

    folder = checkout / ".dvc"
    for file in (folder / "config.local", folder / "config"):
        found = ConfigObj(str(file)).get("cache", {}).get("dir") if file.is_file() else None
        if found:
            return (folder / Path(found).expanduser()).resolve()
    return folder / "cache"


def main_checkout(checkout: Path) -> Path:
    """The checkout that a worktree belongs to; `checkout` itself where git does not say otherwise."""
    common = _git_says("-C", str(checkout), "rev-parse", "--path-format=absolute", "--git-common-dir")
    if not common:
        return checkout
    if Path(common).name == ".git":
        return Path(common).parent
    main = _git_says("config", "--file", f"{common}/config", "core.worktree")  # of a submodule, whose .git is elsewhere
    return Path(common, main).resolve() if main else checkout


def _git_says(*arguments: str) -> str:
    """What git prints; empty where it fails, or is not there: `doctor` says so, and what needs git names it."""
    try:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


def default_environment(state: State) -> dict[str, str]:
    """Our defaults: no telemetry, everything below the state folder, patience with a slow machine."""
    return {
        **TELEMETRY_OFF,
        "PREFECT_HOME": str(state.root / "prefect"),
        "PREFECT_LOCAL_STORAGE_PATH": str(state.root / "prefect" / "storage"),
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
        "MLFLOW_TRACKING_URI": state.tracking_uri,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "DVC_SITE_CACHE_DIR": str(state.root / "dvc-site"),
        "TOKENIZERS_PARALLELISM": "false",
        "GIT_TERMINAL_PROMPT": "0",
    }


def apply_environment(state: State) -> None:
    """Set our defaults in this process, and keep git from the state.

    To be called before Prefect, MLflow or DVC is imported, or a folder entered.
    """
    if named := os.environ.get(STATE_VARIABLE):
        os.environ[STATE_VARIABLE] = str(Path(named).resolve())
    for name, value in default_environment(state).items():
        os.environ.setdefault(name, value)
    ignored = state.root / ".gitignore"
    if state.root.is_dir() and not ignored.exists():  # a state folder of another name inside the checkout is no code
        with suppress(OSError):
            ignored.write_text("*\n", encoding="utf-8")


def child_environment(root: Path, state: State, *, offline: bool) -> dict[str, str]:
    """Environment of a stage's process.

    Args:
        root: Checkout or worktree that the stage works in; its code is what runs, also where the installed one differs.
        state: State folder of that root.
        offline: Forbid look-ups at the model hub (everywhere but where the configuration names a hub).
    """
    environment = {**default_environment(state), **os.environ, STATE_VARIABLE: str(state.root)}
    environment["PYTHONPATH"] = str(root)
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    if offline:
        environment.update({"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"})
    return _without_repository(environment)


def _without_repository(environment: Mapping[str, str]) -> dict[str, str]:
    """Git sets these for hooks; a stage that inherits them would work on another repository than its folder's."""
    return {
        name: value for name, value in environment.items() if name not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    }

"""Workspaces of rows, and scripts run in copies of them: the expert's once, the action's against it, both remembered.

A row names its workspace by a path below one folder, the rows' own; nothing else on the machine can be named.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.errors import SandboxUnavailableError
from pivotrl_core.types import Candidate, Json
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.effects import Effect, difference, effect_from_json, run_script
from pivotrl_core.verifiers.row_fields import place_below
from pivotrl_core.verifiers.sandbox import Limits
from pivotrl_core.verifiers.verdict_cache import VerdictCache
from pivotrl_core.verifiers.workspace import Workspace, load_workspace

_WORKSPACES_KEPT = 8


class RowWorkspaces:
    """Workspaces that rows name, below `folder`; without one there are none."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._load = functools.lru_cache(_WORKSPACES_KEPT)(load_workspace)

    def of(self, candidate: Candidate) -> Workspace | None:
        """The workspace of a candidate's row, or None.

        Raises:
            DataError: the row names a place outside of the folder, or one that cannot be read.
            SandboxUnavailableError: there is one, and this machine has no sandbox.
        """
        place = place_below(self.folder, candidate, "workspace")
        if place is None:
            return None
        if (reason := sandbox.available()) is not None:
            raise SandboxUnavailableError(
                f"workspace {place} cannot be executed: {reason} Install bubblewrap, or grade without workspaces."
            )
        return self._load(place)


@dataclass(frozen=True, slots=True)
class Scripts:
    """Runs scripts; what an expert's did is remembered in `cache` under the grader's `version`."""

    limits: Limits
    version: str
    cache: VerdictCache | None = None

    def same_effect(self, candidate: Candidate, expected: str, actual: str, workspace: Workspace) -> dict[str, Json]:
        """Components: whether the expert's effect is `telling`, and whether the action's is the same.

        Raises:
            SandboxUnavailableError: there is no sandbox on this machine.
        """
        wanted = self.remembered(candidate, "effect", workspace, lambda: self._repeated(expected, workspace))
        if not wanted.telling:
            return {"executed": True, "telling": False, "same_effect": False}
        found = run_script(actual, workspace, self.limits)
        differs = difference(wanted, found)
        return {
            "executed": True, "telling": True, "same_effect": not differs, "difference": differs, "stopped": found.cut,
        }  # fmt: skip

    def remembered(self, candidate: Candidate, name: str, workspace: Workspace, run: Callable[[], Effect]) -> Effect:
        """An effect that depends on candidate and workspace alone, found once."""
        if self.cache is None:
            return run()
        key = self.cache.key(candidate, None, self.version, name, workspace.digest)
        stored = self.cache.get(key)
        if stored is not None:
            return effect_from_json(stored)
        effect = run()
        self.cache.put(key, effect.to_json())
        return effect

    def _repeated(self, script: str, workspace: Workspace) -> Effect:
        """The effect of a script; one that two runs do not repeat tells nothing."""
        first, second = (run_script(script, workspace, self.limits) for _ in range(2))
        return first if not difference(first, second) else Effect("", "", -1, "", "not repeatable", telling=False)

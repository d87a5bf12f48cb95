"""Workspaces of rows, and scripts run in copies of them: the expert's once, the action's against it, both remembered.

A row names its workspace by a path below one folder, the rows' own; nothing else on the machine can be named.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from pivotrl_core.errors import SandboxUnavailableError
from pivotrl_core.types import Candidate, Json
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.effects import Effect, difference, effect_from_json, run_script
from pivotrl_core.verifiers.row_fields import place_below
from pivotrl_core.verifiers.sandbox import SandboxLimits
from pivotrl_core.verifiers.variations import varied
from pivotrl_core.verifiers.verdict_cache import VerdictCache
from pivotrl_core.verifiers.workspace import Workspace, load_workspace, make_workspace

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
    """Runs scripts; what an expert's did is remembered in `cache` under the grader's `version`.

    With `vary`, scripts run in another copy of the workspace too (`variations.py`), beside the first.
    """

    limits: SandboxLimits
    version: str
    cache: VerdictCache | None = None
    vary: bool = False

    def same_effect(self, candidate: Candidate, expected: str, actual: str, workspace: Workspace) -> dict[str, Json]:
        """Components: whether the expert's effect is `telling`, and whether the action's is the same.

        `by_chance` says that effects are the same in the workspace itself, and differ in the other copy of it.

        Raises:
            SandboxUnavailableError: there is no sandbox on this machine.
        """
        wanted = self._expected(candidate, expected, workspace, "effect")
        if not wanted.telling:
            return {"executed": True, "telling": False, "same_effect": False}
        places = [(wanted, workspace), *self._varied(candidate, expected, workspace, wanted.status)]
        with ThreadPoolExecutor(len(places)) as threads:
            found = list(threads.map(lambda place: run_script(actual, place[1], self.limits), places))
        differences = [difference(effect, one) for (effect, _), one in zip(places, found, strict=True)]
        differs = next(filter(None, differences), "")
        return {
            "executed": True, "telling": True, "same_effect": not differs, "difference": differs,
            "stopped": found[0].cut, "by_chance": bool(differs) and not differences[0], "copies": len(places),
        }  # fmt: skip

    def _varied(
        self, candidate: Candidate, expected: str, workspace: Workspace, status: int
    ) -> list[tuple[Effect, Workspace]]:
        """The other copy with the expert's effect there; none where the expert's script ends otherwise in it."""
        copy = varied(workspace, _shown(candidate)) if self.vary else None
        if copy is None:
            return []
        effect = self._expected(candidate, expected, copy, "effect elsewhere")
        return [(effect, copy)] if effect.telling and effect.status == status else []

    def _expected(self, candidate: Candidate, script: str, workspace: Workspace, name: str) -> Effect:
        return self.remembered(candidate, name, workspace, lambda: self._repeated(script, workspace))

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
        """The effect of a script; one that two runs do not repeat tells nothing.

        The second run finds files that were made in the opposite order: where that turns lines round, order says
        nothing. Where it changes more than that, a third run says whether the script repeats itself at all.
        """
        first = run_script(script, workspace, self.limits)
        second = run_script(script, make_workspace(workspace.tree.nodes, backwards=True), self.limits)
        differs = difference(first, second)
        if not differs:
            return first
        if differs == "output" and not difference(replace(first, unordered=True), second):
            return replace(first, unordered=True)
        if not difference(first, run_script(script, workspace, self.limits)):
            return first
        return Effect(
            "", output="", lines="", status=-1, shell="", variables={}, outside={}, cut="not repeatable", telling=False
        )


def _shown(candidate: Candidate) -> str:
    """All text of a state."""
    return "\n".join(message.content for message in candidate.state)

"""Terminal turns: are these commands interchangeable with the expert's?

In this order: can the action be read (`terminal_action.py`); does it say that the task is done where the expert does;
are the commands the same in their normal form (`shell.py`); do they have the same effect, executed in copies of the
row's workspace (`effects.py`)? Without a workspace nothing is executed, and the components say so. Similarity of the
normal forms is a component; it accepts only where a threshold is set, for one character can be another file.

`complete` names mistakes about completion on both sides: `missing` (the expert is done and the action does not say so)
is refused; `early` (the action claims to be done, the expert goes on) passes, as in NVIDIA's verifier, unless the
settings refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from rapidfuzz.distance import Indel

from pivotrl_core.errors import DataError
from pivotrl_core.files import code_digest
from pivotrl_core.trajectories import arguments
from pivotrl_core.types import Action, Candidate, Json, content_id
from pivotrl_core.verifiers.effects import is_executable
from pivotrl_core.verifiers.executions import RowWorkspaces, Scripts
from pivotrl_core.verifiers.protocol import GradingDecision, printable
from pivotrl_core.verifiers.sandbox import SandboxLimits
from pivotrl_core.verifiers.shell import MAX_CHARACTERS, normal_form
from pivotrl_core.verifiers.terminal_action import (
    Harness,
    TerminalAction,
    UnreadableActionError,
    expert_action,
    harness_of,
    read_action,
)
from pivotrl_core.verifiers.verdict_cache import VerdictCache
from pivotrl_core.verifiers.workspace import Workspace

_CODE: Final = (Path(str(arguments.__file__)), *(Path(__file__).with_name(f"{name}.py") for name in (
    "terminal", "terminal_action", "shell", "shell_options", "shell_inputs", "effects", "executions", "variations",
    "volatile", "workspace", "sandbox", "sandbox_host", "system_calls", "capture", "cgroups", "row_fields",
)))  # fmt: skip
"""What verdicts and stored effects come out of."""


class TerminalReason(StrEnum):
    ACCEPTED = "accepted"
    SAME_EFFECT = "same_effect"
    MALFORMED = "malformed"
    EXPECTED_UNREADABLE = "expected_unreadable"
    COMPLETION_MISSING = "completion_missing"
    COMPLETION_EARLY = "completion_early"
    TOOL_DIFFERS = "tool_differs"
    COMMANDS_DIFFER = "commands_differ"
    EFFECT_DIFFERS = "effect_differs"
    EFFECT_UNTOLD = "effect_untold"
    WORKSPACE_UNREADABLE = "workspace_unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalSettings:
    """How terminal turns are compared.

    Attributes:
        similarity_threshold: similarity from which commands that were not executed are accepted; None: none is.
        refuse_early: whether a claim of completion where the expert goes on is refused.
        vary: whether commands must have one effect in another copy of the workspace too (`variations.py`).
        limits: of one execution.
    """

    similarity_threshold: float | None = None
    refuse_early: bool = False
    vary: bool = True
    limits: SandboxLimits = field(
        default_factory=lambda: SandboxLimits(cpu_seconds=5, result_bytes=16 * 2**20, result_files=5_000)
    )


class TerminalGrader:
    """Grades terminal turns; executes where rows have workspaces below `workspaces`."""

    name = "terminal"

    def __init__(
        self,
        settings: TerminalSettings | None = None,
        workspaces: Path | None = None,
        cache: VerdictCache | None = None,
    ) -> None:
        """Rows name their workspaces by paths below the folder `workspaces`; None: nothing is executed."""
        self.settings = settings or TerminalSettings()
        self.cache = cache
        self.version = content_id([code_digest(*_CODE), asdict(self.settings), workspaces is not None])
        self._workspaces = RowWorkspaces(workspaces)
        self._scripts = Scripts(self.settings.limits, self.version, cache, self.settings.vary)

    def grade(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        """What there is to know about commands.

        Raises:
            SandboxUnavailableError: the row has a workspace and this machine no sandbox, whatever the action is.
        """
        try:
            workspace = self._workspaces.of(candidate)
        except DataError as error:
            return {**self._grade(candidate, action, None), "workspace": printable(str(error))}
        if workspace is None or self.cache is None:
            return self._grade(candidate, action, workspace)
        key = self.cache.key(candidate, action, self.version, workspace.digest)
        components = self.cache.get(key)
        if components is None:
            components = self._grade(candidate, action, workspace)
            if components["executed"]:
                self.cache.put(key, components)
        return dict(components)

    def decide(self, components: Mapping[str, Json]) -> GradingDecision:
        reason = self._reason(components)
        accepted = reason in (TerminalReason.ACCEPTED, TerminalReason.SAME_EFFECT)
        return GradingDecision(accepted, str(reason), 1.0 if accepted else float(components.get("similarity", 0.0)))

    def undecided(self, components: Mapping[str, Json]) -> bool:
        """Whether commands differ, and no execution says that their effects do."""
        open_reasons = (
            TerminalReason.COMMANDS_DIFFER,
            TerminalReason.EFFECT_UNTOLD,
            TerminalReason.WORKSPACE_UNREADABLE,
        )
        return self._reason(components) in open_reasons

    def _reason(self, found: Mapping[str, Json]) -> TerminalReason:
        if found.get("expected") == "unreadable":
            return TerminalReason.EXPECTED_UNREADABLE
        if not found["parsed"]:
            return TerminalReason.MALFORMED
        if found["complete"] == "missing":
            return TerminalReason.COMPLETION_MISSING
        if found["complete"] == "early" and self.settings.refuse_early:
            return TerminalReason.COMPLETION_EARLY
        if not found["name"]:
            return TerminalReason.TOOL_DIFFERS
        if found["commands"] == "same":
            return TerminalReason.ACCEPTED
        if found["executed"] and found["telling"]:
            return TerminalReason.SAME_EFFECT if found["same_effect"] else TerminalReason.EFFECT_DIFFERS
        threshold = self.settings.similarity_threshold
        if threshold is not None and found["similarity"] >= threshold:
            return TerminalReason.ACCEPTED
        if "workspace" in found:
            return TerminalReason.WORKSPACE_UNREADABLE
        return TerminalReason.EFFECT_UNTOLD if found["executed"] else TerminalReason.COMMANDS_DIFFER

    def _grade(self, candidate: Candidate, action: Action, workspace: Workspace | None) -> dict[str, Json]:
        try:
            harness = harness_of(candidate)
            expected = expert_action(candidate, harness)
        except UnreadableActionError as error:
            return {"parsed": True, "expected": "unreadable", "executed": False, "error": printable(str(error))}
        try:
            actual = read_action(action, harness)
        except UnreadableActionError as error:
            return {"parsed": False, "executed": False, "error": printable(str(error))}
        components = {"parsed": True, "executed": False, **_compare(expected, actual, harness)}
        undecided = components["name"] and components["complete"] != "missing" and components["commands"] != "same"
        if undecided and workspace is not None and _can_run(expected, harness) and _can_run(actual, harness):
            components |= self._scripts.same_effect(candidate, expected.keystrokes, actual.keystrokes, workspace)
        return components


def _compare(expected: TerminalAction, actual: TerminalAction, harness: Harness) -> dict[str, Json]:
    forms = [_form(one.keystrokes) for one in (expected, actual)]
    submitted = [harness is Harness.BASH or one.keystrokes.endswith("\n") for one in (expected, actual)]
    same = forms[0] == forms[1] and submitted[0] == submitted[1]
    return {
        "complete": _completion(expected, actual),
        "name": (expected.tool, expected.settings) == (actual.tool, actual.settings),
        "commands": "same" if same else "differ",
        "similarity": 1.0 if same else _similarity(*forms),
    }


def _completion(expected: TerminalAction, actual: TerminalAction) -> str:
    if expected.complete == actual.complete:
        return "same"
    return "missing" if expected.complete else "early"


def _form(keystrokes: str) -> tuple[str, ...]:
    form = normal_form(keystrokes)
    return (keystrokes,) if form is None else form


def _similarity(first: tuple[str, ...], second: tuple[str, ...]) -> float:
    """Share of characters that stay, in [0, 1], symmetric; 0 for texts too long to compare in reasonable time."""
    texts = [" ".join(form) for form in (first, second)]
    if not all(texts) or max(map(len, texts)) > MAX_CHARACTERS:
        return float(texts[0] == texts[1])
    return float(Indel.normalized_similarity(*texts))


def _can_run(action: TerminalAction, harness: Harness) -> bool:
    """Whether keystrokes are a script: whole lines for a shell, no keys with names (`C-c`), no control characters."""
    text = action.keystrokes
    whole = harness is Harness.BASH or text.endswith("\n")
    typed = all(character in "\n\t" or ord(character) >= 32 for character in text)
    keys = any(line.startswith(("C-", "M-", "^")) and len(line) < 8 for line in text.splitlines())
    return bool(text.strip()) and whole and typed and not keys and is_executable(text)

"""Functional verifier of coding agents' turns: is this call interchangeable with the expert's?

In this order: the decision (call or message), the tool's category, the target (path, lines, sub-command, program), then
what is done. Views are the same where their lines overlap enough; commands where they are one in normal form; edits
where what they write is, but for white space and comments, the same. What differs so far is tried where the row has a
workspace: commands are run, edits applied, and the tests that the row names are run on them. Similarity is a component
and the credit of a refused action, never an acceptance.

Differs from the public verifier of the paper's recipe (NeMo Gym): a similar edit is not accepted (`x = 3` for `x = 2`),
a missing decisive argument is a mismatch, `[n, -1]` reaches to the end of the file, patterns of searches count, and
similarity is symmetric and of whole texts. The paper's own rule, names alone, is the setting `name_only`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from functools import partial
from pathlib import Path

from pivotrl_core.errors import DataError
from pivotrl_core.files import code_digest
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Action, Candidate, Json, ToolCall, content_id
from pivotrl_core.verifiers.decisions import ACCEPTED, ActionKind, expected_kind, kind_of, refused, refused_kind
from pivotrl_core.verifiers.derived_cache import DerivedCache
from pivotrl_core.verifiers.effects import is_executable
from pivotrl_core.verifiers.executions import RowWorkspaces, Scripts
from pivotrl_core.verifiers.matching import matching_steps
from pivotrl_core.verifiers.offers import offered_names, schema_of
from pivotrl_core.verifiers.protocol import GradingDecision, printable
from pivotrl_core.verifiers.sandbox import SandboxLimits
from pivotrl_core.verifiers.settings import SoftwareSettings, VerdictReason
from pivotrl_core.verifiers.software.comparison import SAME, Compared, Expected, compare
from pivotrl_core.verifiers.software.edits import EditError, place_of
from pivotrl_core.verifiers.software.open_file import has_own_shell, open_file, with_path
from pivotrl_core.verifiers.software.searches import as_commands
from pivotrl_core.verifiers.software.steps import Step, read_step
from pivotrl_core.verifiers.software.tools import Category, Operation
from pivotrl_core.verifiers.software.trial import try_command, try_edit
from pivotrl_core.verifiers.software.views import same_view
from pivotrl_core.verifiers.verdict_cache import VerdictCache
from pivotrl_core.verifiers.workspace import NodeKind, Workspace

MAX_CALLS = 16
"""More calls than this in one action are never compared one by one."""
_CODE = (Path(__file__).parent, Path(__file__).parents[1])
"""What verdicts and stored effects come out of."""
_FREE = frozenset({Category.READ, Category.SEARCH, Category.THINK})
"""What may be done in any order."""


class SoftwareReason(StrEnum):
    """Reasons beyond those that all verifiers of actions share."""

    SAME_EFFECT = "same_effect"
    TARGET_DIFFERS = "target_differs"
    EFFECT_DIFFERS = "effect_differs"
    EDIT_FAILS = "edit_fails"


class SoftwareGrader:
    """Grades turns of coding agents; tries edits and commands where rows have workspaces.

    Components of one call: `name`, `target`, `arguments`, `lines` (overlap of views), `similarity`, `difference`; of
    all calls `matching` (pairs of a score and how many calls are the expert's from there on), `calls`,
    `calls_expected`. Tried: `executed`, `same_effect`, and of edits `applied`, `static`, `tests`.
    """

    name = "software"

    def __init__(
        self,
        settings: SoftwareSettings | None = None,
        workspaces: Path | None = None,
        cache: VerdictCache | None = None,
    ) -> None:
        """Rows name their workspaces by paths below the folder `workspaces`; None: nothing is tried."""
        self.settings = settings or SoftwareSettings()
        self.version = content_id([code_digest(*_CODE), asdict(self.settings), workspaces is not None])
        self._workspaces = RowWorkspaces(workspaces)
        self._cache = cache
        seconds = self.settings.test_seconds
        limits = SandboxLimits(wall_seconds=seconds, cpu_seconds=max(1, round(seconds)))
        self._scripts = Scripts(limits, self.version, cache, vary=True)
        self._expected = DerivedCache(_read_expert)

    def grade(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        """What there is to know about a turn.

        Raises:
            SandboxUnavailableError: something would have to be tried and this machine has no sandbox.
        """
        wanted = expected_kind(candidate)
        if action.error:
            return {"parsed": False, "decision": ActionKind.NONE, "expected": wanted, "executed": False,
                    "error": printable(action.error)}  # fmt: skip
        decision = kind_of(action.tool_calls, split_thinking(action.content)[1])
        components: dict[str, Json] = {"parsed": True, "decision": decision, "expected": wanted, "executed": False}
        if decision == wanted == ActionKind.CALL:
            components |= self._grade_calls(candidate, action)
        return components

    def decide(self, components: Mapping[str, Json]) -> GradingDecision:
        expected = components["expected"]
        if not components["parsed"]:
            return refused(VerdictReason.MALFORMED)
        if other := refused_kind(components["decision"], expected):
            return other
        return ACCEPTED if expected == ActionKind.MESSAGE else self._decide_calls(components)

    def _grade_calls(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        wanted, count = len(candidate.expert.tool_calls), len(action.tool_calls)
        several = self._grade_several if wanted != 1 or count != 1 else self._grade_one
        return {**several(candidate, action), "calls": count, "calls_expected": wanted}

    def _grade_one(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        expected, call = self._expected.of(candidate)[0], action.tool_calls[0]
        step = read_step(call, schema_of(call.name, candidate.tools), expected.own_shell)
        found = _compare_calls(expected, call, step)
        tried: dict[str, Json] = {}
        if found.name and found.score < 1.0 and not (step.error or step.missing or expected.step.missing):
            try:
                workspace = self._workspaces.of(candidate)
            except DataError as error:
                workspace, tried = None, {"workspace": printable(str(error))}
            if workspace is not None:
                found = _measured(found, expected.step, step, workspace)
                tried = self._try(candidate, action, expected.step, step, workspace)
        steps = [[found.score, 1]] if found.score else []
        return {**_components(found, step), **tried, "matching": steps}

    def _grade_several(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        expected, actual = self._expected.of(candidate), action.tool_calls[:MAX_CALLS]
        own_shell = any(one.own_shell for one in expected)
        read = [read_step(call, schema_of(call.name, candidate.tools), own_shell) for call in actual]
        steps = matching_steps(_scores(expected, actual, read))
        complete = bool(steps) and steps[-1][1] == len(action.tool_calls) == len(candidate.expert.tool_calls)
        components: dict[str, Json] = {
            "name": sorted(one.step.category for one in expected) == sorted(step.category for step in read),
            "arguments": complete,
            "similarity": steps[-1][0] if complete else 0.0,
            "matching": [list(step) for step in steps],
        }
        broken = next((step.error for step in read if step.error), "")
        return components | ({"parsed": complete, "error": printable(broken)} if broken else {})

    def _decide_calls(self, found: Mapping[str, Json]) -> GradingDecision:
        wanted, count = found["calls_expected"], found["calls"]
        if self.settings.name_only and wanted == count:
            return ACCEPTED if found["name"] else refused(VerdictReason.NAME_DIFFERS)
        if found.get("applied") is False:
            return refused(SoftwareReason.EDIT_FAILS)
        threshold = self.settings.line_overlap
        matched = max((size for score, size in found["matching"] if score >= threshold), default=0)
        if matched == wanted == count:
            return ACCEPTED
        if found.get("same_effect"):
            return GradingDecision(True, SoftwareReason.SAME_EFFECT.value, 1.0)
        if wanted != count:
            return refused(VerdictReason.COUNT_DIFFERS, matched / max(wanted, count))
        if wanted > 1:
            credit = matched / wanted
            return refused(VerdictReason.ARGUMENTS_DIFFER if found["name"] else VerdictReason.NAME_DIFFERS, credit)
        return refused(_reason(found), found["similarity"] if found["target"] else 0.0)

    def _try(
        self,
        candidate: Candidate,
        action: Action,
        expected: Step,
        step: Step,
        workspace: Workspace,
    ) -> dict[str, Json]:
        """What happens to the row's workspace where rules alone do not accept a call."""
        run: Callable[[], Mapping[str, Json]] | None = None
        both = step.category, expected.category
        if step.operation is expected.operation is Operation.RUN:
            commands = expected.command, step.command
            if not (expected.rest or step.rest) and all(map(is_executable, commands)):
                run = partial(self._run, candidate, *commands, workspace)
        elif both == (Category.EDIT, Category.EDIT):
            wanted, found = (with_path(one, open_file(candidate)) for one in (expected, step))
            run = partial(try_edit, candidate, wanted, found, workspace, self._scripts)
        elif both == (Category.SEARCH, Category.SEARCH):
            run = self._search(candidate, action, expected, step, workspace)
        return self._remembered(candidate, action, workspace, run) if run is not None else {}

    def _remembered(
        self, candidate: Candidate, action: Action, workspace: Workspace, run: Callable[[], Mapping[str, Json]]
    ) -> dict[str, Json]:
        if self._cache is None:
            return dict(run())
        key = self._cache.key(candidate, action, self.version, workspace.digest)
        components = self._cache.get(key)
        if components is None:
            components = run()
            if components.get("executed"):
                self._cache.put(key, dict(components))
        return dict(components)

    def _run(self, candidate: Candidate, expected: str, actual: str, workspace: Workspace) -> dict[str, Json]:
        """The effects of two commands; of two that leave other files, whether the row's tests take them for one."""
        found = self._scripts.same_effect(candidate, expected, actual, workspace)
        if found.get("difference") != "files" or found.get("by_chance"):
            return found
        return found | dict(try_command(candidate, expected, actual, workspace, self._scripts))

    def _search(
        self, candidate: Candidate, action: Action, expected: Step, step: Step, workspace: Workspace
    ) -> Callable[[], Mapping[str, Json]] | None:
        """Two searches compared by what they find."""
        state = "\n".join(message.content for message in candidate.state)
        names = candidate.expert.tool_calls[0].name, action.tool_calls[0].name
        commands = as_commands((names[0], expected), (names[1], step), workspace.tree.nodes, state)
        return partial(self._scripts.same_effect, candidate, *commands, workspace) if commands else None


def _reason(found: Mapping[str, Json]) -> VerdictReason | SoftwareReason:
    if not found["name"]:
        return VerdictReason.NAME_DIFFERS
    if found["executed"] and found.get("telling", True):
        return SoftwareReason.EFFECT_DIFFERS
    return VerdictReason.ARGUMENTS_DIFFER if found["target"] else SoftwareReason.TARGET_DIFFERS


def _read_expert(candidate: Candidate) -> tuple[Expected, ...]:
    calls = candidate.expert.tool_calls[:MAX_CALLS]
    offered = offered_names(candidate)
    schemas = [schema_of(call.name, candidate.tools) for call in calls]
    own_shell = has_own_shell(candidate)
    return tuple(
        Expected(call, read_step(call, schema), schema, offered, own_shell)
        for call, schema in zip(calls, schemas, strict=True)
    )


def _compare_calls(expected: Expected, call: ToolCall, step: Step) -> Compared:
    if expected.call.name == call.name and expected.call.arguments == call.arguments:
        return SAME
    return compare(expected, call.name, step)


def _components(found: Compared, step: Step) -> dict[str, Json]:
    components: dict[str, Json] = {
        "category": step.category.value, "name": found.name, "target": found.target, "arguments": found.arguments,
        "lines": found.lines, "similarity": found.similarity, "difference": printable(found.difference),
    }  # fmt: skip
    if step.error:
        components |= {"parsed": found.score == 1.0, "error": printable(step.error)}
    return components


def _scores(expected: Sequence[Expected], actual: Sequence[ToolCall], steps: Sequence[Step]) -> list[list[float]]:
    """How far each call is each of the expert's; where order matters, only those in its place."""
    free = all(one.step.category in _FREE for one in expected)
    return [
        [
            _compare_calls(one, call, step).score if free or row == column else 0.0
            for column, (call, step) in enumerate(zip(actual, steps, strict=False))
        ]
        for row, one in enumerate(expected)
    ]


def _measured(found: Compared, expected: Step, actual: Step, workspace: Workspace) -> Compared:
    """The same with the overlap of two views, where the length of the file decides it."""
    if expected.operation is not Operation.VIEW or not found.target or expected.lines is None or actual.lines is None:
        return found
    nodes = workspace.tree.nodes
    try:
        node = nodes.get(place_of(expected.path, nodes))
    except EditError:
        return found
    if node is None or node.kind is not NodeKind.FILE:
        return found
    text = node.content.decode("utf-8", "replace")
    lines = same_view(text, expected.path, expected.lines, actual.lines)
    return replace(found, lines=lines, similarity=lines)

"""An edit tried on a copy of the row's tree: does it apply, is the file the same, does it parse, do the tests pass?

The tests that a row names (`tests`: a command, or a list of them) say something about an edit only where they fail on
the untouched tree and pass after the expert's edit, and do not themselves lie in the file that is edited. An edit
passes where they end as they do after the expert's: exit status 0 and the same output, times aside, so that code
which ends the test program early does not pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from pivotrl_core.types import Candidate, Json
from pivotrl_core.verifiers.effects import Effect, run_script
from pivotrl_core.verifiers.executions import Scripts
from pivotrl_core.verifiers.row_fields import row_field
from pivotrl_core.verifiers.software.edits import EditError, apply_edit, edited, same_result, static_error
from pivotrl_core.verifiers.software.steps import Step
from pivotrl_core.verifiers.workspace import Workspace, make_workspace


class Tests(StrEnum):
    """What the row's tests said about an edit."""

    __test__ = False  # no test class for pytest

    NONE = "none"  # the row names none, or none that could tell
    UNTELLING = "untelling"  # they pass before the edit, or fail after the expert's
    PASSED = "passed"
    FAILED = "failed"


def try_edit(
    candidate: Candidate, expected: Step, actual: Step, workspace: Workspace, scripts: Scripts
) -> dict[str, Json]:
    """Components of an edit of the expert's target; none where the expert's own edit does not apply to the tree."""
    nodes = workspace.tree.nodes
    try:
        place, wanted = apply_edit(expected, nodes)
    except EditError:
        return {}
    try:
        other, text = apply_edit(actual, nodes)
    except EditError as error:
        return {"applied": False, "error": str(error)}
    if place == other and same_result(place, nodes, wanted, text):
        return {"applied": True, "same_effect": True}
    components: dict[str, Json] = {"applied": True, "same_effect": False}
    error_of_check = static_error(other, text)
    if error_of_check or place != other:
        return {**components, "static": error_of_check} if error_of_check else components
    commands = _commands(row_field(candidate, "tests"), place)
    if not commands:
        return {**components, "tests": Tests.NONE.value}
    script = "\n".join(f"( {command}\n) || exit 1" for command in commands)
    ended = _run_tests(candidate, script, [wanted, text], place, workspace, scripts)
    return {**components, "executed": True, "tests": ended.value, "same_effect": ended is Tests.PASSED}


def _commands(named: Json, place: str) -> list[str]:
    """The test commands of a row; none where they name the edited file, whose author would mark his own work."""
    commands = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    texts = [command for command in commands if isinstance(command, str) and command.strip() and "\0" not in command]
    name = place.rpartition("/")[2]
    return [] if any(name in text for text in texts) else texts


def _run_tests(
    candidate: Candidate,
    script: str,
    texts: Sequence[str | None],
    place: str,
    workspace: Workspace,
    scripts: Scripts,
) -> Tests:
    def run(text: str | None) -> Effect:
        return run_script(script, make_workspace(edited(workspace.tree.nodes, place, text)), scripts.limits)

    before = scripts.remembered(
        candidate, "tests before", workspace, lambda: run_script(script, workspace, scripts.limits)
    )
    expected = scripts.remembered(candidate, "tests after", workspace, lambda: run(texts[0]))
    if before.status == 0 or before.cut or expected.status != 0 or not expected.telling:
        return Tests.UNTELLING
    found = run(texts[1])
    return Tests.PASSED if found.status == 0 and found.output == expected.output and not found.cut else Tests.FAILED

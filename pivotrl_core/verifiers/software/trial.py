"""An edit tried on a copy of the row's tree: does it apply, is the file the same, does it parse, do the tests pass?

The tests that a row names (`tests`: a command, or a list of them) say something about an edit only where they fail on
the untouched tree and pass after the expert's edit, and do not themselves lie in the file that is edited. An edit
passes where they end as they do after the expert's: exit status 0 and the same output, times aside, so that code
which ends the test program early does not pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from pivotrl_core.types import Candidate, Json
from pivotrl_core.verifiers.effects import Effect, Left, run_script, tree_after
from pivotrl_core.verifiers.executions import Scripts
from pivotrl_core.verifiers.row_fields import row_field
from pivotrl_core.verifiers.software.edits import EditError, Nodes, apply_edit, edited, same_result, static_error
from pivotrl_core.verifiers.software.source import is_source
from pivotrl_core.verifiers.software.steps import Step
from pivotrl_core.verifiers.workspace import Node, NodeKind, Workspace, make_workspace

Components = Mapping[str, Json]


class Tests(StrEnum):
    """What the row's tests said about an edit."""

    __test__ = False  # no test class for pytest

    NONE = "none"  # the row names none, or none that could tell
    UNTELLING = "untelling"  # they pass before the edit, or fail after the expert's
    PASSED = "passed"
    FAILED = "failed"


def try_edit(candidate: Candidate, expected: Step, actual: Step, workspace: Workspace, scripts: Scripts) -> Components:
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
    trees = [edited(nodes, place, one) for one in (wanted, text)]
    return {**components, **_tested(candidate, [place], trees, workspace, scripts)}


def try_command(candidate: Candidate, expected: str, actual: str, workspace: Workspace, scripts: Scripts) -> Components:
    """Components of a command that changes files other than as the expert's does: of an edit by a program.

    None where the two do not change the same files, those that differ are no source, or what they print differs.
    """
    wanted, found = (tree_after(command, workspace, scripts.limits) for command in (expected, actual))
    if wanted is None or found is None or wanted.changed != found.changed:
        return {}
    if (wanted.output, wanted.outside) != (found.output, found.outside) or _permissions(wanted) != _permissions(found):
        return {}
    other = sorted(path for path in wanted.changed if wanted.nodes.get(path) != found.nodes.get(path))
    texts = [[_text(one.nodes.get(path)) for one in (wanted, found)] for path in other]
    if not other or any(text is None for both in texts for text in both):
        return {}
    if not all(map(is_source, other)):  # what white space says in other files is not known
        return {}
    if all(same_result(path, workspace.tree.nodes, *both) for path, both in zip(other, texts, strict=True)):
        return {"same_effect": True}
    errors = [error for path, (_, text) in zip(other, texts, strict=True) if (error := static_error(path, text))]
    if errors:
        return {"static": errors[0]}
    return _tested(candidate, sorted(wanted.changed), (wanted.nodes, found.nodes), workspace, scripts)


def _permissions(left: Left) -> list[tuple[str, int]]:
    return [(path, left.nodes[path].permissions) for path in sorted(left.changed) if path in left.nodes]


def _text(node: Node | None) -> str | None:
    """The text of a file; None for all else."""
    if node is None or node.kind is not NodeKind.FILE:
        return None
    try:
        return node.content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _tested(
    candidate: Candidate, places: Sequence[str], trees: Sequence[Nodes], workspace: Workspace, scripts: Scripts
) -> Components:
    """What the row's tests say of the second of two trees, in which files at `places` are edited."""
    commands = _commands(row_field(candidate, "tests"), places)
    if not commands:
        return {"tests": Tests.NONE.value}
    script = "\n".join(f"( {command}\n) || exit 1" for command in commands)
    ended = _run_tests(candidate, script, trees, workspace, scripts)
    return {"executed": True, "tests": ended.value, "same_effect": ended is Tests.PASSED}


def _commands(named: Json, places: Sequence[str]) -> list[str]:
    """The test commands of a row; none where they name an edited file, whose author would mark his own work."""
    commands = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    texts = [command for command in commands if isinstance(command, str) and command.strip() and "\0" not in command]
    names = [place.rpartition("/")[2] for place in places]
    return [] if any(name in text for text in texts for name in names) else texts


def _run_tests(
    candidate: Candidate, script: str, trees: Sequence[Nodes], workspace: Workspace, scripts: Scripts
) -> Tests:
    def run(nodes: Nodes) -> Effect:
        return run_script(script, make_workspace(nodes), scripts.limits)

    before = scripts.remembered(
        candidate, "tests before", workspace, lambda: run_script(script, workspace, scripts.limits)
    )
    expected = scripts.remembered(candidate, "tests after", workspace, lambda: run(trees[0]))
    if before.status == 0 or before.cut or expected.status != 0 or not expected.telling:
        return Tests.UNTELLING
    found = run(trees[1])
    return Tests.PASSED if found.status == 0 and found.output == expected.output and not found.cut else Tests.FAILED

"""DVC does not follow imports: every stage's dependencies must hold all the modules that its program can reach."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "pivotrl_core"
DOTTED = re.compile(rf"{PACKAGE}(\.\w+)+")
PIPELINE: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
# `pull` is frozen, and no stage module: its program lives in tasks/.
STAGES = [name for name in PIPELINE if name != "pull"]


def file_of(module: str) -> Path | None:
    """The file of a module, or None where there is none of that name."""
    path = ROOT.joinpath(*module.split("."))
    found = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    return found if found.is_file() else None


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that may run: imports inside of functions too, those for type checkers alone not."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.orelse:
            yield from run_time_nodes(child)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from run_time_nodes(child)


def names_in(node: ast.AST) -> list[str]:
    """Dotted names that a node imports. Text that is a module's name counts: a registry may import it later."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports would escape this test"
        return [node.module or "", *[f"{node.module}.{alias.name}" for alias in node.names]]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = DOTTED.match(node.value)
        return [found[0]] if found else []
    return []


@cache
def imports_of(module: str) -> frozenset[str]:
    """Modules of the library that a module may import, with the packages that they lie in."""
    path = file_of(module)
    assert path is not None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in run_time_nodes(tree):
        for name in names_in(node):
            parts = name.split(".")
            if parts[0] == PACKAGE:
                found |= {".".join(parts[: end + 1]) for end in range(len(parts))}
    return frozenset(name for name in found if file_of(name) is not None)


def closure(module: str) -> set[str]:
    """Every module that can be loaded from this one."""
    reached: set[str] = set()
    queue = [module]
    while queue:
        one = queue.pop()
        if one not in reached:
            reached.add(one)
            queue.extend(imports_of(one))
    return reached


def dependencies(stage: str) -> list[Path]:
    """Files and folders of the library that dvc.yaml lists for a stage."""
    body = PIPELINE[stage].get("do", PIPELINE[stage])
    return [ROOT / dep for dep in body["deps"] if str(dep).startswith(PACKAGE)]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_every_module_that_it_can_load(stage: str) -> None:
    listed = dependencies(stage)
    files = {path for module in closure(f"{PACKAGE}.stages.{stage}") if (path := file_of(module)) is not None}
    missing = sorted(
        path.relative_to(ROOT).as_posix()
        for path in files
        if not any(path == dep or dep in path.parents for dep in listed)
    )
    assert missing == [], f"add these to the deps of '{stage}' in dvc.yaml"


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_stage_depends_on_exists_and_is_of_use(stage: str) -> None:
    files = {path for module in closure(f"{PACKAGE}.stages.{stage}") if (path := file_of(module)) is not None}
    for dep in dependencies(stage):
        assert dep.exists(), dep
        assert any(path == dep or dep in path.parents for path in files), f"{stage} loads nothing of {dep}"


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_the_dependency_lock(stage: str) -> None:
    body = PIPELINE[stage].get("do", PIPELINE[stage])
    assert "requirements/core.lock" in body["deps"]


def test_the_walk_sees_what_it_should() -> None:
    reached = closure(f"{PACKAGE}.stages.train")
    assert {"pivotrl_core.grpo.loss", "pivotrl_core.engines.branches", "pivotrl_core", "pivotrl_core.grpo"} <= reached
    assert "pivotrl_core.environments.helpdesk.domain" in reached  # by its name in a registry
    assert "pivotrl_core.engines.bundled" in closure(f"{PACKAGE}.stages.warmup")  # inside a function
    assert not any(module.startswith(("pivotrl_core.training", "pivotrl_core.evaluation"))
                   for module in closure(f"{PACKAGE}.stages.select"))  # fmt: skip

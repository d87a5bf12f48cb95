"""Imports are lazy where people wait, and modules stay of a size that can be read."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = [path for folder in ("flows", "tasks", "pivotrl_core", "infra") for path in (ROOT / folder).rglob("*.py")]
MODULE_LINES, FUNCTION_LINES = 450, 50
HEAVY = ("torch", "transformers", "prefect", "mlflow", "dvc", "pandas", "numpy", "peft", "boto3")
WITHOUT_TORCH = (
    "pivotrl_core.config", "pivotrl_core.config.graph", "pivotrl_core.types", "pivotrl_core.errors",
    "pivotrl_core.seeding", "pivotrl_core.files", "pivotrl_core.pivots.selection", "pivotrl_core.pivots.candidates",
    "pivotrl_core.pivots.pool", "pivotrl_core.evaluation.statistics", "pivotrl_core.evaluation.comparison",
    "pivotrl_core.verifiers.registry", "pivotrl_core.grpo", "pivotrl_core.grpo.choices", "pivotrl_core.stages",
)  # fmt: skip


def loaded(program: str, names: tuple[str, ...]) -> str:
    """Which of some modules a fresh interpreter holds after a program."""
    text = f"{program}\nimport sys\nprint([name for name in {names!r} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
    return answer.stdout.strip()


@pytest.mark.parametrize("module", ["pivotrl_core", "flows.cli"])
def test_an_import_loads_nothing_heavy(module: str) -> None:
    assert loaded(f"import {module}", HEAVY) == "[]"


def test_what_needs_no_torch_loads_none() -> None:
    readers = sorted(path.stem for path in (ROOT / "pivotrl_core/trajectories").glob("*.py") if path.stem != "__init__")
    modules = [*WITHOUT_TORCH, *(f"pivotrl_core.trajectories.{name}" for name in readers)]
    program = "\n".join(f"import {module}" for module in modules)
    assert loaded(program, ("torch", "transformers", "peft")) == "[]"


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_module_says_what_it_is() -> None:
    silent = [name_of(p) for p in PRODUCT if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))]
    assert silent == []


def test_every_folder_of_modules_is_a_package_that_says_what_it_is() -> None:
    folders = {path.parent for path in PRODUCT if "infra" not in path.parts and "data" not in path.parent.parts}
    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_no_module_is_too_long_to_read() -> None:
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PRODUCT}
    assert {name: length for name, length in lengths.items() if length > MODULE_LINES} == {}


def test_no_function_is_too_long_to_read() -> None:
    long = {}
    for path in PRODUCT:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    long[f"{name_of(path)}:{node.name}"] = lines
    assert long == {}

"""Every tensor that meets a model is made on the model's device: no CUDA is needed to see where that is forgotten."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "pivotrl_core"
MODULES = [
    *sorted((CORE / "engines").glob("*.py")), *sorted((CORE / "grpo").glob("*.py")),
    *sorted((CORE / "training").glob("*.py")), CORE / "evaluation" / "drift.py",
]  # fmt: skip
MAKERS = {"tensor", "zeros", "ones", "full", "empty", "eye", "arange", "rand", "randn", "linspace"}
# Bookkeeping over a whole batch, which stays on the CPU; rows are moved when they are built.
ON_THE_CPU = {
    "build_tree_row", "build_padded_row", "target_columns", "train_step", "_metrics_of_samples", "sample_divergence",
    "accumulate_gradient",
}  # fmt: skip


def homeless(text: str) -> list[str]:
    """`function:line` of every tensor that is made without a device."""
    found = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef) or function.name in ON_THE_CPU:
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in MAKERS:
                of_torch = isinstance(call.func.value, ast.Name) and call.func.value.id == "torch"
                if of_torch and "device" not in {keyword.arg for keyword in call.keywords}:
                    found.append(f"{function.name}:{call.lineno}")
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_tensor_is_made_without_a_device(path: Path) -> None:
    assert homeless(path.read_text(encoding="utf-8")) == []


def test_a_tensor_without_a_device_is_found() -> None:
    assert homeless("import torch\ndef f(x):\n    return torch.zeros(3) + torch.ones(3, device=x.device)\n") == ["f:3"]

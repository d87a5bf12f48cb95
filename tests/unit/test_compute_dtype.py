"""`compute.dtype: auto`: what models compute in depends on what the processor multiplies."""

from __future__ import annotations

import pytest
import torch

from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.model import compute_dtype, torch_dtype


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ({"avx2": True, "avx512_bf16": False}, "float32"),
        ({"avx512_bf16": True}, "bfloat16"),
        ({"amx_bf16": True}, "bfloat16"),
        ({"neon": True, "bf16": True}, "bfloat16"),
        ({}, "float32"),
    ],
)
def test_auto_is_what_the_processor_multiplies(
    instructions: dict[str, bool], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    assert compute_dtype(ComputeConfig()) == expected
    assert torch_dtype(ComputeConfig()) is getattr(torch, expected)


def test_a_named_dtype_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    assert compute_dtype(ComputeConfig(dtype="bfloat16")) == "bfloat16"


def test_a_gpu_computes_in_bfloat16() -> None:
    assert compute_dtype(ComputeConfig(device="cuda")) == "bfloat16"

"""Layers with written-out gradients are those of transformers: the same bits forward, the same gradients backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor

from pivotrl_core.training import fused
from pivotrl_core.training.fused import LoRALinear, RMSNorm, SwiGLU, fuse_adapters, fuse_layers
from tests.tiny_models import LAYERS, tiny_model

pytestmark = pytest.mark.usefixtures("deterministic")

IDS = torch.arange(2, 302).view(3, 100)


def states_and_gradients(model: Any) -> tuple[Tensor, dict[str, Tensor]]:
    hidden = model.model(input_ids=IDS, use_cache=False).last_hidden_state
    weights = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(1)).to(hidden.dtype) / 30
    (hidden * weights).sum().backward()
    return hidden.detach(), {n: p.grad.float() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("block", [100, 2**17], ids=["many blocks", "one block"])
@pytest.mark.parametrize(("kind", "per_layer"), [("llama", 3), ("qwen3", 5), ("qwen3_moe", 4)])
def test_a_fused_model_is_the_model(kind: str, per_layer: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "BLOCK", block)
    expected_states, expected = states_and_gradients(tiny_model(kind))
    model = tiny_model(kind)
    assert fuse_layers(model) == per_layer * LAYERS + 1  # norms and MLPs of each layer, and the last norm
    states, gradients = states_and_gradients(model)
    assert torch.equal(states, expected_states)
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


def test_in_half_precision_gradients_are_as_near_to_full_ones() -> None:
    _, exact = states_and_gradients(tiny_model("llama"))
    plain_states, plain = states_and_gradients(tiny_model("llama").bfloat16())
    model = tiny_model("llama").bfloat16()
    fuse_layers(model)
    states, gradients = states_and_gradients(model)
    assert torch.equal(states, plain_states)
    error, usual = (sum(float((g[n] - exact[n]).abs().sum()) for n in exact) for g in (gradients, plain))
    assert error < 1.05 * usual


@pytest.mark.parametrize("shape", [(7, 6), (2, 3, 5)])
def test_gradients_equal_finite_differences(shape: tuple[int, ...]) -> None:
    draw = torch.Generator().manual_seed(2)
    x, up, weight = (
        torch.randn(size, dtype=torch.float64, generator=draw, requires_grad=True)
        for size in (shape, shape, shape[-1:])
    )
    assert torch.autograd.gradcheck(SwiGLU.apply, (x, up))
    # The norm itself is computed in fp32, too coarse for differences: here against the formula, by autograd, in fp64.
    (RMSNorm.apply(x.float(), weight.float(), 1e-5) * up.float()).sum().backward()  # type: ignore[no-untyped-call]
    found = [x.grad, weight.grad]
    x.grad = weight.grad = None
    (weight * x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * up).sum().backward()
    for one, other in zip(found, [x.grad, weight.grad], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_norm_of_another_memory_layout_is_the_same() -> None:
    x = torch.randn(4, 5, 8, generator=torch.Generator().manual_seed(3))
    weight = torch.full((8,), 2.0)
    turned = x.transpose(0, 1).contiguous().transpose(0, 1)
    assert torch.equal(RMSNorm.apply(turned, weight, 1e-5), RMSNorm.apply(x, weight, 1e-5))  # type: ignore[no-untyped-call]


def test_the_backward_pass_leaves_its_inputs_alone() -> None:
    draw = torch.Generator().manual_seed(4)
    x, up, grad = (torch.randn(6, 8, generator=draw, requires_grad=True) for _ in range(3))
    weight = torch.full((8,), 2.0, requires_grad=True)
    before = [one.detach().clone() for one in (x, up, grad)]
    outputs = [RMSNorm.apply(x, weight, 1e-5), SwiGLU.apply(x, up)]  # type: ignore[no-untyped-call]
    for output in outputs:
        output.backward(grad.detach())
    for one, old in zip((x, up, grad), before, strict=True):
        assert torch.equal(one, old)


def test_layers_of_other_kinds_stay_as_they_are() -> None:
    class GemmaRMSNorm(torch.nn.Module):
        """Multiplies by 1 + w."""

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), GemmaRMSNorm())
    assert fuse_layers(model) == 0


def adapted(kind: str, dtype: torch.dtype, fuse: bool) -> Any:
    """A tiny model with an adapter of random factors beside every linear layer."""
    torch.manual_seed(3)
    settings = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", lora_dropout=0.0, init_lora_weights=False)
    model = get_peft_model(tiny_model(kind), settings, autocast_adapter_dtype=False).to(dtype)
    assert not fuse or fuse_adapters(model) == sum(name.endswith("lora_A") for name, _ in model.named_modules())
    return model


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_fused_adapters_are_those_of_peft(kind: str) -> None:
    plain, fused_model = (adapted(kind, torch.float32, fuse) for fuse in (False, True))
    expected_states, expected = states_and_gradients(plain.get_base_model())
    states, gradients = states_and_gradients(fused_model.get_base_model())
    torch.testing.assert_close(states, expected_states, rtol=1e-5, atol=1e-5)
    assert gradients.keys() == expected.keys()
    assert all("lora" in name for name in gradients)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    # Without gradients, and without the adapter, it is PEFT's computation, to the bit.
    for model in (plain, fused_model):
        model.eval()
    with torch.no_grad():
        assert torch.equal(*(model(IDS).logits for model in (plain, fused_model)))
    with plain.disable_adapter(), fused_model.disable_adapter():
        assert torch.equal(*(model(IDS).logits for model in (plain, fused_model)))


def test_in_half_precision_gradients_of_factors_are_as_near_to_full_ones() -> None:
    sides = [
        states_and_gradients(adapted("llama", dtype, fuse).get_base_model())[1]
        for dtype, fuse in ((torch.float32, False), (torch.bfloat16, False), (torch.bfloat16, True))
    ]
    exact = sides[0]
    usual, error = (sum(float((side[n] - exact[n]).abs().sum()) for n in exact) for side in sides[1:])
    assert error < 1.05 * usual


def test_gradients_of_an_adapted_layer_equal_finite_differences() -> None:
    draw = torch.Generator().manual_seed(4)
    x, weight, bias, down, up = (
        torch.randn(size, dtype=torch.float64, generator=draw) for size in ((2, 3, 5), (6, 5), (6,), (2, 5), (6, 2))
    )
    for tensor in (x, down, up):
        tensor.requires_grad_()
    for own_bias in (bias, None):
        assert torch.autograd.gradcheck(LoRALinear.apply, (x, weight, own_bias, down, up, 1.7))

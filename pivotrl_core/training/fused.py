"""RMSNorm, SwiGLU and LoRA with gradients written out: less memory kept for the backward pass, and fewer passes.

Autograd keeps every intermediate of these (two copies of a norm's input, the activation beside the gate) and walks
through memory once for each. Here the backward pass computes them again, in blocks of rows that stay in the cache. The
forward pass of norms and gates is that of transformers to the bit; the gradient is its gradient, with sums in fp32.
Around an adapter PEFT scales and adds arrays as wide as the layer, both ways; here that is part of a product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear, silu

BLOCK = 2**17  # numbers of a block on a CPU: half a MiB in fp32
LARGE_BLOCK = 2**26  # elsewhere, where every block is some launches of a kernel: what 256 MiB hold in fp32
NORMS = ("LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm", "Qwen3MoeRMSNorm")
GATED = ("LlamaMLP", "MistralMLP", "Qwen2MLP", "Qwen3MLP")


def fuse_layers(model: Any) -> int:
    """Let the layers of a model that are of a known kind compute by these functions; returns how many do."""
    fused = 0
    for module in model.modules():
        kind = type(module).__name__
        if kind in NORMS:
            module.forward = partial(_norm, module)
        elif kind in GATED and module.config.hidden_act == "silu":
            module.forward = partial(_gated, module)
        else:
            continue
        fused += 1
    return fused


def fuse_adapters(model: Any) -> int:
    """The same for linear layers with one plain LoRA adapter, where gradients are kept; returns how many there are."""
    layers = [module for module in model.modules() if _has_plain_adapter(module)]
    for layer in layers:
        layer.forward = partial(_adapted, layer, layer.forward)
    return len(layers)


def _has_plain_adapter(module: Any) -> bool:
    names = getattr(module, "active_adapters", None)
    if not hasattr(module, "lora_A") or names is None or len(names) != 1 or module.use_dora.get(names[0]):
        return False
    whole = type(module.base_layer) is torch.nn.Linear and module.lora_B[names[0]].bias is None
    return whole and type(module.lora_dropout[names[0]]) is torch.nn.Identity


def _adapted(module: Any, unfused: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
    # Without gradients nothing is gained, and sampling and the reference policy have ways of their own.
    if module.disable_adapters or module.merged or not torch.is_grad_enabled():
        return unfused(hidden)
    (name,) = module.active_adapters
    down, up = module.lora_A[name].weight, module.lora_B[name].weight
    base = module.base_layer
    adapted: Tensor = LoRALinear.apply(hidden, base.weight, base.bias, down, up, module.scaling[name])  # type: ignore[no-untyped-call]
    return adapted


def _norm(module: Any, hidden: Tensor) -> Tensor:
    normed: Tensor = RMSNorm.apply(hidden, module.weight, module.variance_epsilon)  # type: ignore[no-untyped-call]
    return normed


def _gated(module: Any, hidden: Tensor) -> Tensor:
    product = SwiGLU.apply(module.gate_proj(hidden), module.up_proj(hidden))  # type: ignore[no-untyped-call]
    down: Tensor = module.down_proj(product)
    return down


class RMSNorm(torch.autograd.Function):
    """y = w * (x r), r = 1 / sqrt(mean(x^2) + eps), over the last dimension; r in fp32, x r rounded to x's dtype."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_D: Tensor, eps: float) -> Tensor:
        x = x.contiguous()
        output, scale_N1 = torch.empty_like(x), x.new_empty(x.numel() // x.shape[-1], 1, dtype=torch.float32)
        x_ND, y_ND = x.reshape(-1, x.shape[-1]), output.view(-1, x.shape[-1])
        for part in _blocks(x_ND):
            wide_ND = x_ND[part].float()
            scale_N1[part] = torch.rsqrt(wide_ND.pow(2).mean(-1, keepdim=True) + eps)
            torch.mul(weight_D, (wide_ND * scale_N1[part]).to(x.dtype), out=y_ND[part])
        ctx.save_for_backward(x, weight_D, scale_N1)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, Tensor | None, None]:
        """With n = x r and g the gradient of n: that of x is r (g - n mean(g n)), that of w the sum of gy n."""
        x, weight_D, scale_N1 = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_w_D = torch.zeros_like(weight_D, dtype=torch.float32)
        wide_w_D = weight_D.float()
        size = x.shape[-1]
        x_ND, grad_y_ND, grad_x_ND = x.reshape(-1, size), grads[0].reshape(-1, size), grad_x.view(-1, size)
        for part in _blocks(x_ND):
            grad_ND = grad_y_ND[part].float()
            unit_ND = x_ND[part].float() * scale_N1[part]
            if ctx.needs_input_grad[1]:
                grad_w_D += (grad_ND * unit_ND.to(x.dtype)).sum(0)
            grad_ND = grad_ND * wide_w_D
            shared_N1 = torch.linalg.vecdot(grad_ND, unit_ND)[:, None] / size
            grad_x_ND[part] = grad_ND.sub_(unit_ND.mul_(shared_N1)).mul_(scale_N1[part])
        return grad_x, grad_w_D.to(weight_D.dtype) if ctx.needs_input_grad[1] else None, None


class SwiGLU(torch.autograd.Function):
    """silu(gate) * up."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        output = torch.empty_like(gate)
        gate_ND, up_ND, out_ND = (one.view(-1, gate.shape[-1]) for one in (gate, up, output))
        for part in _blocks(gate_ND):
            torch.mul(silu(gate_ND[part]), up_ND[part], out=out_ND[part])
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        grad_gate, grad_up = torch.empty_like(gate), torch.empty_like(up)
        tensors = (gate, up, grads[0].contiguous(), grad_gate, grad_up)
        gate_ND, up_ND, grad_ND, grad_gate_ND, grad_up_ND = (one.view(-1, gate.shape[-1]) for one in tensors)
        for part in _blocks(gate_ND):
            torch.mul(grad_ND[part], silu(gate_ND[part]), out=grad_up_ND[part])
            grad_gate_ND[part] = torch.ops.aten.silu_backward(grad_ND[part] * up_ND[part], gate_ND[part])
        return grad_gate, grad_up


class LoRALinear(torch.autograd.Function):
    """y = x W^T + b + s (x A^T) B^T, with a frozen W and b."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight_OI: Tensor, bias_O: Tensor | None, down_RI: Tensor, up_OR: Tensor, scale: float
    ) -> Tensor:
        x_NI = x.reshape(-1, x.shape[-1])
        inner_NR = x_NI @ down_RI.T
        output_NO = linear(x_NI, weight_OI, bias_O).addmm_(inner_NR, up_OR.T, alpha=scale)
        ctx.save_for_backward(x, inner_NR, weight_OI, down_RI, up_OR)
        ctx.scale = scale
        return output_NO.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, None, None, Tensor, Tensor, None]:
        """With g the gradient of y and h = s g B: that of x is g W + h A, that of A is h^T x, of B s g^T (x A^T)."""
        x, inner_NR, weight_OI, down_RI, up_OR = ctx.saved_tensors
        grad_NO = grads[0].reshape(-1, weight_OI.shape[0])
        inner_grad_NR = (grad_NO @ up_OR).mul_(ctx.scale)
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = (grad_NO @ weight_OI).addmm_(inner_grad_NR, down_RI).view(x.shape)
        grad_up_OR = (grad_NO.T @ inner_NR).mul_(ctx.scale)
        return grad_x, None, None, inner_grad_NR.T @ x.reshape(-1, x.shape[-1]), grad_up_OR, None


def _blocks(rows_ND: Tensor) -> Iterator[slice]:
    count, size = rows_ND.shape
    step = max(1, (BLOCK if rows_ND.device.type == "cpu" else LARGE_BLOCK) // size)
    return (slice(start, start + step) for start in range(0, count, step))

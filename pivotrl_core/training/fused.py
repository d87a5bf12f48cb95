"""RMSNorm and SwiGLU with their gradients written out: less memory kept for the backward pass, and fewer passes.

Autograd keeps every intermediate of these (two copies of a norm's input, the activation beside the gate) and walks
through memory once for each. Here the backward pass computes them again, in blocks of rows that stay in the cache. The
forward pass is that of transformers to the bit; the gradient is its gradient, with sums in fp32.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import silu

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


def _blocks(rows_ND: Tensor) -> Iterator[slice]:
    count, size = rows_ND.shape
    step = max(1, (BLOCK if rows_ND.device.type == "cpu" else LARGE_BLOCK) // size)
    return (slice(start, start + step) for start in range(0, count, step))

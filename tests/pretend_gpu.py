"""A device called cuda that computes on the processor, and refuses what a GPU refuses: operands on two devices.

It shows that code puts its tensors where the model is. It does not show that a kernel exists on a GPU, nor how fast
one is. What it lets pass is what torch lets pass there: numbers, tensors without dimensions, indices, and copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

CUDA = torch.device("cuda", 0)
aten = torch.ops.aten
MIXED = {aten.copy_.default, aten._to_copy.default, aten.index.Tensor, aten.index_put.default, aten.index_put_.default,
         aten._index_put_impl_.default, aten._unsafe_index.Tensor}  # fmt: skip


class OnGPU(Tensor):
    """A tensor that says it is on the GPU; `inner` holds its numbers."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> OnGPU:
        made: OnGPU = Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype
        )
        made.inner = inner
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def device(self) -> torch.device:
        return CUDA

    @property
    def is_cuda(self) -> bool:
        return True

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(parts: Mapping[str, Tensor], _meta: None, _size: Any, _stride: Any) -> OnGPU:
        return OnGPU(parts["inner"])

    def tolist(self) -> Any:
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        operands = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, Tensor)]
        if func not in MIXED and any(not isinstance(one, OnGPU) and one.dim() for one in operands):
            raise RuntimeError(
                f"expected all tensors to be on the same device, but {func} has some on cuda, some on cpu"
            )
        kwargs.pop(
            "device", None
        )  # below Python a tensor is the processor's, and gradients of casts ask for that again
        found = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))
        written = _written(func, args, kwargs)
        if written is not None:
            return written
        return tree_map(_wrapped, found)


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The operand that an operation writes to and gives back."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write and len(func._schema.returns) == 1:
            return args[place] if place < len(args) else kwargs[argument.name]
    return None


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, OnGPU) else value


def _wrapped(value: Any) -> Any:
    return OnGPU(value) if isinstance(value, Tensor) and not isinstance(value, OnGPU) else value


class PretendGPU(TorchFunctionMode):
    """Inside of the block there is such a device."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if func in (Tensor.to, Tensor.cpu, Tensor.cuda):
            return self._move(func, args, given)
        if _is_cuda(given.get("device")):
            given["device"] = "cpu"
            return tree_map(_wrapped, func(*args, **given))
        found = func(*args, **given)
        return tree_map(_inner, found) if _is_place(given.get("device")) else found

    def _move(self, func: Callable[..., Any], args: Sequence[Any], given: dict[str, Any]) -> Any:
        tensor, *asked = args
        asked = [*asked, *given.values()]
        asked += [part for one in asked if isinstance(one, Tensor) for part in (one.device, one.dtype)]  # to(another)
        places = [one for one in asked if _is_place(one)]
        dtype = next((one for one in asked if isinstance(one, torch.dtype)), tensor.dtype)
        if (func is Tensor.cuda or any(map(_is_cuda, places))) and not isinstance(tensor, OnGPU):
            tensor = OnGPU(tensor.detach())
        elif (func is Tensor.cpu or (places and not any(map(_is_cuda, places)))) and isinstance(tensor, OnGPU):
            tensor = tensor.inner.detach()
        return Tensor.to(tensor, dtype, copy=given.get("copy", False))


def _is_place(value: Any) -> bool:
    return isinstance(value, torch.device) or (isinstance(value, str) and value.partition(":")[0] in ("cpu", "cuda"))


def _is_cuda(value: Any) -> bool:
    return _is_place(value) and torch.device(value).type == "cuda"

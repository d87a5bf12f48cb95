"""A policy divided over ranks: FSDP2 (`torch.distributed.fsdp.fully_shard`) around each layer and around the rest.

A rank keeps its part of every fp32 master, its gradient and its moments. With a gradient, a layer's weights are
gathered for its forward pass and again for its backward pass, in the dtype that models compute in; gradients are summed
over ranks in fp32. Without a gradient (sampling, scoring), all weights are gathered once and each rank computes as much
or as little as it has to: no rank waits for another there.

Invariants: gradients are sums, never means over ranks, so that weights of the whole batch (`grpo/weights.py`) give the
gradient of one process; all ranks compute as many rows with a gradient, if need be some that count nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.tensor import DTensor, distribute_tensor

from pivotrl_core.config.arms import Parameters
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.adapters import inner_model
from pivotrl_core.engines.model import load_policy, torch_dtype
from pivotrl_core.grpo.choices import BatchLayout
from pivotrl_core.grpo.layouts import Row, build_row, row_attention
from pivotrl_core.grpo.prefix_tree import TargetSequence
from pivotrl_core.lanes import Lanes
from pivotrl_core.training.lead import Lead
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.ranks import Ranks
from pivotrl_core.training.recomputing import layers_of
from pivotrl_core.training.saving import save_adapter, save_model
from pivotrl_core.training.scoring import score_row


class ShardedModel:
    """A causal language model, divided in place over the ranks of a mesh."""

    def __init__(self, model: Any, mesh: DeviceMesh, compute: ComputeConfig, layout: BatchLayout) -> None:
        self.model = model
        self.layout = layout
        self._names = tuple(model.state_dict())
        # Scoring begins at the backbone; under this name it counts as a forward pass of the whole model.
        model.score = partial(score_row, model)
        precision = MixedPrecisionPolicy(torch_dtype(compute), torch.float32, cast_forward_inputs=False)
        offload = CPUOffloadPolicy(pin_memory=compute.device == "cuda") if compute.offload else OffloadPolicy()
        for module in (*layers_of(model), model):
            for parameter in module.parameters():
                if parameter.requires_grad and not isinstance(parameter, DTensor):
                    parameter.data = parameter.data.float()  # a layer at a time: it is divided before the next one
            fully_shard(module, mesh=mesh, mp_policy=precision, offload_policy=offload)
        register_fsdp_forward_method(model, "score")
        for module in self._modules():
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
            # Experts that the tokens of one rank chose, and those of another did not, are reduced on both.
            module.set_reduce_scatter_unused_params(True)
        self._idle = build_row([TargetSequence((0, 0), (1,))], layout).to(torch.device(compute.device))
        with torch.no_grad():
            self.idle()  # by its first forward pass FSDP learns which module is the whole
        model.reset_iter_state()  # a backward pass, which gives all weights up again, does not follow

    def _modules(self) -> list[FSDPModule]:
        return [module for module in self.model.modules() if isinstance(module, FSDPModule)]

    def idle(self) -> Tensor:
        """A forward pass that stands for a row; 0, to be differentiated where the row would be."""
        with row_attention(self.model, self.layout):
            logprobs_NT, _ = self.model.score(self._idle)
        nothing: Tensor = logprobs_NT.sum() * 0.0
        return nothing

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """All weights on every rank, in the dtype that computes; nothing inside the block waits for other ranks."""
        self._let_go(layers=False)
        for module in self._modules():
            module.unshard()
        try:
            yield
        finally:
            self._let_go(layers=True)
            # FSDP notes forward passes for the backward pass that it expects, and ranks had different numbers of them.
            self.model.reset_iter_state()

    def _let_go(self, *, layers: bool) -> None:
        """Whether layers give up gathered weights after a forward pass; what is around them never does."""
        self.model.set_reshard_after_forward(layers)
        self.model.set_reshard_after_forward(False, recurse=False)

    def weights(self) -> dict[str, Tensor]:
        """The model's state as it computes, inside of `gathered()`; tied weights are one tensor."""
        tensors = dict(self.model.named_parameters(remove_duplicate=False))
        tensors |= dict(self.model.named_buffers(remove_duplicate=False))
        return {name: tensors[name].detach() for name in self._names}


class ShardedPolicy(TrainablePolicy):
    """A `TrainablePolicy` of which each rank keeps a part: its masters are DTensors.

    Args:
        ranks: this one, and how many there are.
        start, base, parameters, compute, seed, reference: as of `TrainablePolicy`, the same on every rank.
    """

    def __init__(
        self, ranks: Ranks, start: Path, base: Path, parameters: Parameters, compute: ComputeConfig, seed: int,
        reference: Path | None = None,
    ) -> None:  # fmt: skip
        self._mesh = init_device_mesh(compute.device, (ranks.count,))
        super().__init__(start, base, parameters, compute, seed, reference)
        self.ranks = ranks

    def _own_masters(self) -> None:
        self._sharded = ShardedModel(self.inner, self._mesh, self.compute, self.layout)
        self.trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.masters = self.trained

    @property
    def device(self) -> torch.device:
        """Where it computes; offloaded parts lie elsewhere."""
        return torch.device(self.compute.device)

    @property
    def lanes(self) -> Lanes:
        """How batches are cut; one part is computed at a time, because FSDP is not made for several threads."""
        return Lanes(super().lanes.parts, 1)

    def gathered(self) -> AbstractContextManager[None]:
        """All weights on every rank: what computes without gradient inside the block waits for no other rank."""
        return self._sharded.gathered()

    @contextmanager
    def _frozen_reference(self) -> Iterator[Any]:
        if self._reference is None:
            model = inner_model(load_policy(self.pi_0, self.base, self.compute).model)
            self._reference = ShardedModel(model, self._mesh, self.compute, self.layout)
        with self._reference.gathered():
            yield self._reference.model

    @property
    def may_lead(self) -> bool:
        """FSDP expects a backward pass through the whole model for each forward pass."""
        return False

    def score(self, row: Row, temperature: float = 1.0, lead: Lead | None = None) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy [N, T] of every target; weights are gathered layer by layer."""
        assert lead is None
        scores: tuple[Tensor, Tensor] = self.inner.score(row, temperature)
        return scores

    def gradients(self, loss: Tensor, lead: Lead | None = None) -> list[Tensor | None]:
        """Differentiate: FSDP adds the sum over ranks to the masters' gradients. Nothing is left to add."""
        assert lead is None
        loss.backward()  # type: ignore[no-untyped-call]
        return []

    def add_gradients(self, gradients: list[Tensor | None], lead: Lead | None = None) -> None:
        """Nothing to do: see `gradients`."""

    @contextmanager
    def in_step(self, rows: int) -> Iterator[None]:
        """Around this rank's `rows` rows with a gradient; at the end it takes part in those that others have more."""
        most = max(self.ranks.gather(rows))
        yield
        for _ in range(most - rows):
            self.gradients(self._sharded.idle())

    def publish(self) -> None:
        """The masters' values are computed with from the next gathering on."""
        self.version += 1

    def whole(self, tensor: Tensor) -> Tensor:
        """A master or moment as a whole, on every rank."""
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def part(self, tensor: Tensor, master: Tensor) -> Tensor:
        """This rank's part of a tensor of a master's shape, which the first rank has; other tensors stay whole."""
        assert isinstance(master, DTensor)
        if tensor.shape != master.shape:
            return self.ranks.from_first(tensor).to(master.device)
        part = distribute_tensor(tensor.to(self.device), master.device_mesh, master.placements)
        return part.to(master.device)  # which is the host's where it is offloaded

    def save(self, folder: Path) -> None:
        """Write the policy on the first rank, as `TrainablePolicy.save` does."""
        if self.kind == "lora":
            names = {id(parameter): name for name, parameter in self.model.named_parameters()}
            factors = {names[id(master)]: self.whole(master) for master in self.masters}
            if self.ranks.writes:
                save_adapter(self.model, factors, folder)
            return
        with self.gathered():
            if self.ranks.writes:
                save_model(self.inner, self.tokenizer, folder, weights=self._sharded.weights())

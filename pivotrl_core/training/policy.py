"""A policy that trains: LoRA factors on frozen weights, or all parameters; either way with fp32 master weights.

The reference policy pi_0 of the KL term is the one that was profiled: the same model with its adapter off where that
is the base policy, a frozen copy otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pivotrl_core.config.arms import LoRA, Parameters
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.adapters import inner_model, lanes_for, no_false_alarms
from pivotrl_core.engines.model import ADAPTER, Policy, load_model, load_policy, resolve_folder
from pivotrl_core.engines.sharing import check_logits, choose_layout, head_weight
from pivotrl_core.errors import ConfigError
from pivotrl_core.grpo.layouts import Row
from pivotrl_core.lanes import Lanes
from pivotrl_core.training.fused import fuse_adapters, fuse_layers
from pivotrl_core.training.lead import Lead
from pivotrl_core.training.ranks import ONE_RANK, Ranks
from pivotrl_core.training.recomputing import recompute_layers
from pivotrl_core.training.saving import save_adapter, save_model
from pivotrl_core.training.scoring import score_row


class TrainablePolicy:
    """Owns the parameters that an optimiser moves (fp32) and the model that computes with them.

    Args:
        start: folder of the policy that training starts from.
        base: folder of the base policy, which an adapter in `start` is relative to.
        parameters: LoRA or all.
        compute: dtype and device of the frozen weights.
        seed: of the fresh LoRA factors.
        reference: folder of pi_0 where training does not start from it itself, but from a descendant.
        load: how the whole model in a folder is loaded; benchmarks have models of random weights too.
    """

    def __init__(
        self, start: Path, base: Path, parameters: Parameters, compute: ComputeConfig, seed: int,
        reference: Path | None = None, load: Callable[[Path, ComputeConfig], Policy] = load_model,
    ) -> None:  # fmt: skip
        self.compute = compute
        self.pi_0 = reference or start
        self.base = base
        self.kind = parameters.kind
        has_adapter = (start / ADAPTER).exists()
        fresh = isinstance(parameters, LoRA) and not has_adapter
        if fresh and resolve_folder(start) != resolve_folder(base):
            raise ConfigError(f"{start}: an adapter is relative to the base policy; train all parameters from here")
        loaded = load(resolve_folder(base if has_adapter else start), compute)
        self.tokenizer = loaded.tokenizer
        self.model: Any = loaded.model
        check_logits(self.model)
        self.layout = choose_layout(self.model, compute.layout)
        fuse_layers(self.model)
        torch.manual_seed(seed)
        if isinstance(parameters, LoRA):
            self._attach(parameters, start if has_adapter else None)
            fuse_adapters(self.model)
        else:
            self._unfreeze(start if has_adapter else None)
        if compute.activation_checkpointing:
            recompute_layers(self.inner)
        self.ranks: Ranks = ONE_RANK
        self._reference: Any = None
        self.version = 0  # of the weights: another number after each `publish`
        self._own_masters()

    def _own_masters(self) -> None:
        """Make `trained`, the parameters that compute, and `masters`, those that the optimiser moves."""
        self.trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        # What is computed in bf16 is kept in fp32 beside it: an update of 1e-5 would be lost in bf16's 8 bits.
        self.masters = [p if p.dtype == torch.float32 else p.detach().float() for p in self.trained]

    def _attach(self, lora: LoRA, adapter: Path | None) -> None:
        from peft import LoraConfig, PeftModel, get_peft_model

        # Factors compute in the dtype of the frozen weights (casts would cost half of a step) and train in fp32.
        loaded_dtype = self.model.dtype
        if adapter is not None:
            with no_false_alarms():
                self.model = PeftModel.from_pretrained(
                    self.model, adapter, is_trainable=True, autocast_adapter_dtype=False
                )
            self.model.to(loaded_dtype).eval()
            return
        settings = LoraConfig(
            r=lora.rank, lora_alpha=lora.alpha, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM"
        )
        try:
            with no_false_alarms():
                adapted = get_peft_model(self.model, settings, autocast_adapter_dtype=False)
        except ValueError as error:
            kind = self.model.config.model_type
            raise ConfigError(
                f"arms.NAME.train.parameters (of the warm-up: warmup.parameters): {kind} takes no adapter ({error}); "
                "train with 'kind: full'"
            ) from error
        self.model = adapted.to(loaded_dtype).eval()

    def _unfreeze(self, adapter: Path | None) -> None:
        if adapter is not None:
            from peft import PeftModel

            with no_false_alarms():
                self.model = PeftModel.from_pretrained(self.model, adapter).merge_and_unload()
        self.model.eval().requires_grad_(True)

    @property
    def inner(self) -> Any:
        """The causal language model itself, with any adapters inside its layers."""
        return inner_model(self.model)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        device: torch.device = self.inner.device
        return device

    @property
    def lanes(self) -> Lanes:
        """How batches are cut and run on this policy."""
        return lanes_for(self.model, self.compute.lane_plan)

    @property
    def head(self) -> Tensor:
        """The output embedding [V, D]."""
        return head_weight(self.inner)

    @contextmanager
    def reference(self) -> Iterator[Any]:
        """The reference policy pi_0, without gradient: its inner model."""
        with torch.no_grad():
            if self.kind == "lora" and resolve_folder(self.pi_0) == resolve_folder(self.base):
                with self.gathered(), self.model.disable_adapter():
                    yield self.inner
                return
            with self._frozen_reference() as model:
                yield model

    @contextmanager
    def _frozen_reference(self) -> Iterator[Any]:
        """pi_0 as a model of its own, loaded when it is first asked for."""
        if self._reference is None:
            self._reference = inner_model(load_policy(self.pi_0, self.base, self.compute).model)
        yield self._reference

    def gathered(self) -> AbstractContextManager[None]:
        """Around what computes with the model itself, without gradient: all weights are there. Here they always are."""
        return nullcontext()

    @property
    def may_lead(self) -> bool:
        """Whether its batches may have a lead, whose gradient comes apart from those of rows."""
        return True

    def score(self, row: Row, temperature: float = 1.0, lead: Lead | None = None) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy [N, T] of every target, at the temperature of sampling."""
        return score_row(self.inner, row, temperature, None if lead is None else lead.seen)

    def anchor_to(self, folder: Path) -> None:
        """Let the policy in `folder` be pi_0 from now on."""
        self.pi_0 = folder
        self._reference = None

    def gradients(self, loss: Tensor, lead: Lead | None = None) -> list[Tensor | None]:
        """Gradient at each trained parameter, then at what is read of the lead.

        Several threads may compute theirs at once: nothing is added up yet.
        """
        leaves = [] if lead is None else lead.leaves
        return list(torch.autograd.grad(loss, [*self.trained, *leaves], allow_unused=True))

    def add_gradients(self, gradients: list[Tensor | None], lead: Lead | None = None) -> None:
        """Add to the gradients of the fp32 masters, and to the lead's; the list is emptied.

        The order of calls decides the last bits.
        """
        if lead is not None:
            lead.add(gradients[len(self.masters) :])
            del gradients[len(self.masters) :]
        for master, gradient in zip(self.masters, gradients, strict=True):
            if gradient is not None:
                grown = gradient.float()
                master.grad = grown if master.grad is None else master.grad.add_(grown)
        gradients.clear()

    def add_lead(self, lead: Lead | None) -> None:
        """Add what the rows' gradients at the lead are at the parameters, once all rows are added."""
        if lead is not None:
            self.add_gradients(lead.gradients(self.trained))

    def in_step(self, rows: int) -> AbstractContextManager[None]:
        """Around this rank's `rows` rows with a gradient: ranks keep step. A single one does by itself."""
        del rows
        return nullcontext()

    def publish(self) -> None:
        """After each optimiser step: copy the masters into the parameters that compute."""
        with torch.no_grad():
            for parameter, master in zip(self.trained, self.masters, strict=True):
                if master is not parameter:
                    parameter.copy_(master)
        self.version += 1

    def whole(self, tensor: Tensor) -> Tensor:
        """A master or moment as a whole."""
        return tensor

    def part(self, tensor: Tensor, master: Tensor) -> Tensor:
        """What this rank keeps of a whole moment, where it keeps its part of the master."""
        return tensor.clone().to(master.device)

    @property
    def lora_rank(self) -> int:
        """Rank of the adapter that trains; 0 where all parameters do."""
        return int(self.model.peft_config["default"].r) if self.kind == "lora" else 0

    def write(self, folder: Path) -> None:
        """Write the weights as they compute, for an engine elsewhere: the factors, or the whole model, untied."""
        if self.kind == "lora":
            self.save(folder)
        else:
            save_model(self.model, self.tokenizer, folder, untied=True)

    def save(self, folder: Path) -> None:
        """Write the policy as a PEFT adapter or a Hugging Face folder; equal weights are equal bytes."""
        if self.kind == "full":
            self.save_whole(folder)
        else:
            names = {id(parameter): name for name, parameter in self.model.named_parameters()}
            factors = {names[id(p)]: m for p, m in zip(self.trained, self.masters, strict=True)}
            save_adapter(self.model, factors, folder)

    def save_whole(self, folder: Path) -> None:
        """Write the policy as a Hugging Face folder; LoRA factors are merged, in fp32, and this policy ends with it."""
        if self.kind == "lora":
            dtype = self.model.dtype
            self.model.float()
            self.publish()
            self.model = self.model.merge_and_unload().to(dtype)
        save_model(self.model, self.tokenizer, folder)

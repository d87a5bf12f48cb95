"""TRL's GRPOTrainer on a group that is already sampled: its own loss, and the backward pass of its training step.

The trainer is a real one, made by its constructor; only sampling is left out, and the step of the optimiser. TRL is no
dependency of this project outside of its tests: where it is missing, comparisons with it are skipped.
"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from pivotrl_core.bench.measuring import Answer
from pivotrl_core.bench.shapes import load_any
from pivotrl_core.bench.steps import GroupTask, step_answer, touch
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.grpo.advantages import group_advantages


@dataclass(frozen=True, slots=True)
class TrlSetting:
    """Sequences at once, and whether activations are computed again in the backward pass."""

    micro_batch: int
    checkpointing: bool

    def __str__(self) -> str:
        return f"micro-batch {self.micro_batch}, {'with' if self.checkpointing else 'no'} checkpointing"


def missing_trl() -> str:
    """Why there is no TRL here; empty where there is."""
    return "" if find_spec("trl") else "trl is not installed; it comes with requirements/dev.lock (make test)"


def make_trainer(folder: Path, compute: ComputeConfig, group: int, setting: TrlSetting) -> Any:
    """A GRPOTrainer on the model in `folder`, in the dtype of `compute`, that trains groups of `group`."""
    torch.set_num_threads(compute.threads)
    warnings.simplefilter("ignore")
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    loaded = load_any(folder, compute)
    model: Any = loaded.model.requires_grad_(True)
    # The weights are in the dtype already; casts around each operation (bf16=True) would be work that ours has not.
    arguments = GRPOConfig(
        output_dir=str(Path(tempfile.gettempdir()) / "pivotrl-bench-trl"),
        use_cpu=compute.device == "cpu", bf16=False, report_to=[],
        beta=0.0, loss_type="dapo", epsilon=0.2, temperature=1.0, num_generations=group,
        per_device_train_batch_size=setting.micro_batch, gradient_accumulation_steps=group // setting.micro_batch,
        gradient_checkpointing=setting.checkpointing, gradient_checkpointing_kwargs={"use_reentrant": False},
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=model, args=arguments, reward_funcs=lambda completions, **_: [0.0] * len(completions),
        train_dataset=Dataset.from_list([{"prompt": "x"}]), processing_class=loaded.tokenizer,
    )  # fmt: skip
    model.train()
    if setting.checkpointing:  # as Trainer.train does
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    touch(model)
    return trainer


def accumulate(trainer: Any, tasks: list[GroupTask], micro_batch: int) -> float:
    """Loss of all groups' sequences, with its gradient in every parameter's `grad`; no micro-batch spans two groups."""
    parts = sum(-(-len(task.actions) // micro_batch) for task in tasks)
    tokens = sum(task.trained for task in tasks)
    device = trainer.model.device
    trainer.current_gradient_accumulation_steps = trainer.args.steps_per_generation = parts
    loss = 0.0
    for task in tasks:
        advantages_N = group_advantages(torch.tensor([task.rewards], dtype=torch.float64))[0].float()
        for start in range(0, len(task.actions), micro_batch):
            part = slice(start, start + micro_batch)
            inputs = _inputs(task, part) | {
                "advantages": advantages_N[part],
                "num_items_in_batch": torch.tensor(tokens),
            }
            inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
            found = trainer.compute_loss(trainer.model, inputs)
            trainer.accelerator.backward(found)
            loss += float(found.detach())
    return loss


def _inputs(task: GroupTask, part: slice) -> dict[str, torch.Tensor]:
    """Prompts, completions (padded on the right) and masks of some of a group's sequences."""
    actions = task.actions[part]
    width = max(map(len, actions))
    mask_NT = torch.tensor([[1] * len(one) + [0] * (width - len(one)) for one in actions])
    prompt_NP = torch.tensor([task.state] * len(actions))
    inputs = {
        "prompt_ids": prompt_NP,
        "prompt_mask": torch.ones_like(prompt_NP),
        "completion_ids": torch.tensor([[*one, *[0] * (width - len(one))] for one in actions]),
        "completion_mask": mask_NT,
    }
    if task.sampled:
        lines = task.sampled[part]
        inputs["old_per_token_logps"] = torch.tensor([[*one, *[0.0] * (width - len(one))] for one in lines])
    return inputs


class TrlStep:
    """The work of TRL's side."""

    def __init__(self, folder: Path, compute: ComputeConfig, group: int, setting: TrlSetting) -> None:
        self.trainer = make_trainer(folder, compute, group, setting)
        self.micro_batch = setting.micro_batch
        self.loss = float("nan")

    def load(self, task: GroupTask) -> None:
        self.task = task

    def run(self) -> None:
        self.trainer.model.zero_grad(set_to_none=True)
        self.loss = accumulate(self.trainer, [self.task], self.micro_batch)

    def answer(self) -> Answer:
        return step_answer(self.task, self.loss, [one.grad for one in self.trainer.model.parameters()])

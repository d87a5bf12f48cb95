"""Whether what is fast is right on this device: ours beside the plain model of transformers, on a few short sequences.

The plain model shares no layer of ours: each sequence for itself, its logits whole, its gradients autograd's. Compared
are the loss and all gradients of one group in the form of a prefix tree, the log-probabilities that the engine gives
to what it samples, and greedy samples beside those of `generate`. In float32 all must be equal up to rounding. In
bfloat16, whose rounding is some hundredths of what is compared, only what is grossly wrong would show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pivotrl_core.bench.measuring import Answer
from pivotrl_core.bench.sampling import generate
from pivotrl_core.bench.shapes import load_any
from pivotrl_core.bench.steps import GroupTask, TreeStep, with_sampled
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.protocol import Request, Sample, SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.grpo.advantages import group_advantages
from pivotrl_core.grpo.loss import ClipConfig, policy_loss

SEEDS = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Limits:
    """How far the two may be apart.

    Attributes:
        loss: nats.
        gradient: norm of the difference of all gradients over that of the gradients.
        logprob: nats, of one sampled token; also by how much a greedy token may be less likely than the likeliest.
    """

    loss: float
    gradient: float
    logprob: float


LIMITS = {"float32": Limits(1e-4, 1e-3, 1e-3), "bfloat16": Limits(0.05, 0.2, 0.5)}


@dataclass(frozen=True, slots=True)
class CheckTask:
    """What is compared: a group to learn from, and how many tokens are sampled at its state and halfway into it."""

    group: GroupTask
    tokens: int


class DeviceCheck:
    """Both ways, one after the other; the answer says how far they are apart."""

    def __init__(self, folder: Path, compute: ComputeConfig) -> None:
        self.tree = TreeStep(folder, compute)
        self.plain: Any = load_any(folder, compute).model
        self.engine = TransformersEngine(self.tree.policy.model, [])
        self.dtype = compute.dtype

    def load(self, task: CheckTask) -> None:
        self.task = task

    def run(self) -> None:
        found = self._step() | self._samples() | self._greedy()
        limits = LIMITS[self.dtype]
        checks = {
            "loss": found["loss_difference"] <= limits.loss,
            "gradient": found["gradient_difference"] <= limits.gradient,
            "logprob": found["logprob_difference"] <= limits.logprob,
            "greedy": found["greedy_gap"] <= limits.logprob,
        }
        self.found = finite_or_text(found) | {
            "wrong": [name for name, held in checks.items() if not held],
            "gpu": _gpu(),
        }

    def answer(self) -> Answer:
        return self.found

    def _step(self) -> dict[str, float]:
        group = self.task.group
        with torch.no_grad():
            group = with_sampled(group, self._logprobs(group.state, group.actions).tolist())
        self.tree.load(group)
        self.tree.run()
        loss, gradients = self._plain_step(group)
        difference = square = 0.0
        for master, expected in zip(self.tree.policy.masters, gradients, strict=True):
            got = torch.zeros_like(expected) if master.grad is None else master.grad
            difference += float((got.double() - expected.double()).pow(2).sum())
            square += float(expected.double().pow(2).sum())
        self.tree.clear()
        return {
            "loss": loss, "loss_difference": abs(self.tree.loss - loss),
            "gradient_difference": (difference / square) ** 0.5,
        }  # fmt: skip

    def _plain_step(self, group: GroupTask) -> tuple[float, list[Tensor]]:
        self.plain.requires_grad_(True)
        device = self.plain.device
        logprobs_NT = self._logprobs(group.state, group.actions)
        advantages_N = group_advantages(torch.tensor([group.rewards], dtype=torch.float64))[0].float().to(device)
        weights_N = torch.full_like(advantages_N, 1.0 / logprobs_NT.numel())
        mask_NT = torch.ones_like(logprobs_NT, dtype=torch.bool)
        sampled_NT = torch.tensor(group.sampled, device=device)
        loss = policy_loss(
            logprobs_NT, advantages_N, mask_NT, weights_N, ClipConfig(), sampled_logprobs_NT=sampled_NT
        ).loss
        gradients = torch.autograd.grad(loss, list(self.plain.parameters()), materialize_grads=True)
        self.plain.requires_grad_(False)
        return float(loss.detach()), list(gradients)

    def _samples(self) -> dict[str, float]:
        """The largest difference of a sampled token's log-probability."""
        sampled = self._sample(SamplingConfig(1.0, self.task.tokens), SEEDS)
        differences = [
            float((torch.tensor(sample.logprobs) - line_T.cpu()).abs().max())
            for state, samples in zip(self._states(), sampled, strict=True)
            for sample, line_T in zip(samples, self._plain_logprobs(state, samples), strict=True)
        ]
        return {"logprob_difference": max(differences)}

    def _greedy(self) -> dict[str, float]:
        """Greedy tokens up to the first that differs from `generate`'s, and how much less likely that one is."""
        sampling = SamplingConfig(0.0, self.task.tokens)
        equal, gaps = 0, [0.0]
        for state, (sample,) in zip(self._states(), self._sample(sampling, SEEDS[:1]), strict=True):
            (expected,) = generate(self.plain, state, 1, sampling)
            same = [ours == theirs for ours, theirs in zip(sample.ids, expected, strict=True)]
            first = same.index(False) if False in same else len(same)
            equal += first
            if first < len(same):
                ids = torch.tensor([sample.ids[: first + 1], expected[: first + 1]])
                ours, theirs = self._of_ids(state, ids)[:, -1].tolist()
                gaps.append(theirs - ours)
        return {"greedy_tokens": 2 * self.task.tokens, "greedy_equal": equal, "greedy_gap": max(gaps)}

    def _states(self) -> list[tuple[int, ...]]:
        """Two states, of which one begins the other."""
        state = self.task.group.state
        return [state, state[: len(state) // 2]]

    def _sample(self, sampling: SamplingConfig, seeds: Sequence[int]) -> list[list[Sample]]:
        requests = [Request(str(at), state, tuple(seeds)) for at, state in enumerate(self._states())]
        return self.engine.sample(requests, sampling)

    def _plain_logprobs(self, state: tuple[int, ...], samples: Sequence[Sample]) -> Tensor:
        with torch.no_grad():
            return self._logprobs(state, [sample.ids for sample in samples])

    def _of_ids(self, state: tuple[int, ...], ids_NT: Tensor) -> Tensor:
        with torch.no_grad():
            return self._logprobs(state, ids_NT.tolist())

    def _logprobs(self, state: Sequence[int], actions: Sequence[Sequence[int]]) -> Tensor:
        """Log-probabilities [N, T] of actions of one length, by the plain model."""
        ids_NL = torch.tensor([[*state, *action] for action in actions], device=self.plain.device)
        targets_NT = ids_NL[:, len(state) :]
        logits_NTV = self.plain(ids_NL[:, :-1], use_cache=False, logits_to_keep=targets_NT.shape[1]).logits
        logprobs_NT: Tensor = logits_NTV.float().log_softmax(-1).gather(-1, targets_NT[..., None])[..., 0]
        return logprobs_NT


def finite_or_text(values: Mapping[str, float]) -> dict[str, Any]:
    """What JSON has no number for, as text: a check that ends in it must be told too.

    >>> finite_or_text({"loss": float("nan"), "greedy_equal": 3})
    {'loss': 'nan', 'greedy_equal': 3}
    """
    return {name: value if math.isfinite(value) else str(value) for name, value in values.items()}


def _gpu() -> dict[str, Any]:
    """The GPU of this process; empty without one."""
    if not torch.cuda.is_available():
        return {}
    found = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "name": found.name, "memory": found.total_memory, "capability": f"{found.major}.{found.minor}",
        "cuda": torch.version.cuda,
    }  # fmt: skip

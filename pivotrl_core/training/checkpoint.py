"""Checkpoints for exact resume: masters, moments, step and counters, in safetensors and JSON, written atomically.

Every random number of training derives from names (seed, step, place in the batch), so no generator state decides
anything; the state of torch's own generator is kept all the same. The newest checkpoint that is whole counts; a damaged
one is named in the log and the one before it is taken.

On several ranks the first one alone reads and writes. What a checkpoint holds is whole, so that any number of ranks may
go on from it.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pivotrl_core.engines.protocol import TokenCount
from pivotrl_core.files import file_digest, read_json, write_json
from pivotrl_core.training.optimiser import Optimiser
from pivotrl_core.training.ranks import ONE_RANK, Ranks
from pivotrl_core.training.saving import load_tensors, save_tensors
from pivotrl_core.types import content_id

log = logging.getLogger(__name__)
KEPT = 2
MIN_SECONDS = 15.0
MAX_OVERHEAD = 20.0  # by the clock, a save of s seconds is followed by at least 20 s seconds of work


@dataclass(slots=True)
class Progress:
    """Where a training stands: the next step, metrics lines so far, counters for the cost account, and its source.

    `rounds` are the times that it profiled again, each with its step, reason, size of its pool and digest; `ended` says
    why a training that is over had fewer steps than it might.
    """

    step: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)
    counters: dict[str, float] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    ended: str | None = None

    def add_cost(self, tokens: TokenCount) -> None:
        """Count what was sampled."""
        for name, value in (
            ("rollout_turns", tokens.turns),
            ("generated_tokens", tokens.generated),
            ("prefilled_tokens", tokens.prefilled),
            ("judge_tokens", tokens.judge),
        ):
            self.counters[name] = self.counters.get(name, 0) + value


class Checkpoints:
    """The checkpoints of one training, in a folder of its own."""

    def __init__(self, folder: Path, ranks: Ranks = ONE_RANK) -> None:
        self.folder = folder
        self.ranks = ranks
        self._saved = time.monotonic()
        self._pause = MIN_SECONDS

    def due(self, step: int, every: int) -> bool:
        """Whether to save now: every so many steps, and by the clock, so that slow steps are not lost either.

        When a checkpoint is taken decides nothing but what a kill costs; results are the same.
        """
        return self.ranks.from_first(step % every == 0 or time.monotonic() - self._saved >= self._pause)

    def save(self, optimiser: Optimiser, progress: Progress) -> None:
        """Write a checkpoint for `progress.step`; the manifest comes last, and makes it one."""
        begun = time.monotonic()
        tensors = _tensors(optimiser)
        if self.ranks.writes:
            self._write(tensors, progress)
        self._saved = time.monotonic()
        self._pause = max(MIN_SECONDS, MAX_OVERHEAD * (self._saved - begun))

    def _write(self, tensors: dict[str, Tensor], progress: Progress) -> None:
        target = self.folder / f"step-{progress.step:06d}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        save_tensors(tensors, target / "state.safetensors")
        manifest = {
            "schema_version": 2,
            "step": progress.step,
            "lines": progress.lines,
            "counters": progress.counters,
            "source": progress.source,
            "rounds": progress.rounds,
            "state": file_digest(target / "state.safetensors"),
        }
        write_json(target / "manifest.json", manifest | {"digest": content_id(manifest)})
        for old in self._all()[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def restore(self, optimiser: Optimiser, check: Callable[[Progress], None] | None = None) -> Progress:
        """Load the newest whole checkpoint into the optimiser's policy; a fresh start where there is none.

        Damaged ones leave: beside them, the checkpoints to come would find room for one that is whole only. `check`
        raises ValueError or OSError where what a checkpoint needs beside it is not whole.
        """
        found = self._read(check) if self.ranks.writes else None
        progress = self.ranks.from_first(found[0] if found else None)
        if progress is None:
            return Progress()
        _load(optimiser, found[1] if found else {})
        return progress

    def _read(self, check: Callable[[Progress], None] | None) -> tuple[Progress, dict[str, Tensor]] | None:
        for folder in reversed(self._all()):
            try:
                progress = _read_manifest(folder)
                if check is not None:
                    check(progress)
                tensors = load_tensors(folder / "state.safetensors")
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                log.warning("checkpoint %s is damaged (%s); taking the one before it", folder.name, error)
                shutil.rmtree(folder, ignore_errors=True)
                continue
            return progress, tensors
        return None

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob("step-*")) if self.folder.exists() else []


def _read_manifest(folder: Path) -> Progress:
    """Where the training stood. Raises ValueError (or what reading raises) where a byte is not as it was written."""
    manifest = read_json(folder / "manifest.json")
    if manifest.pop("digest") != content_id(manifest):
        raise ValueError("manifest.json is not as it was written")
    if file_digest(folder / "state.safetensors") != manifest["state"]:
        raise ValueError("state.safetensors does not match its manifest")
    return Progress(*(manifest[name] for name in ("step", "lines", "counters", "source", "rounds")))


def _tensors(optimiser: Optimiser) -> dict[str, Tensor]:
    """Whole tensors by name; on ranks that write nothing, none (but they take part in making them whole)."""
    policy = optimiser.policy
    tensors: dict[str, Tensor] = {"rng": torch.get_rng_state()}
    for index, master in enumerate(policy.masters):
        own = {f"adam.{index:05d}.{name}": value for name, value in optimiser.adam.state.get(master, {}).items()}
        for name, value in {f"master.{index:05d}": master, **own}.items():
            whole = policy.whole(torch.as_tensor(value))
            if policy.ranks.writes:
                tensors[name] = whole.detach().cpu()  # one at a time: together they may be more than a GPU holds
    return tensors


def _load(optimiser: Optimiser, tensors: dict[str, Tensor]) -> None:
    """Take over what a checkpoint holds; the first rank has it, and the others get their parts of it."""
    policy = optimiser.policy
    outline = policy.ranks.from_first({name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()})

    def stored(name: str) -> Tensor:
        shape, dtype = outline[name]
        return tensors[name] if name in tensors else torch.empty(shape, dtype=dtype, device="cpu")

    with torch.no_grad():
        for index, master in enumerate(policy.masters):
            master.copy_(policy.part(stored(f"master.{index:05d}"), master))
            prefix = f"adam.{index:05d}."
            # A fused AdamW keeps its moments and its count of steps beside the parameter.
            moments = {
                name.removeprefix(prefix): policy.part(stored(name), master)
                for name in outline
                if name.startswith(prefix)
            }
            if moments:
                optimiser.adam.state[master] = moments
    torch.set_rng_state(policy.ranks.from_first(stored("rng")))
    policy.publish()

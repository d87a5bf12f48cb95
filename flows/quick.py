"""QUICK=1: the same path in a few minutes, on parameters too small to conclude anything from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WARNING = "quick run: the sizes are far too small to conclude anything from the numbers"

# Keys that exist only where the parameters have such an arm are skipped elsewhere (see flows/request.py).
SETTINGS: Mapping[str, Any] = {
    "source.trajectories": 16,
    "source.warmup_trajectories": 32,
    "profile.samples": 4,
    "profile.block_trajectories": 4,
    "evaluate.episodes": 4,
    "evaluate.max_turns": 6,
    "evaluate.turns": 12,
    "evaluate.items": 3,
    "evaluate.drift_texts": 2,
}
TRAIN: Mapping[str, Any] = {
    "epochs": 1,
    "steps": 3,
    "prompts_per_step": 2,
    "group_size": 4,
}
EMBEDDED_ONLY = ("source.trajectories", "source.warmup_trajectories")
METHOD_KEYS: Mapping[str, tuple[str, ...]] = {
    "sft": ("epochs",),
    "grpo": ("steps", "prompts_per_step", "group_size"),
    "e2e": ("steps", "prompts_per_step", "group_size"),
}

"""Profiling again in the midst of training: when, from which weights, at what cost, and after a kill to the same bits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.config.loading import parse_config
from pivotrl_core.config.tree import Config
from pivotrl_core.files import file_digest, read_json, read_jsonl
from pivotrl_core.pivots.pool import read_pool
from pivotrl_core.pivots.profile_record import read_profile
from pivotrl_core.stages import context as stage_context
from pivotrl_core.stages.candidates import run_candidates
from pivotrl_core.stages.context import StageContext
from pivotrl_core.stages.profile import run_profile
from pivotrl_core.stages.select import run_select
from pivotrl_core.stages.train import run_train
from pivotrl_core.stages.warmup import run_warmup
from tests.toy_training import pull_toys, toy_trajectories

pytestmark = pytest.mark.usefixtures("deterministic")

STEPS, PROMPTS, GROUP, SAMPLES = 6, 2, 4, 4
TRAIN = {
    "method": "grpo", "steps": STEPS, "prompts_per_step": PROMPTS, "group_size": GROUP, "max_tokens": 4,
    "checkpoint_every": 50, "parameters": {"kind": "lora", "rank": 4, "alpha": 8.0},
    "optimiser": {"learning_rate": 0.01}, "kl": {"weight": 0.1}, "replay": True,
    "reprofile": {"limit": 1, "window": 2, "zero_variance_share": None, "spread_change": 1.0},
}  # fmt: skip


def configuration(model: Path, select: dict[str, Any], **train: Any) -> Config:
    return parse_config({
        "model": {"kind": "folder", "path": str(model)},
        "source": {"kind": "folder", "path": "unused: the data are pulled already"},
        "data": {"validation_share": 0.0, "test_share": 0.0},
        "compute": {"threads": 1, "dtype": "float32"},
        "warmup": {"epochs": 0},
        "profile": {"samples": SAMPLES, "max_tokens": 4, "block_trajectories": 4},
        "verifier": {"message_threshold": 0.1},
        "arms": {"base": {}, "again": {"select": select, "train": TRAIN | train}},
    })  # fmt: skip

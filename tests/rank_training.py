"""Trainings for tests that compare ranks. A module of its own, because torchrun starts it: in two processes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pivotrl_core.config.arms import E2ETrain, FullParameters, GRPOTrain, KLConfig, LoRA, OptimiserConfig
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.model import prepare_torch
from pivotrl_core.files import write_json
from pivotrl_core.grpo.choices import KLEstimator, LossNormalisation
from pivotrl_core.training.ranks import Ranks, joined_ranks
from tests.toy_training import LOW_RANK, LetterVerifier, Run

FULL = FullParameters(kind="full")
STEPS = 4
GRPO = GRPOTrain(
    method="grpo", steps=STEPS, prompts_per_step=3, group_size=4, max_tokens=4, checkpoint_every=2,
    optimiser=OptimiserConfig(learning_rate=0.01, schedule="cosine"), kl=KLConfig(weight=0.1), updates_per_step=2,
)  # fmt: skip
PLAIN = GRPO.model_copy(update={"kl": KLConfig(), "updates_per_step": 1, "steps": 2})
K1 = PLAIN.model_copy(update={"kl": KLConfig(weight=0.1, estimator=KLEstimator.K1), "loss": LossNormalisation.GRPO})
EPISODES = E2ETrain(  # a random policy never succeeds; three groups of two tasks, so one is played on
    method="e2e", steps=2, prompts_per_step=3, group_size=2, max_tokens=4, max_turns=2, entropy_weight=0.1,
    optimiser=OptimiserConfig(learning_rate=0.01),
)  # fmt: skip
NO_LETTER = LetterVerifier(letters="\0")
MEMORY = {"activation_checkpointing": True}  # and offload, where there is more than one process


def gradient(config: GRPOTrain, row_tokens: int = 400, verifier: Any = None) -> Callable[[Run], Any]:
    return lambda run: run.policy_gradient(config, verifier, row_tokens)


def episodes(run: Run) -> Any:
    return run.episodes(EPISODES)


def supervised(run: Run) -> Any:
    return run.supervised(epochs=2, batch_trajectories=3)  # of four: every other step has one, and a rank has none


# Name: parameters, settings of compute, model, training.
TRAININGS: dict[str, tuple[LoRA | FullParameters, dict[str, Any], str, Callable[[Run], Any]]] = {
    "grpo-lora": (LOW_RANK, {}, "llama", gradient(GRPO)),
    "grpo-full": (FULL, {}, "llama", gradient(GRPO)),  # its reference policy is a frozen copy
    "kl-in-the-reward": (LOW_RANK, {}, "llama", gradient(K1)),
    "a-row-for-each-action": (LOW_RANK, {}, "llama", gradient(PLAIN, row_tokens=1)),
    "a-rank-without-work": (FULL, MEMORY, "llama", gradient(PLAIN.model_copy(update={"prompts_per_step": 1}))),
    "all-of-zero-variance": (FULL, {}, "llama", gradient(PLAIN, verifier=NO_LETTER)),
    "windows": (LOW_RANK, {}, "gemma3", gradient(PLAIN)),  # padded lines; samples by transformers' generate
    "episodes": (LOW_RANK, {}, "llama", episodes),
    "sft-lora-bf16": (LOW_RANK, {"dtype": "bfloat16"}, "llama", supervised),
    "sft-experts": (FULL, {}, "qwen3_moe", supervised),
    "sft-leanest": (FULL, MEMORY, "llama", supervised),
    "sft-bf16": (FULL, {"dtype": "bfloat16"}, "llama", supervised),
}


def run_of(root: Path, name: str, ranks: Ranks, scratch: str = "") -> Run:
    parameters, settings, model, _ = TRAININGS[name]
    offload = settings is MEMORY and ranks.count > 1
    compute = ComputeConfig(
        **{"threads": 1, "dtype": "float32", "processes": ranks.count, "offload": offload} | settings
    )
    folder = root / f"of-{ranks.count}"
    return Run(root / model, folder / name, root / (scratch or f"scratch-{ranks.count}-{name}"), parameters, compute,
               ranks=ranks)  # fmt: skip


def train(root: Path, ranks: Ranks) -> None:
    """Every training; then one that is killed, and carried on with, on these ranks and on as many as it was not."""
    for name, (_, _, _, training) in TRAININGS.items():
        training(run_of(root, name, ranks))
    stopped = run_of(root, "grpo-full", ranks, scratch=f"stopped-{ranks.count}")
    stopped.out = root / f"of-{ranks.count}" / "stopped"
    stopped.stop_at = 3
    with suppress(KeyboardInterrupt):
        gradient(GRPO)(stopped)


def carry_on(root: Path, ranks: Ranks, stopped_on: int) -> None:
    """From the checkpoint of step 2."""
    run = run_of(root, "grpo-full", ranks, scratch=f"stopped-{stopped_on}")
    run.out = root / f"of-{ranks.count}" / f"stopped-on-{stopped_on}"
    gradient(GRPO)(run)


def weigh(root: Path, ranks: Ranks) -> None:
    """Write how many numbers of its masters each rank has, and how many they are together."""
    policy = run_of(root, "grpo-full", ranks).policy()
    own = sum(master.to_local().numel() for master in policy.masters)
    shares = ranks.gather(own)
    if ranks.writes:
        write_json(root / "shares.json", {"shares": shares, "whole": sum(one.numel() for one in policy.masters)})


def main(root: Path) -> None:
    """What two processes do."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing`")
    compute = ComputeConfig(threads=1, dtype="float32", processes=2, collective_minutes=2.0)
    prepare_torch(compute)
    with joined_ranks(compute) as ranks:
        train(root, ranks)
        weigh(root, ranks)
        for stopped_on in (1, 2):
            carry_on(root, ranks, stopped_on)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

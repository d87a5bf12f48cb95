"""A training that was killed, at any step, and started again equals the one that was left alone, to the bit."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pivotrl_core.config.arms import FullParameters, GRPOTrain, KLConfig, LoRA, OptimiserConfig
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.files import read_jsonl
from pivotrl_core.training.checkpoint import KEPT, Checkpoints, Progress
from pivotrl_core.training.optimiser import Optimiser
from tests.toy_training import RATE, Run

pytestmark = pytest.mark.usefixtures("deterministic")

STEPS = 6
GRPO = GRPOTrain(
    method="grpo", steps=STEPS, prompts_per_step=3, group_size=4, max_tokens=4, checkpoint_every=2,
    optimiser=OptimiserConfig(learning_rate=0.01, schedule="cosine"), kl=KLConfig(weight=0.1), updates_per_step=2,
)  # fmt: skip
LOW_RANK, FULL = LoRA(rank=4, alpha=8.0), FullParameters(kind="full")
BF16 = ComputeConfig(threads=1, dtype="bfloat16")
Start = Callable[..., dict[str, Any]]


def supervised(run: Run) -> dict[str, Any]:
    return run.supervised()


def policy_gradient(run: Run) -> dict[str, Any]:
    return run.policy_gradient(GRPO)


def killed(train: Start, run: Run, stops: list[int]) -> dict[str, Any]:
    for run.stop_at in stops:
        with pytest.raises(KeyboardInterrupt):
            train(run)
    run.stop_at = None
    return train(run)


@pytest.mark.parametrize("parameters", [LOW_RANK, FULL], ids=["lora", "full"])
@pytest.mark.parametrize("train", [supervised, policy_gradient])
def test_a_killed_training_equals_an_undisturbed_one(
    train: Start, parameters: LoRA | FullParameters, tiny_llama: Path, tmp_path: Path
) -> None:
    def run(name: str) -> Run:
        return Run(tiny_llama, tmp_path / name / "out", tmp_path / name / "scratch", parameters)

    undisturbed = train(run("undisturbed"))
    lines = read_jsonl(tmp_path / "undisturbed/out/metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(STEPS))
    assert sum(line["metrics"].get("train/grad_norm", 0.0) > 0.0 for line in lines) >= 4  # it did train
    for stops in ([0], [1], [2], [3], [4], [5], [1, 2, 2, 4]):
        assert killed(train, run("-".join(map(str, stops))), stops) == undisturbed, f"killed at {stops}"


def test_masters_in_fp32_come_back_where_weights_are_bf16(tiny_qwen3: Path, tmp_path: Path) -> None:
    def run(name: str) -> Run:
        return Run(tiny_qwen3, tmp_path / name / "out", tmp_path / name / "scratch", LOW_RANK, BF16)

    assert killed(policy_gradient, run("killed"), [3]) == policy_gradient(run("undisturbed"))


def test_pivots_that_rest_come_back_at_the_same_step_after_a_kill(tiny_llama: Path, tmp_path: Path) -> None:
    resting = GRPO.model_copy(update={"rest_passes": 2, "group_size": 2})
    awake = resting.model_copy(update={"rest_passes": 0})

    def run(name: str) -> Run:
        return Run(tiny_llama, tmp_path / name / "out", tmp_path / name / "scratch")

    def train(run: Run) -> dict[str, Any]:
        return run.policy_gradient(resting)

    undisturbed = train(run("undisturbed"))
    assert undisturbed != run("awake").policy_gradient(awake)  # some were mastered, and others took their place
    for stop in range(STEPS):
        assert killed(train, run(f"{stop}"), [stop]) == undisturbed, f"killed at {stop}"


def damage_state(folder: Path) -> None:
    path = folder / "state.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def cut_manifest(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes()[:40])


def lose_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


@pytest.mark.parametrize("damage", [damage_state, cut_manifest, lose_manifest])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_taken(
    damage: Callable[[Path], None], tiny_llama: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    undisturbed = Run(tiny_llama, tmp_path / "a/out", tmp_path / "a/scratch").supervised()
    run = Run(tiny_llama, tmp_path / "b/out", tmp_path / "b/scratch", stop_at=5)
    with pytest.raises(KeyboardInterrupt):
        run.supervised()
    assert sorted(path.name for path in run.scratch.iterdir()) == ["step-000002", "step-000004"]
    damage(run.scratch / "step-000004")
    run.stop_at = None
    with caplog.at_level(logging.WARNING):
        assert run.supervised() == undisturbed
    assert [record.getMessage().split(" (")[0] for record in caplog.records] == ["checkpoint step-000004 is damaged"]
    damage(run.scratch / "step-000004")
    damage(run.scratch / "step-000002")
    assert run.supervised() == undisturbed  # from the start, where nothing whole is left


def cut_state(folder: Path) -> None:
    path = folder / "state.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def empty_state(folder: Path) -> None:
    (folder / "state.safetensors").write_bytes(b"")


def empty_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"")


def alter_step(folder: Path) -> None:
    """One bit of a digit: still a manifest, of another step."""
    path = folder / "manifest.json"
    path.write_bytes(re.sub(rb'(\n  "step": )(\d)', lambda m: m[1] + bytes([m[2][0] ^ 1]), path.read_bytes()))


def alter_key(folder: Path) -> None:
    """One bit of a key's name."""
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"counters"', b'"bounters"'))


def alter_kind(folder: Path) -> None:
    (folder / "manifest.json").write_text("4")


@pytest.fixture(scope="module")
def stopped(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A training that was killed once it had the checkpoints of steps 2 and 4."""
    root = tmp_path_factory.mktemp("stopped")
    run = Run(tiny_llama, root / "out", root / "scratch", stop_at=5)
    with pytest.raises(KeyboardInterrupt):
        run.supervised()
    return run


@pytest.mark.parametrize(
    "damage",
    [damage_state, cut_state, empty_state, cut_manifest, empty_manifest, lose_manifest, alter_step, alter_key,
     alter_kind],
)  # fmt: skip
def test_no_damage_to_the_newest_checkpoint_goes_unseen(
    damage: Callable[[Path], None], stopped: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def restored(folder: Path) -> tuple[Progress, list[Tensor]]:
        policy = stopped.policy()
        progress = Checkpoints(folder).restore(Optimiser(policy, RATE, STEPS))
        return progress, policy.masters

    shutil.copytree(stopped.scratch, tmp_path / "all")
    shutil.copytree(stopped.scratch / "step-000002", tmp_path / "older/step-000002")
    damage(tmp_path / "all/step-000004")
    (progress, masters), (older, older_masters) = restored(tmp_path / "all"), restored(tmp_path / "older")
    assert (progress, progress.step, len(progress.lines)) == (older, 2, 2)
    assert all(torch.equal(one, other) for one, other in zip(masters, older_masters, strict=True))
    assert [record.getMessage().split(" (")[0] for record in caplog.records] == ["checkpoint step-000004 is damaged"]
    # It leaves: of the two that are kept, it would else be one for as long as its step is ahead of the others'.
    assert [path.name for path in (tmp_path / "all").iterdir()] == ["step-000002"]
    assert restored(stopped.scratch)[0].step == 4
    damage(tmp_path / "all/step-000002")
    assert restored(tmp_path / "all")[0] == Progress()


def test_old_checkpoints_leave(tiny_llama: Path, tmp_path: Path) -> None:
    run = Run(tiny_llama, tmp_path / "out", tmp_path / "scratch")
    run.supervised(epochs=5)  # 10 steps, a checkpoint after 2, 4, 6 and 8
    assert sorted(path.name for path in run.scratch.iterdir()) == ["step-000006", "step-000008"]
    assert KEPT == 2


def test_a_checkpoint_is_due_by_steps_and_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("pivotrl_core.training.checkpoint.time.monotonic", lambda: now)
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.due(step=10, every=5)
    assert not checkpoints.due(step=11, every=5)
    now += 15.0
    assert checkpoints.due(step=11, every=5)

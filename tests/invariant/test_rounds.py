"""Profiling again in the midst of training: when, from which weights, at what cost, and after a kill to the same bits.

The stages as they are, on a tiny model; the verifier pays for a letter, since such a model calls no tool.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.config.loading import parse_config
from pivotrl_core.config.tree import Config
from pivotrl_core.files import file_digest, read_json, read_jsonl, write_json
from pivotrl_core.pivots.pool import read_pool
from pivotrl_core.pivots.profile_record import read_profile
from pivotrl_core.pivots.selection import Pivots
from pivotrl_core.stages import context as stage_context
from pivotrl_core.stages import profile as profile_stage
from pivotrl_core.stages import train as train_stage
from pivotrl_core.stages.candidates import run_candidates
from pivotrl_core.stages.context import StageContext
from pivotrl_core.stages.profile import run_profile
from pivotrl_core.stages.select import run_select
from pivotrl_core.stages.train import run_train
from pivotrl_core.stages.warmup import run_warmup
from tests.toy_training import LetterVerifier, pull_toys, toy_trajectories

pytestmark = pytest.mark.usefixtures("deterministic")

STEPS, PROMPTS, GROUP, SAMPLES, CANDIDATES = 6, 2, 4, 4, 10
TRAIN = {
    "method": "grpo", "steps": STEPS, "prompts_per_step": PROMPTS, "group_size": GROUP, "max_tokens": 4,
    "checkpoint_every": 1, "parameters": {"kind": "lora", "rank": 4, "alpha": 8.0},
    "optimiser": {"learning_rate": 0.01}, "kl": {"weight": 0.1}, "replay": True,
    "reprofile": {"limit": 1, "window": 2, "zero_variance_share": None, "spread_change": 1.0},
}  # fmt: skip


@pytest.fixture(scope="module")
def a_letter_pays() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for stage in (profile_stage, train_stage):
            patch.setattr(stage, "configured_verifier", lambda *_: LetterVerifier())
        yield


def configuration(model: Path, rule: dict[str, Any], **train: Any) -> Config:
    return parse_config({
        "model": {"kind": "folder", "path": str(model)},
        "source": {"kind": "folder", "path": "unused: the data are pulled already"},
        "data": {"validation_share": 0.0, "test_share": 0.0},
        "compute": {"threads": 1, "dtype": "float32"},
        "warmup": {"epochs": 0},
        "profile": {"samples": SAMPLES, "max_tokens": 4, "block_trajectories": 3},
        "arms": {"base": {}, "again": {"select": rule, "train": TRAIN | train}},
    })  # fmt: skip


PIVOTS = {"rule": "pivots", "lambda_diff": 1.0}


def prepare(model: Path, root: Path, config: Config) -> StageContext:
    """A checkout up to where the arm trains."""
    pull_toys(root, toy_trajectories(CANDIDATES // 2))
    (root / "data/pulled/train/b.jsonl").unlink()
    write_json(root / "data/pulled/model.json", {"kind": "folder", "path": str(model), "digest": "d"})
    context = StageContext(config, root, root / "scratch", root / "store", root / "cache", root)
    run_warmup(context)
    run_candidates(context)
    run_profile(context, "base", "models/base")
    run_select(context, "again", "again", "base")
    return context


def train(context: StageContext) -> dict[str, str]:
    """Digests of all that the arm's training leaves."""
    run_train(context, "again", 0, "models/base", "again")
    files = [path for name in ("models/again", "reports/train") for path in (context.root / name).rglob("*.*")]
    return {path.relative_to(context.root).as_posix(): file_digest(path) for path in files if path.is_file()}


Stop = Callable[[Path, int, dict[str, float]], bool]


def killed(context: StageContext, stop: Stop) -> None:
    """Train, and be killed as a line of some metrics is told."""
    told = stage_context.MetricsFile.append

    def append(self: Any, step: int, metrics: Any) -> None:
        told(self, step, metrics)
        if stop(self._path, step, metrics):
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_context.MetricsFile, "append", append)
        with pytest.raises(KeyboardInterrupt):
            run_train(context, "again", 0, "models/base", "again")
    shutil.rmtree(context.root / "reports/train", ignore_errors=True)  # as DVC does before it runs a stage again


@pytest.fixture(scope="module")
def prepared(a_letter_pays: None, tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> StageContext:
    return prepare(tiny_llama, tmp_path_factory.mktemp("prepared"), configuration(tiny_llama, PIVOTS))


def copy(prepared: StageContext, root: Path, config: Config | None = None) -> StageContext:
    shutil.copytree(prepared.root, root)
    return StageContext(
        config or prepared.config, root, root / "scratch", root / "store", root / "cache", prepared.checkout
    )


@pytest.fixture(scope="module")
def undisturbed(prepared: StageContext, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    context = copy(prepared, tmp_path_factory.mktemp("undisturbed") / "checkout")
    return context.root, train(context)


def test_a_round_takes_weights_profile_and_pool_from_the_policy_as_it_is_and_is_told_and_paid_for(
    undisturbed: tuple[Path, dict[str, str]],
) -> None:
    root, _ = undisturbed
    reports = root / "reports/train/again-0"
    report, place = read_json(reports / "report.json"), reports / "rounds/1"
    (told,) = report["rounds"]
    assert (told["step"], told["reason"], told["turns"]) == (2, "spread_flat", SAMPLES * CANDIDATES)
    lines = [line["metrics"] for line in read_jsonl(reports / "metrics.jsonl")]
    assert [line["train/round"] for line in lines] == [0, 0, 1, 1, 1, 1]
    assert [line.get("train/reprofiled_spread_flat") for line in lines] == [None, None, 1.0, None, None, None]
    assert lines[2]["train/round_pool_size"] == told["pool"]
    # The pool is what the arm's rule keeps of the new profile, with the successes that it found.
    profile = read_profile(place / "profile/profile.parquet")
    kept = [decision.kept for decision in Pivots(1.0).decide(profile)]
    pool = read_pool(place / "pool/pool.parquet")
    assert [row.candidate.id for row in pool] == profile[kept]["candidate_id"].tolist()
    assert len(pool) == told["pool"] > 0
    before = read_profile(root / "data/profiles/base/profile.parquet")
    assert before["candidate_id"].tolist() == profile["candidate_id"].tolist()
    assert before["components"].tolist() != profile["components"].tolist()
    # pi_0 of the KL term is the policy at the round: as far from it as training has come since.
    assert lines[0]["train/kl"] == pytest.approx(0.0, abs=1e-6)
    assert lines[1]["train/kl"] > 1e-6
    assert lines[2]["train/kl"] == pytest.approx(0.0, abs=1e-6)
    assert lines[3]["train/kl"] > 1e-6
    costs = {name: value for name, value in report["metrics"].items() if name.startswith("cost/")}
    again = read_json(place / "profile/report.json")["metrics"]
    assert again["cost/rollout_turns"] == costs["cost/reprofiling_turns"] == SAMPLES * CANDIDATES
    assert costs["cost/rollout_turns"] == STEPS * PROMPTS * GROUP + SAMPLES * CANDIDATES
    assert costs["cost/generated_tokens"] > again["cost/generated_tokens"] > 0
    assert costs["cost/prefilled_tokens"] > again["cost/prefilled_tokens"] > 0


def in_the_round(path: Path, step: int, metrics: dict[str, float]) -> bool:
    return path.parent.name == "profile" and step == 0  # its first block of two is whole


def after_the_round(path: Path, step: int, metrics: dict[str, float]) -> bool:
    return path.parent.name == "again-0" and step == 4


@pytest.mark.parametrize("stop", [in_the_round, after_the_round])
def test_a_training_killed_in_or_after_a_round_ends_in_the_same_bits(
    stop: Stop, prepared: StageContext, undisturbed: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    context = copy(prepared, tmp_path / "killed")
    killed(context, stop)
    newest = sorted(path.name for path in (context.scratch / "checkpoints").iterdir())[-1]
    assert newest == ("step-000002" if stop is in_the_round else "step-000004")
    assert train(context) == undisturbed[1]


@pytest.mark.parametrize("spoilt", ["policy/adapter_model.safetensors", "pool/pool.parquet"])
def test_a_checkpoint_whose_round_is_spoilt_does_not_count(
    spoilt: str, prepared: StageContext, undisturbed: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    context = copy(prepared, tmp_path / "killed")
    killed(context, after_the_round)
    (context.scratch / "rounds/1" / spoilt).write_bytes(b"half")
    assert train(context) == undisturbed[1]


def test_full_parameters_are_anchored_to_the_round_too(
    prepared: StageContext, tiny_llama: Path, tmp_path: Path
) -> None:
    full = configuration(tiny_llama, PIVOTS, parameters={"kind": "full"}, optimiser={"learning_rate": 0.004})
    runs = [copy(prepared, tmp_path / name, full) for name in ("killed", "undisturbed")]
    killed(runs[0], after_the_round)
    assert train(runs[0]) == train(runs[1])
    lines = read_jsonl(tmp_path / "killed/reports/train/again-0/metrics.jsonl")
    kl = [line["metrics"]["train/kl"] for line in lines]
    assert kl[2] == pytest.approx(0.0, abs=1e-6)
    assert kl[1] > 1e-6 < kl[3]


def test_a_rule_that_leaves_nothing_ends_the_training_with_what_was_learned(
    prepared: StageContext, tiny_llama: Path, tmp_path: Path
) -> None:
    hard = configuration(tiny_llama, {"rule": "pivots", "lambda_diff": 0.1})  # no mean of 4 samples lies between
    context = copy(prepared, tmp_path / "nothing", hard)
    train(context)
    report = read_json(context.root / "reports/train/again-0/report.json")
    assert (report["steps"], report["rounds"][0]["pool"]) == (2, 0)
    assert report["ended"] == "profiling again left no pivot"
    told = read_json(context.root / "reports/train/again-0/rounds/1/pool/report.json")
    assert "no pivots are left" in told["error"]


def test_two_temperatures_are_looked_at_in_pairs(prepared: StageContext, tiny_llama: Path, tmp_path: Path) -> None:
    context = copy(prepared, tmp_path / "pairs", configuration(tiny_llama, PIVOTS, temperatures=[1.0, 0.5]))
    train(context)
    report = read_json(context.root / "reports/train/again-0/report.json")
    assert report["rounds"][0]["step"] == 3  # a window of two pairs is three steps
    assert "ended" not in report


def test_without_the_setting_candidates_are_not_even_looked_at(
    prepared: StageContext, tiny_llama: Path, tmp_path: Path
) -> None:
    context = copy(prepared, tmp_path / "never", configuration(tiny_llama, PIVOTS, reprofile=None))
    shutil.rmtree(context.root / "data/candidates")
    left = train(context)
    assert sorted(Path(name).name for name in left if name.startswith("reports/train/")) == [
        "metrics.jsonl", "report.json",
    ]  # fmt: skip
    report = read_json(context.root / "reports/train/again-0/report.json")
    assert "rounds" not in report
    assert not any("round" in name or "reprofil" in name for name in report["metrics"] if name != "cost/rollout_turns")

"""Every side of a benchmark computes the same, and every subcommand comes to its end on a tiny model."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.bench import training
from pivotrl_core.bench.conversations import desk_candidates
from pivotrl_core.bench.curtailing import GRID, CurtailBench, curtailed, decisions, real_streams, simulate
from pivotrl_core.bench.desk_profile import Clock
from pivotrl_core.bench.iterating import IterateBench
from pivotrl_core.bench.iterations import IterationPlan
from pivotrl_core.bench.measuring import Answer, Machine
from pivotrl_core.bench.profiling import ProfileBench
from pivotrl_core.bench.records import Comparison
from pivotrl_core.bench.steps import PaddedStep, Scores, TreeStep, disagreement, draw_group, with_sampled
from pivotrl_core.bench.training import TrainBench
from pivotrl_core.bench.trl_step import TrlSetting, TrlStep, missing_trl
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.vllm_server import PYTHON_VARIABLE
from pivotrl_core.errors import MeasurementError
from pivotrl_core.pivots.profile_record import write_candidates
from pivotrl_core.pivots.profiling import Rollout, write_rollouts
from pivotrl_core.types import Verdict
from tests.tiny_models import COMPUTE
from tests.vllm_stand_in import StandIn

HERE = Machine(lambda: None, isolated=False)  # in this process: nothing is measured here, only shown to work
COMPUTE_ONE = COMPUTE.model_copy(update={"lanes": 1})
RATIOS = {"cpu_ratio", "wall_ratio", "memory_ratio"}
pytestmark = [pytest.mark.usefixtures("deterministic"), pytest.mark.filterwarnings("ignore")]
needs_trl = pytest.mark.skipif(bool(missing_trl()), reason="TRL is not installed")


def given(folder: Path) -> dict[str, Any]:
    said: list[str] = []
    return {"folder": folder, "compute": COMPUTE_ONE, "machine": HERE, "say": said.append, "model": "tiny"}


def keys(comparisons: Iterable[Comparison]) -> list[tuple[str | None, set[str]]]:
    """Of each record, what it is against and what it tells beside its setting."""
    import json

    lines = [json.loads(one.line()) for one in comparisons]
    return [(line["against"], set(line) - {"bench", "against", "setting"}) for line in lines]


@needs_trl
@pytest.mark.parametrize("kind", ["tiny_llama", "tiny_qwen3"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_all_sides_of_a_step_come_to_one_loss_and_gradient(
    kind: str, dtype: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(kind)
    compute = ComputeConfig.model_validate({"threads": 1, "lanes": 1, "dtype": dtype})
    task = draw_group(4, 40, 6, 320)
    scores = Scores(folder, compute)
    scores.load(task)
    scores.run()
    task = with_sampled(task, scores.answer()["logprobs"])
    sides: dict[str, Any] = {
        "ours": TreeStep(folder, compute),
        "padded": PaddedStep(folder, compute, 3, False),
        "padded by tokens": PaddedStep(folder, compute, 100, True),
        "trl": TrlStep(folder, compute, 4, TrlSetting(2, checkpointing=False)),
        "trl again": TrlStep(folder, compute, 4, TrlSetting(1, checkpointing=True)),
    }
    answers: dict[str, Answer] = {}
    for name, side in sides.items():
        side.load(task)
        side.run()
        side.run()  # a second run does not add to the first
        answers[name] = side.answer()
    assert disagreement(answers, dtype) == ""
    assert abs(answers["ours"]["loss"]) > 0.02  # a loss of zero would say nothing
    flipped = replace(task, rewards=tuple(1.0 - reward for reward in task.rewards))
    sides["trl"].load(flipped)
    sides["trl"].run()
    assert disagreement({"ours": answers["ours"], "trl": sides["trl"].answer()}, dtype) != ""


@needs_trl
def test_train_tells_of_trl_s_fastest_the_padded_form_and_memory(tiny_llama: Path) -> None:
    bench = TrainBench(**given(tiny_llama), group=2, state=24, action=4, batch_group=2, rounds=1)
    told = list(bench.step())
    assert keys(told) == [
        ("trl", RATIOS), ("trl", {"memory_ratio"}), ("trl", RATIOS), ("trl", {"memory_ratio"}),
        ("trl", RATIOS), ("padded", RATIOS | {"of_limit"}),
    ]  # fmt: skip
    chosen = [one.setting.get("chosen") for one in told]
    assert chosen == ["fastest", "leanest", "fastest", "leanest", "one batch", None]
    recomputed = "activation checkpointing"
    assert [one.setting.get("ours") for one in told] == [None, None, recomputed, recomputed, None, None]
    assert told[0].setting["micro_batch"] in (1, 2)


def test_train_without_trl_compares_with_the_padded_form_alone(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "missing_trl", lambda: "not here")
    bench = TrainBench(**given(tiny_llama), group=2, state=24, action=4, batch_group=2, rounds=1)
    assert keys(bench.step()) == [("trl", {"skipped"}), ("padded", RATIOS | {"of_limit"})]


def test_sides_that_disagree_are_not_compared(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PaddedStep, "answer", lambda self: {"tokens": 8, "loss": self.loss, "norm": 0.0})
    bench = TrainBench(**given(tiny_llama), group=2, state=24, action=4, batch_group=2, rounds=1)
    with pytest.raises(MeasurementError, match=r"do not compute the same.*gradient norm"):
        list(bench.step())
    with pytest.raises(MeasurementError, match="do not compute the same"):
        list(bench.curve([2], [24]))


def test_the_curve_has_a_point_for_each_size(tiny_llama: Path) -> None:
    told = list(TrainBench(**given(tiny_llama), action=4).curve([4, 2], [16, 24]))
    assert keys(told) == [("padded", {"cpu_ratio", "wall_ratio", "of_limit"})] * 4
    sizes = [(one.setting["group_size"], one.setting["state_tokens"]) for one in told]
    assert sizes == [(2, 16), (2, 24), (4, 16), (4, 24)]
    one = told[-1]
    assert one.cpu_ratio is not None
    assert one.of_limit == pytest.approx(one.cpu_ratio / (4 * (24 + 4) / (24 + 4 * 4)))


def test_profile_writes_equally_many_tokens_on_both_sides(tiny_llama: Path) -> None:
    bench = ProfileBench(**given(tiny_llama), samples=2, max_tokens=3, tokens=600, turns=2, candidates=3, rounds=1)
    told = list(bench.run())
    assert keys(told) == [
        ("transformers", RATIOS), ("vllm", {"skipped"}), (None, {"ms_per_candidate", "shares"}),
    ]  # fmt: skip
    assert told[0].setting["generated_tokens"] == 2 * 2 * 3
    assert sum(told[2].shares.values()) == pytest.approx(1.0)
    assert {"rendering", "sampling", "verifying", "deciding", "storing"} == set(told[2].shares)


def test_profile_beside_a_server_tells_of_time_alone(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a server of ours where vLLM's would be: what is shown is the way of the requests, not vLLM."""
    stand_in = StandIn(tmp_path / "environment", monkeypatch, "serving")
    monkeypatch.setenv(PYTHON_VARIABLE, str(stand_in.folder))
    bench = ProfileBench(**given(tiny_llama), samples=2, max_tokens=3, tokens=600, turns=2, checkout=tmp_path, rounds=1)
    told = bench.against_vllm()
    assert keys([told]) == [("vllm", {"wall_ratio"})]
    assert told.setting["generated_tokens"] == 2 * 2 * 3
    gc.collect()
    assert stand_in.is_gone()
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "nowhere"))
    assert "no Python environment in" in bench.against_vllm().skipped


def test_curtail_changes_no_decision(tiny_llama: Path, tmp_path: Path) -> None:
    streams = simulate(40, 8)
    rollouts = [
        Rollout(f"c{at}", n, (1,), -1.0, "stop", Verdict(float(success), ""))
        for at, stream in enumerate(streams)
        for n, success in enumerate(stream)
    ]
    write_rollouts(tmp_path / "rollouts.parquet", rollouts)
    assert real_streams(tmp_path / "rollouts.parquet") == streams
    sizes = {"samples": 8, "max_tokens": 3, "simulated": 200, "candidates": 3, "rounds": 1}
    shutil.copytree(tiny_llama, tmp_path / "models/base")
    write_candidates(tmp_path / "data/candidates/candidates.parquet", desk_candidates(5))
    real = {"rollouts": tmp_path / "rollouts.parquet", "checkout": tmp_path, "real": 4}
    told = list(CurtailBench(**given(tiny_llama), **sizes, **real).run())
    decided = {"changed_decisions", "saved_share"}
    assert keys(told) == [*[("full-k", decided)] * 12, *[("full-k", RATIOS | decided)] * 2]
    assert [(one.setting["count"], one.setting["model"]) for one in told[-2:]] == [(3, "tiny"), (4, "the base policy")]
    empty = CurtailBench(**given(tiny_llama), checkout=tmp_path / "data")
    assert "has no candidates or no base policy" in empty._timed_on(tmp_path / "data").skipped
    exact, staged = ([one for one in told if ("error" in one.setting) == is_staged] for is_staged in (False, True))
    assert [one.changed_decisions for one in exact] == [0] * 6
    assert [one.setting["error"] for one in staged] == [0.01, 0.05, 0.1, 0.2] * 2
    assert all((one.changed_decisions or 0) <= one.setting["error"] * one.setting["count"] for one in staged)
    assert told[0].saved_share is not None
    assert told[0].saved_share > 0.05
    write_rollouts(tmp_path / "short.parquet", rollouts[1:])
    reasons = [
        CurtailBench(**given(tiny_llama), rollouts=tmp_path / name) for name in ("none.parquet", "short.parquet")
    ]
    assert [next(iter(one._real())).skipped for one in reasons] == [
        f"no rollouts of a profile at {tmp_path / 'none.parquet'}",
        f"{tmp_path / 'short.parquet'} is of a profile that was curtailed itself",
    ]


def test_a_decision_that_changed_would_be_seen() -> None:
    streams = simulate(100, 8)
    drawn = [curtailed(stream, GRID[1:2]) for stream in streams]
    full = [8] * len(streams)
    assert decisions(GRID[1], streams, drawn) == decisions(GRID[1], streams, full)
    assert decisions(GRID[0], streams, full) != decisions(GRID[1], streams, full)


@needs_trl
def test_iterate_does_equal_work_on_both_sides(tiny_llama: Path) -> None:
    plan = IterationPlan(samples=2, group=2, prompts=2, steps=2, max_tokens=3)
    told = list(IterateBench(**given(tiny_llama), plan=plan, candidates=3, micro_batch=1, rounds=1).run())
    assert keys(told) == [("public-tools", RATIOS)]


def test_a_clock_gives_time_to_the_inner_part() -> None:
    ticks = iter([0.0, 2.0, 5.0, 9.0])  # begin outer, begin inner, end inner, end outer
    clock = Clock(lambda: next(ticks))
    clock.time("outer", lambda: clock.time("inner", lambda: None))
    assert dict(clock.seconds) == {"outer": 6.0, "inner": 3.0}
    assert clock.shares() == {"outer": pytest.approx(2 / 3), "inner": pytest.approx(1 / 3)}

"""The GPU benchmarks come to their end on a processor, keep what they found, and begin with a check that can fail."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pivotrl_core.bench import gpu
from pivotrl_core.bench.chance import HELP_DESK, ChanceVerifier, draw_rates
from pivotrl_core.bench.checking import finite_or_text
from pivotrl_core.bench.conversations import desk_candidates
from pivotrl_core.bench.gpu import DRY, Ground, Part, plan, run_parts, setting_out
from pivotrl_core.bench.journal import Journal
from pivotrl_core.bench.measuring import Machine
from pivotrl_core.bench.shapes import SHAPES, random_model, write_shape
from pivotrl_core.bench.trl_step import missing_trl
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.errors import MeasurementError, OutOfTimeError
from pivotrl_core.files import read_jsonl
from pivotrl_core.grpo import tree_tiles
from pivotrl_core.types import Action
from tests.tiny_models import COMPUTE

COMPUTE_ONE = COMPUTE.model_copy(update={"lanes": 1})
VALUES = {"skipped", "wall_ratio", "ms_per_candidate"}
WITH_TRL = {("train", "trl", "wall_ratio"), ("train", "trl"), ("iterate", "public-tools", "wall_ratio")}
WITHOUT_TRL = {("train", "trl", "skipped"), ("iterate", "public-tools", "skipped")}
pytestmark = [pytest.mark.usefixtures("deterministic"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def tiny_shape(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shape("tiny", tiny_llama, tmp_path_factory.mktemp("shape"))


def ground(folder: Path) -> Ground:
    said: list[str] = []
    return Ground({"tiny": folder}, COMPUTE_ONE, Machine(lambda: None, isolated=False), said.append)


def journal(folder: Path) -> Journal:
    said: list[str] = []
    return Journal(folder, said.append, said.append)


def records(folder: Path) -> list[dict[str, Any]]:
    return read_jsonl(folder / "records.jsonl")


def test_all_parts_of_a_dry_run_end_and_leave_their_records(tiny_shape: Path, tmp_path: Path) -> None:
    place, parts = ground(tiny_shape), plan(DRY)
    book = journal(tmp_path)
    book.record(setting_out(place, parts, 600.0))
    assert run_parts(parts, place, book, 600.0) == []
    start, *lines = records(tmp_path)
    assert start["versions"]["torch"] == torch.__version__
    assert start["parameters"] == {"tiny": SHAPES["tiny"].parameters}
    told = [line for line in lines if "event" not in line]
    assert {(line["part"], line.get("against", "plain"), *VALUES & set(line)) for line in told} == {
        ("check", "plain"),
        ("curve", "padded", "wall_ratio"),
        ("profile", "transformers", "wall_ratio"),
        ("profile", None, "ms_per_candidate"),
        ("train", "padded", "wall_ratio"),
        ("curtail", "full-k", "wall_ratio"),
        ("curve-middle", "padded", "wall_ratio"),
        ("profile-large", "transformers", "wall_ratio"),
        ("vllm", "vllm", "skipped"),
        *(WITHOUT_TRL if missing_trl() else WITH_TRL),
    }
    checks = [line for line in told if line["part"] == "check"]
    assert [(line["dtype"], line["wrong"]) for line in checks] == [("float32", []), ("bfloat16", [])]
    assert checks[0]["gradient_difference"] < 1e-5
    assert abs(checks[0]["loss"]) > 0.01  # a loss of zero would say nothing
    assert checks[0]["greedy_equal"] == checks[0]["greedy_tokens"] == 2 * DRY.check[3]
    compared = [line for line in told if "wall_ratio" in line]
    assert all(line["ours"]["runs"] >= 1 and line["theirs"]["seconds"] > 0 for line in compared)


def test_a_wrong_attention_is_seen_by_the_check(
    tiny_shape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = tree_tiles.walk

    def no_end(parents: Any) -> Any:  # every node's subtree reaches to the end: an action sees those before it
        depths, ends = right(parents)
        return depths, [len(ends)] * len(ends)

    monkeypatch.setattr(tree_tiles, "walk", no_end)
    assert run_parts(plan(DRY)[:1], ground(tiny_shape), journal(tmp_path), 600.0) == ["check"]
    wrong = [line["wrong"] for line in records(tmp_path) if "wrong" in line]
    assert "gradient" in wrong[0]


def test_a_part_that_fails_or_runs_out_of_time_leaves_the_others_theirs(tmp_path: Path) -> None:
    def tell(values: dict[str, Any], error: Exception | None = None) -> gpu.Run:
        def run(place: Ground) -> Iterator[dict[str, Any]]:
            assert place.machine.until is not None
            yield {**values, "until": place.machine.until}
            if error is not None:
                raise error

        return run

    parts = [
        Part("odd", 1, tell({"found": 1}, ValueError("odd"))),
        Part("slow", 1, tell({"found": 2}, OutOfTimeError("ours: its time is over"))),
        Part("unequal", 1, tell({"found": 3}, MeasurementError("not the same"))),
        Part("good", 1, tell({"found": 4})),
    ]
    place = Ground({}, COMPUTE_ONE, Machine(lambda: None), lambda _text: None)
    assert run_parts(parts, place, journal(tmp_path), 400.0) == ["odd", "slow", "unequal"]
    lines = records(tmp_path)
    assert [line["found"] for line in lines if "found" in line] == [1, 2, 3, 4]
    ends_at = [line["until"] for line in lines if "until" in line]
    assert [round(later - ends_at[0]) for later in ends_at] == [0, 100, 200, 300]
    ends = {
        line["part"]: line.get("failed") or line.get("skipped") for line in lines if {"failed", "skipped"} & set(line)
    }
    assert ends["odd"].endswith("ValueError: odd\n")
    assert (ends["slow"], ends["unequal"]) == ("ours: its time is over", "not the same")
    assert run_parts(parts, place, journal(tmp_path / "late"), -1.0) == [part.name for part in parts]
    assert all("too little" in line["skipped"] for line in records(tmp_path / "late"))


def test_a_journal_is_on_the_disk_line_by_line_and_is_carried_on(tmp_path: Path) -> None:
    first = journal(tmp_path)
    first.record({"n": 1})
    first.say("begun")
    assert [line["n"] for line in records(tmp_path)] == [1]
    journal(tmp_path).record({"n": 2})
    assert [line["n"] for line in records(tmp_path)] == [1, 2]
    assert (tmp_path / "log.txt").read_text().split()[1:] == ["begun"]
    with pytest.raises(ValueError, match="JSON"):
        first.record({"n": float("nan")})


def test_a_shape_s_weights_are_the_same_in_every_process_and_dtype(tiny_shape: Path, tmp_path: Path) -> None:
    wide = random_model(tiny_shape, COMPUTE_ONE).model
    narrow = random_model(tiny_shape, ComputeConfig(threads=1, dtype="bfloat16")).model
    pairs = list(zip(wide.parameters(), narrow.parameters(), strict=True))
    assert all(torch.equal(one, other.float()) for one, other in pairs)
    assert {one.dtype for one, _ in pairs} == {torch.float32}
    assert sum(one.numel() for one, _ in pairs if one.dim() == 2) == SHAPES["tiny"].parameters
    other = random_model(write_shape("tiny", tiny_shape, tmp_path, seed=1), COMPUTE_ONE).model
    assert not torch.equal(next(other.parameters()), next(wide.parameters()))
    assert not list(tiny_shape.glob("*.safetensors"))


def test_shapes_are_as_large_as_the_models_that_they_are_named_after(tiny_llama: Path, tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    published = {"qwen2.5-0.5b": 0.494e9, "qwen3-0.6b": 0.596e9, "qwen2.5-1.5b": 1.54e9, "qwen2.5-7b": 7.615e9}
    for name, parameters in published.items():
        assert SHAPES[name].parameters == pytest.approx(parameters, rel=0.005)
    for name in ("qwen2.5-7b", "qwen3-0.6b"):
        config = AutoConfig.from_pretrained(write_shape(name, tiny_llama, tmp_path / name))
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        assert sum(one.numel() for one in model.parameters()) == pytest.approx(SHAPES[name].parameters, rel=0.001)


def test_what_json_has_no_number_for_is_told_as_text() -> None:
    assert finite_or_text({"loss": float("nan"), "gap": float("inf"), "greedy_equal": 3}) == {
        "loss": "nan", "gap": "inf", "greedy_equal": 3,
    }  # fmt: skip


def test_success_by_chance_depends_on_candidate_and_text_alone() -> None:
    candidates = desk_candidates(30)
    verifier = ChanceVerifier()
    texts = [Action(content=f"text {n}") for n in range(50)]
    shares = [sum(verifier.verify(one, text).reward for text in texts) / len(texts) for one in candidates]
    assert shares == [sum(verifier.verify(one, text).reward for text in texts[::-1]) / len(texts) for one in candidates]
    expected = [draw_rates(random.Random(one.id), HELP_DESK, 1)[0] for one in candidates]
    assert all(abs(share - rate) < 0.3 for share, rate in zip(shares, expected, strict=True))
    assert min(expected) < 0.2
    assert max(expected) > 0.8

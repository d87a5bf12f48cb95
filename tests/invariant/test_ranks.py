"""Two processes (gloo) give the losses, metrics and weights of one, and none ever waits for another in vain."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pivotrl_core.engines.model import prepare_torch
from pivotrl_core.errors import EXIT_CONFIG, EXIT_SOFTWARE
from pivotrl_core.files import file_digest, read_json, read_jsonl
from pivotrl_core.training.ranks import ONE_RANK, Ranks
from pivotrl_core.training.saving import load_tensors
from tasks.torchrun import exit_code
from tests.rank_training import TRAININGS, carry_on, train
from tests.tiny_models import COMPUTE, save_tiny

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = """
import sys
from pivotrl_core.errors import PivotRLError
from tasks.torchrun import launch
try:
    launch(2, sys.argv[1], sys.argv[2:])
except PivotRLError as error:
    print(error)
    sys.exit(error.exit_code)
"""


def torchrun(module: str, argument: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [sys.executable, "-c", LAUNCH, module, argument],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All trainings on one rank and on two: `of-1` and `of-2` hold what they leave."""
    root = tmp_path_factory.mktemp("ranks")
    for kind in {model for _, _, model, _ in TRAININGS.values()}:
        save_tiny(kind, root / kind)
    threads = torch.get_num_threads()
    prepare_torch(COMPUTE)
    train(root, ONE_RANK)
    done = torchrun("tests.rank_training", str(root))
    assert done.returncode == 0, done.stdout + done.stderr
    carry_on(root, ONE_RANK, stopped_on=2)
    yield root
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


def weights(folder: Path) -> dict[str, Tensor]:
    (file,) = (folder / "policy").glob("*.safetensors")
    return {name: tensor.float() for name, tensor in load_tensors(file).items()}


def moved(folder: Path, start: Path) -> float:
    """How far the weights went: the largest change of one; a fresh adapter's second factor is 0."""
    before = load_tensors(start / "model.safetensors")
    return max(
        float((tensor - before[name].float()).abs().max() if name in before else tensor.abs().max())
        for name, tensor in weights(folder).items()
        if name in before or "lora_B" in name
    )


def check_equal(one: Path, other: Path, tolerance: float) -> None:
    """Metrics, weights and all other files of two trainings: the first two to a tolerance.

    One weight in a hundred may be twice as far off: where a gradient is next to zero, rounding decides Adam's step.
    """
    first, second = (read_jsonl(folder / "metrics.jsonl") for folder in (one, other))
    assert [line["step"] for line in second] == [line["step"] for line in first]
    for line, twin in zip(first, second, strict=True):
        found, expected = ({n: v for n, v in each["metrics"].items() if "mismatch" not in n} for each in (twin, line))
        assert found == pytest.approx(expected, rel=tolerance, abs=tolerance)
    found, expected = weights(other), weights(one)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        distance = (found[name] - tensor).abs() / (1 + tensor.abs())
        assert float(distance.max()) < 2 * tolerance, name
        assert float((distance > tolerance).float().mean()) < 0.01, name
    for file in (one / "policy").iterdir():
        if file.suffix != ".safetensors":
            assert (other / "policy" / file.name).read_bytes() == file.read_bytes(), file.name


@pytest.mark.parametrize("name", TRAININGS)
def test_two_ranks_train_as_one(name: str, trained: Path) -> None:
    check_equal(trained / "of-1" / name, trained / "of-2" / name, 0.03 if "bf16" in name else 2e-4)
    went = moved(trained / "of-2" / name, trained / TRAININGS[name][2])
    assert went == 0.0 if name == "all-of-zero-variance" else went > 5e-3


def test_a_training_is_carried_on_by_as_many_ranks_to_the_bit_and_by_fewer_or_more(trained: Path) -> None:
    whole = trained / "of-2" / "grpo-full"
    names = ("metrics.jsonl", "policy/model.safetensors")
    again = trained / "of-2" / "stopped-on-2"
    assert [file_digest(again / name) for name in names] == [file_digest(whole / name) for name in names]
    check_equal(whole, trained / "of-2" / "stopped-on-1", 2e-4)
    check_equal(whole, trained / "of-1" / "stopped-on-2", 2e-4)


def test_each_rank_keeps_its_part_of_the_masters(trained: Path) -> None:
    found = read_json(trained / "shares.json")
    assert sum(found["shares"]) == found["whole"]
    assert max(found["shares"]) < 0.51 * found["whole"]


def test_masters_keep_what_bf16_would_lose(trained: Path) -> None:
    (checkpoint,) = (trained / "scratch-2-sft-bf16").glob("step-000002")
    state = load_tensors(checkpoint / "state.safetensors")
    masters = [tensor for name, tensor in state.items() if name.startswith("master.")]
    assert {tensor.dtype for tensor in masters} == {torch.float32}
    assert any(not torch.equal(tensor, tensor.bfloat16().float()) for tensor in masters)


def test_a_rank_that_fails_ends_the_others_at_once() -> None:
    begun = time.monotonic()
    done = torchrun("tests.rank_failing", "raise")
    assert done.returncode == EXIT_CONFIG, done.stdout + done.stderr
    assert "rank 1: 78" in done.stdout
    assert time.monotonic() - begun < 60.0


def test_a_rank_that_waits_too_long_for_another_fails() -> None:
    done = torchrun("tests.rank_failing", "hang")  # the other one sleeps for ten minutes
    assert done.returncode == EXIT_SOFTWARE, done.stdout + done.stderr
    assert "Timed out waiting" in done.stderr


def test_ranks_on_one_machine_listen_on_the_loopback_interface_alone() -> None:
    done = torchrun("tests.rank_listening", "")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "listening: 127.0.0.1" in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([78, 1], 78),  # what the second says is that it lost the first
        ([1, 65], 65),
        ([-15, 75], 75),
        ([-9, 1], 137),  # out of memory, say: a retry makes sense
        ([-15, 70], 70),
        ([1, -6], 70),  # gloo aborts
    ],
)
def test_what_failed_by_itself_decides_on_the_exit_code(codes: list[int], expected: int) -> None:
    assert exit_code(codes) == expected


@pytest.mark.parametrize(("number", "count"), [(0, 2), (1, 2), (5, 2), (7, 3), (2, 4)])
def test_shares_are_whole_in_order_and_about_even(number: int, count: int) -> None:
    shares = [Ranks(rank, count).share(number) for rank in range(count)]
    assert [one for share in shares for one in share] == list(range(number))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1

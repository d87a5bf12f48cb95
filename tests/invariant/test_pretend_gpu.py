"""What benchmarks and stages compute has all its tensors where the model is: on a device that refuses anything else.

The device computes on the processor (`tests/pretend_gpu.py`), by the code that a GPU would run: so its numbers are
compared too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pivotrl_core.bench.checking import CheckTask, DeviceCheck
from pivotrl_core.bench.conversations import desk_candidates, long_trajectories, turn_requests
from pivotrl_core.bench.desk_profile import DeskProfile, ProfilePlan
from pivotrl_core.bench.iterations import IterationPlan, OurIteration
from pivotrl_core.bench.measuring import Answer, Work
from pivotrl_core.bench.sampling import EngineSampling, GenerateSampling
from pivotrl_core.bench.shapes import random_model, write_shape
from pivotrl_core.bench.steps import PaddedStep, Scores, TreeStep, disagreement, draw_group, with_sampled
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.branches import plain_writes
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import SamplingConfig
from pivotrl_core.grpo import tree_attention
from tests.pretend_gpu import CUDA, PretendGPU

GROUP = draw_group(4, 40, 6, 512)
FEW = SamplingConfig(1.0, 4)
DTYPES = pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
pytestmark = [pytest.mark.usefixtures("deterministic"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def shape(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shape("tiny", tiny_llama, tmp_path_factory.mktemp("shape"))


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with PretendGPU():
        yield


def on_gpu(dtype: str = "float32") -> ComputeConfig:
    return ComputeConfig.model_validate({"threads": 1, "device": "cuda", "dtype": dtype})


def done(work: Work, task: Any) -> Answer:
    work.load(task)
    work.run()
    return work.answer()


def test_the_device_refuses_operands_on_two_devices() -> None:
    there, here = torch.zeros(3, device="cuda"), torch.zeros(3)
    assert (there.device, (there + 1).tolist(), there.cpu().device.type) == (CUDA, [1.0, 1.0, 1.0], "cpu")
    for operation in (torch.add, torch.dot, torch.equal):
        with pytest.raises(RuntimeError, match="some on cuda, some on cpu"):
            operation(there, here)
    assert (there + here.to("cuda")).tolist() == [0.0, 0.0, 0.0]


@DTYPES
def test_ours_is_right_where_its_code_is_that_of_a_gpu(shape: Path, dtype: str) -> None:
    model = random_model(shape, on_gpu(dtype)).model
    assert {tensor.device for tensor in (*model.parameters(), *model.buffers())} == {CUDA}
    found = done(DeviceCheck(shape, on_gpu(dtype)), CheckTask(GROUP, 6))
    assert found["wrong"] == []
    assert found["gradient_difference"] < (1e-5 if dtype == "float32" else 0.05)


def test_a_row_in_many_tiles_is_right_there_too(shape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_attention, "GPU_CALL_COST", 100)
    found = done(DeviceCheck(shape, on_gpu()), CheckTask(GROUP, 6))
    assert found["wrong"] == []
    assert found["gradient_difference"] < 1e-5


@DTYPES
def test_the_sides_of_a_step_stay_on_the_device_and_agree(shape: Path, dtype: str) -> None:
    scores = done(Scores(shape, on_gpu(dtype)), GROUP)
    task = with_sampled(GROUP, scores["logprobs"])
    answers = {
        "ours": done(TreeStep(shape, on_gpu(dtype)), task),
        "padded": done(PaddedStep(shape, on_gpu(dtype), 2, False), task),
    }
    assert disagreement(answers, dtype) == ""


def test_sampling_profiling_and_an_iteration_stay_on_the_device(shape: Path) -> None:
    from transformers import AutoTokenizer

    renderer = ChatRenderer(AutoTokenizer.from_pretrained(shape), "compact")
    requests = turn_requests(renderer, long_trajectories(renderer, 1, 600, None), 2, 2)
    for side in (EngineSampling, GenerateSampling):
        assert done(side(shape, on_gpu(), FEW), requests) == {"generated": 2 * 2 * 4}
    candidates = desk_candidates(2)
    plan = ProfilePlan(2, FEW, curtailed=True, by_chance=True)
    assert done(DeskProfile(shape, on_gpu(), plan), candidates)["samples"] >= 2
    found = done(OurIteration(shape, on_gpu(), IterationPlan(2, 2, 1, 1, 4)), candidates)
    assert found == {"generated": (2 * 2 + 2) * 4, "pivots": 2}


@pytest.mark.parametrize("warn_only", [False, True])
def test_writes_by_index_are_plain_on_a_gpu_while_it_samples(warn_only: bool) -> None:
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        with plain_writes(torch.device("cpu")):
            assert torch.are_deterministic_algorithms_enabled()
        with plain_writes(torch.device("cuda")), plain_writes(torch.device("cuda")):
            assert not torch.are_deterministic_algorithms_enabled()
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled() is warn_only
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])

"""What tests of every kind share: the folders of two tiny models, written once per session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.tiny_models import save_tiny

# A loaded machine is no bug, so nothing is timed. In CI the same cases are tried every time; a desk tries new ones.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with real services run last.

    Threads that Prefect leaves in this process draw random numbers, which Hypothesis takes for a strategy's own and
    reports as an error of whatever property it is trying just then.
    """
    items.sort(key=lambda item: "pipeline" in item.path.parts)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random Llama with a tokenizer."""
    return save_tiny("llama", tmp_path_factory.mktemp("tiny-llama"))


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random Qwen3 with a tokenizer."""
    return save_tiny("qwen3", tmp_path_factory.mktemp("tiny-qwen3"))


@pytest.fixture
def deterministic() -> Iterator[None]:
    """Torch as the stages set it up: one thread, no kernel whose result may change from run to run."""
    import torch

    from pivotrl_core.engines.model import prepare_torch
    from tests.tiny_models import COMPUTE

    threads = torch.get_num_threads()
    prepare_torch(COMPUTE)
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)

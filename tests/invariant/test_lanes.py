"""Two threads give the bits that one gives: how a batch is cut is a parameter, how many parts run at once is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pivotrl_core.config.arms import FullParameters, GRPOTrain, KLConfig, LoRA
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.adapters import merged_adapters, no_false_alarms
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import load_policy
from pivotrl_core.engines.protocol import Request, Sample, SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.environments.episodes import EpisodePlayer
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.evaluation.drift import continuation, score_texts
from pivotrl_core.lanes import Lanes
from pivotrl_core.types import Split
from tests.tiny_models import EOS, tiny_model, tiny_tokenizer
from tests.toy_training import LOW_RANK, Run

pytestmark = pytest.mark.usefixtures("deterministic")

SEVEN = [tuple(range(5, 5 + length)) for length in (3, 9, 4)] + [(7, 30 + k, 31) for k in range(4)]
LANES = [Lanes(2, 1), Lanes(2, 2)]
SETTINGS = GRPOTrain.model_validate({
    "method": "grpo", "steps": 3, "prompts_per_step": 8, "group_size": 6, "max_tokens": 5,
    "kl": KLConfig(weight=0.05),
})  # fmt: skip


def sampled(lanes: Lanes, seeds: int = 6) -> tuple[list[list[Sample]], TransformersEngine]:
    engine = TransformersEngine(tiny_model("qwen3"), [EOS], lanes=lanes)
    requests = [Request(str(i), ids, tuple(100 * i + k for k in range(seeds))) for i, ids in enumerate(SEVEN)]
    return engine.sample(requests, SamplingConfig(1.0, 12)), engine


def test_samples_and_their_count_are_those_of_one_thread() -> None:
    (one, first), (two, second) = map(sampled, LANES)
    assert one == two
    assert first.count == second.count
    assert second.count.turns == 6 * len(SEVEN)
    assert first.version == second.version != sampled(Lanes(1, 1))[1].version


def test_halves_sample_what_the_whole_batch_does() -> None:
    # Equal up to near-ties: none of these few draws lies within rounding of a border between two tokens.
    whole, halves = sampled(Lanes(1, 1))[0], sampled(Lanes(2, 2))[0]
    assert [[one.ids for one in group] for group in whole] == [[one.ids for one in group] for group in halves]


@pytest.mark.parametrize("parameters", [LOW_RANK, FullParameters(kind="full")], ids=["lora", "full"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_training_leaves_the_same_files(
    parameters: LoRA | FullParameters, dtype: str, tiny_llama: Path, tmp_path: Path
) -> None:
    left = []
    for threads in (1, 2):
        compute = ComputeConfig(threads=threads, lanes=2, dtype=dtype)
        run = Run(tiny_llama, tmp_path / f"{threads}", tmp_path / f"scratch-{threads}", parameters, compute)
        policy_gradient = run.policy_gradient(SETTINGS)
        run = replace(run, out=tmp_path / f"sft-{threads}", scratch=tmp_path / f"sft-scratch-{threads}")
        left.append((policy_gradient, run.supervised()))
    assert left[0] == left[1]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_of_experts_train_and_sample_with_two_threads(dtype: str, tmp_path: Path) -> None:
    tiny_model("qwen3_moe").save_pretrained(tmp_path / "moe")
    tiny_tokenizer().save_pretrained(tmp_path / "moe")
    left = []
    for threads in (1, 2):
        compute = ComputeConfig(threads=threads, lanes=2, dtype=dtype)
        run = Run(tmp_path / "moe", tmp_path / f"{threads}", tmp_path / f"scratch-{threads}", LOW_RANK, compute)
        left.append(run.policy_gradient(SETTINGS))
    assert left[0] == left[1]
    ids = torch.arange(5, 30)[None]
    trained, base = (
        load_policy(folder, tmp_path / "moe", ComputeConfig(threads=1, dtype=dtype)).model
        for folder in (run.out / "policy", tmp_path / "moe")
    )
    with torch.no_grad():
        assert not torch.equal(trained(ids).logits, base(ids).logits)


def test_adapters_of_experts_are_added_in_while_sampling_and_taken_out_again() -> None:
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    with no_false_alarms():
        model = get_peft_model(tiny_model("qwen3_moe"), settings).eval()
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    ids = torch.arange(5, 30)[None]
    with torch.no_grad():
        expected = model(ids).logits
        with merged_adapters(model):
            for layer in model.modules():
                assert getattr(layer, "merged", True)
            merged = model(ids).logits
        with model.disable_adapter():
            assert (model(ids).logits - expected).abs().max() > 0.1
    torch.testing.assert_close(merged, expected, rtol=1e-4, atol=1e-4)
    assert all(torch.equal(before[name], parameter) for name, parameter in model.named_parameters())


def test_episodes_are_those_of_one_thread(tiny_llama: Path) -> None:
    domain = get_domain("helpdesk")
    tasks = domain.tasks(Split.TEST, 5, seed=1)
    played = []
    for lanes in LANES:
        policy = load_policy(tiny_llama, tiny_llama, ComputeConfig(threads=1, dtype="float32"))
        renderer = ChatRenderer(policy.tokenizer, "compact")
        engine = TransformersEngine(policy.model, [renderer.eos_id, *range(60, 200)], lanes=lanes)
        player = EpisodePlayer(engine, renderer, domain, max_tokens=8, max_turns=3)
        played.append((player.play(tasks, [0.0, 1.0], "test", 3), engine.count))
    assert played[0] == played[1]
    assert len(played[1][0]) == 10


def test_drift_is_that_of_one_thread() -> None:
    from tests.unit.test_drift import always

    texts = [continuation(tuple(range(3, 9 + n)), (8, 9 + n)) for n in range(6)]
    policy, base = (always(tiny_model("llama", seed=seed)) for seed in (1, 2))
    one, two = (score_texts(policy, base, texts, 20, lanes) for lanes in LANES)
    assert one == two
    assert one.kl > 0.01

"""Which models may share what they compute: told by their configuration, and by trying them on a few tokens."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from pivotrl_core.engines.sharing import choose_layout, logits_obstacle, sharing_obstacle
from pivotrl_core.errors import ConfigError
from pivotrl_core.grpo.choices import BatchLayout
from tests.tiny_models import PADDED_KINDS, tiny_model

SHARING_KINDS = ("llama", "smollm2", "qwen3", "qwen3_moe")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", SHARING_KINDS)
def test_models_of_full_attention_share_in_full_and_in_half_precision(kind: str, dtype: str) -> None:
    model = tiny_model(kind)
    model = model.bfloat16() if dtype == "bfloat16" else model
    assert sharing_obstacle(model) == ""
    assert logits_obstacle(model) == ""
    assert choose_layout(model, BatchLayout.AUTO) is choose_layout(model, BatchLayout.TREE) is BatchLayout.TREE


@pytest.mark.parametrize("kind", PADDED_KINDS)
def test_other_models_are_padded_with_a_line_that_says_why(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    model = tiny_model(kind)
    with caplog.at_level(logging.WARNING):
        assert choose_layout(model, BatchLayout.AUTO) is BatchLayout.PADDED
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("pivotrl_core")]
    assert "padded" in line
    assert model.config.model_type in line
    assert logits_obstacle(model) == ""


def test_a_model_of_text_and_images_is_told_by_its_text_part() -> None:
    """Its windows stand in a configuration below its own, and are longer than what can be tried."""
    text = {"vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 32,
            "layer_types": ["sliding_attention", "full_attention"]}  # fmt: skip
    vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
              "image_size": 28, "patch_size": 14}  # fmt: skip
    config = transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=1)
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    assert "layers other than full attention" in sharing_obstacle(model)
    assert choose_layout(model, BatchLayout.AUTO) is BatchLayout.PADDED
    assert logits_obstacle(model) == ""


@pytest.mark.parametrize("kind", PADDED_KINDS)
def test_a_tree_that_would_not_be_exact_is_refused_with_field_and_remedy(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"compute\.layout: .*; set it to auto or padded"):
        choose_layout(tiny_model(kind), BatchLayout.TREE)


@pytest.mark.parametrize("kind", [*SHARING_KINDS, *PADDED_KINDS])
def test_any_model_may_be_padded(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    assert choose_layout(tiny_model(kind), BatchLayout.PADDED) is BatchLayout.PADDED
    assert caplog.records == []


def test_a_layer_of_another_kind_is_found_by_trying_it() -> None:
    # Its configuration says full attention, but a layer adds the mean of all tokens so far, as a recurrent one might.
    model = tiny_model("llama")
    layer = model.model.layers[1]
    forward = layer.forward

    def with_mean(hidden: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        seen = torch.arange(1, hidden.shape[1] + 1)[:, None]
        mixed: Tensor = forward(hidden + hidden.cumsum(dim=1) / seen, *args, **kwargs)
        return mixed

    layer.forward = with_mean
    assert "something other than full causal attention" in sharing_obstacle(model)


def test_positions_that_a_model_takes_for_its_own_are_found_by_trying_them() -> None:
    model = tiny_model("llama")
    forward = model.model.rotary_emb.forward
    model.model.rotary_emb.forward = lambda x, position_ids: forward(x, position_ids - position_ids[:, :1])
    assert "something other than full causal attention" in sharing_obstacle(model)


def test_what_is_done_to_logits_is_found_by_trying_the_head() -> None:
    model = tiny_model("llama")
    head = model.lm_head.forward
    model.lm_head.forward = lambda hidden: 0.5 * head(hidden)
    assert "something behind the output head" in logits_obstacle(model)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_rotary_embeddings_that_depend_on_the_longest_sequence_are_padded(kind: str) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    factors = {"long_factor": [4.0] * 8, "short_factor": [1.0] * 8} if kind == "longrope" else {}
    config = LlamaConfig(
        vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=128,
        rope_parameters={
            "rope_type": kind, "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32, **factors,
        },
    )  # fmt: skip
    assert "depends on the length of the batch" in sharing_obstacle(LlamaForCausalLM(config))

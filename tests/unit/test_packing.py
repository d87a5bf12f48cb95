"""Reordered weights give the products of the weights as they lie, to the bit, and nothing of them stays."""

from __future__ import annotations

import pytest
import torch

from pivotrl_core.engines.packing import packed_weights
from pivotrl_core.engines.protocol import SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from tests.invariant.test_engine import EOS, PROMPTS, requests
from tests.tiny_models import tiny_model

HAS_BF16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()


@pytest.mark.skipif(not HAS_BF16, reason="this processor has no instructions for bf16 products")
def test_products_with_packed_weights_are_the_same_bits() -> None:
    torch.manual_seed(0)
    layers = torch.nn.ModuleList([torch.nn.Linear(96, 200, bias=bias) for bias in (True, False)]).bfloat16()
    with torch.no_grad():
        for shape in [(1, 1, 96), (13, 1, 96), (3, 50, 96), (700, 96)]:
            rows = torch.randn(shape).bfloat16()
            plain = [layer(rows) for layer in layers]
            with packed_weights(layers):
                assert all("forward" in layer.__dict__ for layer in layers)
                with packed_weights(layers):  # another lane: it finds them packed, and leaves them so
                    pass
                assert all(torch.equal(layer(rows), one) for layer, one in zip(layers, plain, strict=True))
            assert not any("forward" in layer.__dict__ for layer in layers)


def test_a_model_samples_the_same_bits_and_what_was_packed_follows_its_weights() -> None:
    model = tiny_model("llama").bfloat16()
    engine, sampling = TransformersEngine(model, [EOS]), SamplingConfig(0.8, 8)
    first = engine.sample(requests(PROMPTS, 3), sampling)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
    second = engine.sample(requests(PROMPTS, 3), sampling)
    assert second != first
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pivotrl_core.engines.packing._is_packable", lambda _: False)
        assert engine.sample(requests(PROMPTS, 3), sampling) == second

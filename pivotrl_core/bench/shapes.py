"""Models of known shapes with random weights: what a step or a sample of such a size costs needs no trained ones.

A shape's folder holds a configuration, a tokenizer and a seed. Weights are drawn in bfloat16 where the model will
compute, in each process again, the same ones on the same kind of device; they are never written. The tokenizer is a
small one of another model: texts have its number of tokens, and what is sampled from random weights is no text anyway.

Sizes are those of the published configurations of Qwen2.5 and Qwen3. Numbers that change no cost are left at
transformers' defaults.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.hub import TOKENIZER_FILES
from pivotrl_core.engines.model import Policy, load_model, torch_dtype
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import read_json, write_json

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

MARK = "random.json"  # in a shape's folder: the seed of its weights
CONFIG = "config.json"


@dataclass(frozen=True, slots=True)
class Shape:
    """A size of model.

    Attributes:
        kind: a model type of transformers.
        vocabulary: entries of the embedding; of the tokenizer's where that has more.
        hidden, inner: numbers of a hidden state, and inside the feed-forward layers.
        heads, key_heads, head: of queries, of keys and values, and numbers of each.
        tied: whether the output head is the embedding.
    """

    kind: str
    vocabulary: int
    hidden: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    head: int
    tied: bool

    @property
    def parameters(self) -> int:
        """Weights of the matrices; norms and biases are left out.

        >>> round(SHAPES["qwen2.5-7b"].parameters / 1e9, 2)
        7.62
        """
        attention = self.hidden * self.head * (2 * self.heads + 2 * self.key_heads)
        layer = attention + 3 * self.hidden * self.inner
        return self.layers * layer + self.vocabulary * self.hidden * (1 if self.tied else 2)


SHAPES = {
    "qwen2.5-0.5b": Shape("qwen2", 151_936, 896, 4864, 24, 14, 2, 64, tied=True),
    "qwen3-0.6b": Shape("qwen3", 151_936, 1024, 3072, 28, 16, 8, 128, tied=True),
    "qwen2.5-1.5b": Shape("qwen2", 151_936, 1536, 8960, 28, 12, 2, 128, tied=True),
    "qwen2.5-7b": Shape("qwen2", 152_064, 3584, 18_944, 28, 28, 4, 128, tied=False),
    "tiny": Shape("qwen2", 512, 64, 128, 2, 4, 2, 16, tied=True),
}


def write_shape(name: str, tokenizer: Path, folder: Path, seed: int = 0) -> Path:
    """Write a shape's folder, with the tokenizer of another model's; it is the answer.

    Args:
        name: of a shape.
        tokenizer: a model folder that has one.
        folder: to write; what is there is written anew.
        seed: of the weights.

    Raises:
        ConfigError: there is no such shape.
    """
    if name not in SHAPES:
        raise ConfigError(f"no shape is called {name!r}; there are {', '.join(SHAPES)}")
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in TOKENIZER_FILES:
        for file in tokenizer.glob(pattern):
            if file.name != CONFIG:
                shutil.copyfile(file, folder / file.name)
    write_json(folder / CONFIG, _config(SHAPES[name], _entries(folder)).to_dict())
    write_json(folder / MARK, {"seed": seed})
    return folder


def load_any(folder: Path, compute: ComputeConfig) -> Policy:
    """A model folder's model as everywhere; of a shape's, one whose weights are drawn now."""
    return random_model(folder, compute) if (folder / MARK).is_file() else load_model(folder, compute)


def random_model(folder: Path, compute: ComputeConfig) -> Policy:
    """The model of a shape's folder, frozen and in eval mode, on the device and in the dtype of `compute`.

    Whatever the dtype, weights are what bfloat16 can hold: sides that compute in either have the same model.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    seed = int(read_json(folder / MARK)["seed"])
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    torch.manual_seed(seed)  # on every device
    with torch.device(compute.device):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return Policy(model.to(torch_dtype(compute)).eval().requires_grad_(False), tokenizer, adapter=False)


def _entries(folder: Path) -> int:
    from transformers import AutoTokenizer

    return len(AutoTokenizer.from_pretrained(folder, local_files_only=True))


def _config(shape: Shape, entries: int) -> PreTrainedConfig:
    from transformers import AutoConfig

    given: dict[str, Any] = {
        "vocab_size": max(shape.vocabulary, entries), "hidden_size": shape.hidden, "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads, "num_key_value_heads": shape.key_heads,
        "tie_word_embeddings": shape.tied, "max_position_embeddings": 32_768,
    }  # fmt: skip
    if shape.head * shape.heads != shape.hidden:
        given["head_dim"] = shape.head
    return AutoConfig.for_model(shape.kind, **given)

"""Policies on disk, bit-stable: equal weights are equal bytes, wherever and whenever they were written.

safetensors files carry one metadata key (several are written in random order), PEFT's sets are sorted, and no absolute
path gets into a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pivotrl_core.files import read_json, write_json


def save_adapter(model: Any, factors: dict[str, Tensor], folder: Path) -> None:
    """Write a PEFT adapter (`adapter_config.json`, `adapter_model.safetensors`); factors go by parameter name."""
    from peft import get_peft_model_state_dict

    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(get_peft_model_state_dict(model, state_dict=factors), folder / "adapter_model.safetensors")
    settings = model.peft_config["default"].to_dict()
    settings["base_model_name_or_path"] = ""
    settings["inference_mode"] = True
    write_json(folder / "adapter_config.json", _plain(settings))


def save_model(
    model: Any, tokenizer: Any, folder: Path, *, untied: bool = False, weights: dict[str, Tensor] | None = None
) -> None:
    """Write a whole model with its tokenizer; `untied`: with an output head of its own, also where it shares one.

    `weights` are those to write where they are not simply the model's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, state_dict=_with_own_head(model) if untied else weights)
    tokenizer.save_pretrained(folder)
    config = read_json(folder / "config.json")
    config.pop("_name_or_path", None)
    config.pop("_model_name_or_path", None)
    if untied:
        config["tie_word_embeddings"] = False
    write_json(folder / "config.json", config)
    for file in folder.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


def _with_own_head(model: Any) -> dict[str, Tensor]:
    head = model.get_output_embeddings()
    name = next(name for name, module in model.named_modules() if module is head)
    return {**model.state_dict(), f"{name}.weight": head.weight.detach().clone()}


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors in name order, with the one metadata key that loaders ask for. Raises OSError where it cannot."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    from pivotrl_core.files import atomic_path

    ordered = {name: tensors[name].detach().contiguous().cpu() for name in sorted(tensors)}
    with atomic_path(path) as name:  # straight from the tensors' memory: a copy of a checkpoint is gigabytes
        try:
            save_file(ordered, name, metadata={"format": "pt"})
        except SafetensorError as error:  # a full disk, say: told as that of any other file is
            raise OSError(f"{path}: {error}") from error


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file (never a pickle)."""
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = load_file(path)
    return tensors


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(getattr(value, "value", value))

"""Loading policies: Hugging Face folders (safetensors) and PEFT adapters on top of them, nothing of our own.

A policy folder is one of three: a whole model (`config.json`), an adapter (`adapter_config.json`, relative to the base
policy), or a pointer (`policy.json`) to a model elsewhere, so that a large model that needs no warm-up is not copied.
A pointer holds what the configuration says and no place on this machine: pointers of two checkouts are equal bytes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.hub import MODEL_FILES, TOKENIZER_FILES, HubRepository
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import read_json

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

POINTER = "policy.json"
ADAPTER = "adapter_config.json"


@dataclass(slots=True)
class Policy:
    """A loaded model with its tokenizer. `adapter` says whether a PEFT adapter is on top of the frozen base."""

    model: PreTrainedModel | Any
    tokenizer: PreTrainedTokenizerBase
    adapter: bool


def prepare_torch(compute: ComputeConfig) -> None:
    """Set threads and forbid kernels whose result may change from run to run (on a GPU as far as there are others)."""
    import torch

    torch.set_num_threads(compute.threads_per_lane)
    if compute.device == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it each product warns
        torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for every shape, and here each row has its own
    torch.use_deterministic_algorithms(True, warn_only=compute.device == "cuda")
    # Determinism does not need it here (nothing reads memory it did not write), and it costs 5 % of a decoding step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def compute_dtype(compute: ComputeConfig) -> str:
    """Name of the dtype that models compute in on this machine: the configured one, or what suits its processor."""
    if compute.dtype != "auto":
        return compute.dtype
    return "bfloat16" if compute.device == "cuda" or _multiplies_bfloat16() else "float32"


def _multiplies_bfloat16() -> bool:
    # Without such instructions oneDNN converts back and forth, at a seventh of fp32's speed (lab log, 2026-11-29).
    import torch

    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def torch_dtype(compute: ComputeConfig) -> torch.dtype:
    """The torch dtype that models compute in on this machine."""
    import torch

    return {"bfloat16": torch.bfloat16, "float32": torch.float32}[compute_dtype(compute)]


def follow_path(folder: Path, checkout: Path) -> Path:
    """Follow a pointer folder to the model folder it names; any other folder is the answer itself.

    Args:
        folder: of a policy.
        checkout: what a relative path is relative to.
    """
    pointer = folder / POINTER
    named = read_json(pointer) if pointer.exists() else {}
    return checkout / Path(named["path"]).expanduser() if "path" in named else folder


def resolve_folder(folder: Path, files: Sequence[str] = MODEL_FILES) -> Path:
    """Follow a pointer folder to the revision it names, in the hub's own cache; any other folder is the answer itself.

    Args:
        folder: of a policy.
        files: patterns of those that must be there.

    Raises:
        ConfigError: the hub has no such model.
        TemporaryError: the hub cannot be reached.
    """
    pointer = folder / POINTER
    if not pointer.exists():
        return folder
    named = read_json(pointer)
    return HubRepository("model", named["repo"], named["revision"]).download(files)


def context_tokens(config: Any) -> int:
    """Longest context that a model was made for; as good as none where its config names none.

    Models that also see keep what concerns text in a config of its own, some families have names of their own for it.
    """
    return int(getattr(config.get_text_config(), "max_position_embeddings", None) or sys.maxsize)


def load_policy(folder: Path, base: Path, compute: ComputeConfig) -> Policy:
    """Load the policy in `folder`; an adapter goes on top of the model in `base`. The model is in eval mode, frozen."""
    if (folder / ADAPTER).exists():
        policy = load_model(resolve_folder(base), compute)
        policy.model = _with_adapter(policy.model, folder)
        policy.adapter = True
        return policy
    return load_model(resolve_folder(folder), compute)


def load_tokenizer(folder: Path, base: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of the policy in `folder`, without its model."""
    from transformers import AutoTokenizer

    place = resolve_folder(base if (folder / ADAPTER).exists() else folder, TOKENIZER_FILES)
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(place, local_files_only=True)
    return tokenizer


def load_model(folder: Path, compute: ComputeConfig) -> Policy:
    """Load a whole model with its tokenizer, without any network.

    Raises:
        ConfigError: the folder holds none, or one that is damaged or that transformers does not know.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not (folder / "config.json").exists():
        raise ConfigError(f"{folder}: no Hugging Face model here (config.json is missing); name a model folder")
    if not any(folder.glob("*.safetensors")):
        raise ConfigError(f"{folder}: no safetensors file here, and weights are read from no other; convert the model")
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch_dtype(compute), local_files_only=True, use_safetensors=True
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (ValueError, OSError, SafetensorError) as error:
        raise ConfigError(
            f"{folder}: not a causal language model that transformers can load ({type(error).__name__}: {error}); "
            "name another one, or bring its files anew"
        ) from error
    return Policy(model.to(compute.device).eval().requires_grad_(False), tokenizer, adapter=False)


def _with_adapter(model: Any, folder: Path) -> Any:
    from peft import PeftModel

    from pivotrl_core.engines.adapters import no_false_alarms

    dtype = model.dtype
    with no_false_alarms():
        return PeftModel.from_pretrained(model, folder, autocast_adapter_dtype=False).to(dtype).eval()

